//! The cluster: objects with finalizers and stamps, the parents they refer to, and a watch.

use usher_domain::direct::accept::AcceptContext;
use usher_domain::direct::reference::{Named, Read, Referent};
use usher_domain::direct::snapshot;
use usher_domain::object::name::FINALIZER_DIRECT;
use usher_kernel::Uid;

use crate::clock::Tick;
use crate::direct::cloud::{Cloud, CloudObject, cloud_uid};
use crate::direct::model::Spec;
use crate::direct::state::{credential, installation};

/// The finalizer by which another controller holds an object.
pub const HOLD: &str = "backup.example/hold";

/// A Kubernetes object that represents a cloud object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its uid.
    pub uid: u64,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The text of its deletion policy.
    pub policy: Option<String>,
    /// The stamp in its annotation.
    pub stamp: Option<String>,
    /// The stamp in its status.
    pub status: Option<String>,
    /// What a person wrote.
    pub spec: Spec,
}

impl Object {
    /// Whether our finalizer is on it.
    pub fn is_held(&self) -> bool {
        self.finalizers.iter().any(|it| it == FINALIZER_DIRECT)
    }

    /// What a read of it brings back.
    pub fn seen(&self) -> snapshot::Object {
        snapshot::Object {
            uid: uid(self.uid),
            deleting: self.deleting,
            finalizers: self.finalizers.clone(),
            policy: self.policy.clone(),
            stamp: self.stamp.clone(),
            status: self.status.clone(),
        }
    }
}

/// An object that others refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its name; all parents share one namespace with their children.
    pub name: String,
    /// Its uid.
    pub uid: u64,
    /// The identity that its status shows.
    pub external: String,
    /// Until when it shows none.
    pub unready_until: Tick,
    /// When it will be gone, once its deletion was requested.
    pub gone_at: Option<Tick>,
    /// Until when it cannot be found at all.
    pub missing_until: Tick,
}

/// The cluster and the cloud.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Every object that represents a cloud object.
    pub objects: Vec<Object>,
    /// Every object that others refer to.
    pub parents: Vec<Parent>,
    /// The cloud.
    pub cloud: Cloud,
    /// Every deleted object, as it last was.
    pub removed: Vec<Object>,
    /// Changes that the watch has not delivered yet.
    pub changed: Vec<(Tick, u64)>,
    /// Until when the kind of the parents is not installed.
    pub kind_missing_until: Tick,
    /// Until when the cluster is another one.
    pub rebuilt_until: Tick,
    next_uid: u64,
}

impl Outside {
    /// A uid that no object has.
    pub fn mint(&mut self) -> u64 {
        self.next_uid += 1;
        self.next_uid
    }

    /// The object with this uid.
    pub fn object(&self, uid: u64) -> Option<&Object> {
        self.objects.iter().find(|it| it.uid == uid)
    }

    /// Changes an object, if it is there, and notifies the watch.
    pub fn change(&mut self, uid: u64, tick: Tick, change: impl FnOnce(&mut Object)) {
        if let Some(it) = self.objects.iter_mut().find(|it| it.uid == uid) {
            change(it);
            self.changed.push((tick, uid));
            self.sweep(uid);
        }
    }

    /// An object in deletion is removed when nothing holds it any more.
    fn sweep(&mut self, uid: u64) {
        let goes = |it: &mut Object| it.uid == uid && it.deleting && it.finalizers.is_empty();
        self.removed.extend(self.objects.extract_if(.., goes));
    }

    /// Notifies every object that refers to a parent that something happened to it.
    pub fn touch_parent(&mut self, name: &str, tick: Tick) {
        use usher_domain::direct::reference::Reference;
        let names = |it: &Reference| matches!(it, Reference::Named(named) if named.name == name);
        let referring: Vec<u64> = self
            .objects
            .iter()
            .filter(|it| names(&it.spec.parent) || it.spec.config.as_ref().is_some_and(names))
            .map(|it| it.uid)
            .collect();
        self.changed.extend(referring.into_iter().map(|uid| (tick, uid)));
    }

    /// Deletes a parent; it is gone after a while.
    pub fn delete_parent(&mut self, name: &str, gone_at: Tick, tick: Tick) {
        if let Some(it) = self.parents.iter_mut().find(|it| it.name == name) {
            it.gone_at.get_or_insert(gone_at);
        }
        self.touch_parent(name, tick);
    }

    /// A live read of a referent.
    pub fn read(&self, named: &Named, tick: Tick) -> Read {
        if tick < self.kind_missing_until {
            return Read::KindNotInstalled;
        }
        let parent = self.parents.iter().find(|it| it.name == named.name);
        let Some(it) = parent.filter(|it| it.missing_until <= tick) else {
            return Read::Absent;
        };
        let external = (it.unready_until <= tick).then(|| it.external.clone());
        Read::Found(Referent { uid: uid(it.uid), external, terminating: it.gone_at.is_some() })
    }

    /// Whether the cluster is another one for the time being.
    pub fn is_rebuilt(&self, tick: Tick) -> bool {
        tick < self.rebuilt_until
    }
}

/// What the outside calls an object of the cluster.
pub fn uid(number: u64) -> Uid {
    Uid(format!("k-{number}"))
}

/// A stamp bound to an object that names a cloud object as seen, as any client could write it.
pub fn stamp(owner: &Uid, named: &CloudObject) -> String {
    let (installation, credential) = (installation(), credential());
    format!(
        "{{\"v\":1,\"installation\":\"{installation}\",\"object\":\"{owner}\",\
         \"state\":{{\"seen\":{{\"uid\":\"{}\"}}}},\
         \"at\":{{\"credential\":{{\"mount\":\"{}\",\"path\":\"{}\"}},\
         \"identity\":\"{}\"}}}}",
        cloud_uid(named.uid),
        credential.mount(),
        credential.path(),
        named.identity,
    )
}

/// The ground of the simulated kind.
pub fn context() -> AcceptContext {
    use crate::clock::{LEASE, REQUEST_BOUND, millis};
    use usher_domain::direct::model::Model as _;
    AcceptContext {
        installation: installation(),
        kind: crate::direct::model::Memberships::KIND.to_owned(),
        heard_for: millis(LEASE + REQUEST_BOUND),
    }
}
