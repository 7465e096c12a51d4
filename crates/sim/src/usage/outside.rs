//! The cluster: objects with uids, owners, marks and departure times. Usages are objects too.

use std::collections::BTreeMap;

use usher_domain::usage::aggregate::{OwnerReference, Spec, Status, Usage};
use usher_domain::usage::reference::{ObjectKey, UsageKey};
use usher_domain::usage::refusal::Refusal;
use usher_kernel::{NameLedger, Record, Uid, Version};

use crate::clock::{Tick, timestamp};

/// The group of every object here but Usages.
pub const GROUP: &str = "example.org";
/// The group of Usages.
pub const USAGES: &str = "protection.usher.dev";

/// An owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owner.
    pub uid: u64,
    /// Whether it is the controller.
    pub controller: bool,
    /// Whether it waits for the object when it is deleted in the foreground.
    pub blocks: bool,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its uid.
    pub uid: u64,
    /// What it is called.
    pub key: ObjectKey,
    /// Its label `app`.
    pub app: String,
    /// Its mark.
    pub mark: Option<String>,
    /// A person's note that releases it.
    pub note: Option<String>,
    /// Its owners.
    pub owners: Vec<Owner>,
    /// When it was created.
    pub created: Tick,
    /// The revision of its last write.
    pub revision: u64,
    /// Since when it is being deleted.
    pub deleting: Option<Tick>,
    /// Whether it waits for those that block it.
    pub foreground: bool,
    /// How long its own controller delays its deletion.
    pub hold_lease: Tick,
    /// What it says as a Usage.
    pub body: Option<Body>,
    /// When the collector visits it again.
    pub collect_at: Tick,
    /// How long the collector waits after it was denied.
    pub collect_pause: Tick,
}

/// What a Usage says.
#[derive(Clone, Debug)]
pub struct Body {
    /// Its kind, namespace and name.
    pub key: UsageKey,
    /// What was declared.
    pub spec: Result<Spec, Refusal>,
    /// Whether our finalizer holds it.
    pub finalizer: bool,
    /// What became of it.
    pub status: Status,
    /// Its identity rows.
    pub name_ledger: NameLedger,
}

/// The cluster.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Every existing object.
    pub objects: Vec<Object>,
    /// The revision of the last write.
    pub revision: u64,
    /// The uid of the newest object.
    pub newest: u64,
    /// What changed and was not delivered by the watch yet.
    pub changes: Vec<(Tick, ObjectKey)>,
    /// Namespaces being deleted, and when their content is checked again.
    pub finalization: BTreeMap<String, Tick>,
    /// Kinds that were removed, and when they reappear.
    pub removed_until: BTreeMap<String, Tick>,
    /// What Crossplane's own Usages block, and until when.
    pub blocked_until: BTreeMap<ObjectKey, Tick>,
    /// Until when the cluster is another one.
    pub rebuilt_until: Tick,
    /// Until when much seems absent or made again.
    pub guarded_until: Tick,
    /// Until when the collector does nothing.
    pub asleep_until: Tick,
    /// What a replica that lags shows.
    pub replica: Option<(u64, Vec<Object>)>,
}

/// A uid as the API spells it.
pub fn uid(number: u64) -> Uid {
    Uid::new(number.to_string())
}

/// The number behind a uid.
pub fn number(uid: &Uid) -> u64 {
    uid.0.parse().unwrap_or(0)
}

/// An object of this kind in the first namespace.
pub fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey {
        group: GROUP.to_owned(),
        kind: kind.to_owned(),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

impl Object {
    /// The Usage that it is.
    pub fn usage(&self) -> Option<Usage> {
        let body = self.body.as_ref()?;
        let owners = self.owners.iter().map(|it| OwnerReference {
            uid: uid(it.uid),
            controller: it.controller,
            blocks: it.blocks,
        });
        Some(Usage {
            key: body.key.clone(),
            uid: uid(self.uid),
            created_at: timestamp(self.created),
            deleting: self.deleting.is_some(),
            finalizer: body.finalizer,
            owners: owners.collect(),
            spec: body.spec.clone(),
            status: body.status.clone(),
        })
    }

    /// The record of the Usage that it is.
    pub fn record(&self) -> Option<Record<Usage>> {
        let name_ledger = self.body.as_ref()?.name_ledger.clone();
        Some(Record { version: Version(self.revision), state: self.usage()?, name_ledger })
    }

    /// The uids of its owners, sorted.
    pub fn owner_uids(&self) -> Vec<Uid> {
        let mut owners: Vec<Uid> = self.owners.iter().map(|it| uid(it.uid)).collect();
        owners.sort();
        owners
    }
}

impl Outside {
    /// The object with this uid.
    pub fn by_uid(&self, uid: u64) -> Option<&Object> {
        self.objects.iter().find(|it| it.uid == uid)
    }

    /// The object with this uid.
    pub fn by_uid_mut(&mut self, uid: u64) -> Option<&mut Object> {
        self.objects.iter_mut().find(|it| it.uid == uid)
    }

    /// The object under this name.
    pub fn under(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.iter().find(|it| it.key == *key)
    }

    /// Every existing Usage.
    pub fn usages(&self) -> impl Iterator<Item = Usage> {
        self.objects.iter().filter_map(Object::usage)
    }

    /// Puts a new object in; nothing if its name is taken or its namespace is being deleted.
    pub fn create(&mut self, object: Object) -> Option<u64> {
        let finalization = self.finalization.contains_key(&object.key.namespace);
        if finalization || self.under(&object.key).is_some() {
            return None;
        }
        self.newest += 1;
        let uid = self.newest;
        let key = object.key.clone();
        self.objects.push(Object { uid, ..object });
        self.written(uid);
        self.changed(key);
        Some(uid)
    }

    /// Notes a write of an object.
    pub fn written(&mut self, uid: u64) {
        self.revision += 1;
        let revision = self.revision;
        let key = self.by_uid_mut(uid).map(|it| {
            it.revision = revision;
            it.key.clone()
        });
        if let Some(key) = key {
            self.changed(key);
        }
    }

    /// Takes an object away.
    pub fn remove(&mut self, uid: u64) -> Option<Object> {
        let place = self.objects.iter().position(|it| it.uid == uid)?;
        self.revision += 1;
        let object = self.objects.remove(place);
        self.changed(object.key.clone());
        Some(object)
    }

    /// Notes a change for the watch.
    pub fn changed(&mut self, key: ObjectKey) {
        self.changes.push((0, key));
    }

    /// Whether a kind is removed at this moment.
    pub fn is_removed(&self, kind: &str, tick: Tick) -> bool {
        self.removed_until.get(kind).is_some_and(|until| tick < *until)
    }
}

/// A new object of this name.
pub fn object(key: ObjectKey, app: &str, created: Tick) -> Object {
    Object {
        uid: 0,
        key,
        app: app.to_owned(),
        mark: None,
        note: None,
        owners: vec![],
        created,
        revision: 0,
        deleting: None,
        foreground: false,
        hold_lease: 0,
        body: None,
        collect_at: 0,
        collect_pause: 2,
    }
}
