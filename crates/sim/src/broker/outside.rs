//! The cluster as it really is: objects, a composer, a collector, machines.
//!
//! Never kinder than the real thing: the XR may vanish before its children, owners that are gone
//! do not stop a create, deletion only marks, and the collector runs at its own pace.

use std::collections::{BTreeMap, BTreeSet};

use usher_domain::broker::provider_config::KIND_EXTERNAL_SECRET;
use usher_domain::object::id::TokenId;
use usher_kernel::{Generation, Uid};

use crate::broker::execute::Sender;
use crate::clock::Tick;
use crate::rng::Rng;

/// What kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An anchor of a resource or a ProviderConfig.
    Anchor,
    /// A composite resource.
    Xr,
    /// Something an XR composed; the number is its kind.
    Part(u8),
    /// A ProviderConfig.
    Config,
    /// The ExternalSecret of a ProviderConfig.
    Secret,
}

impl Kind {
    /// The kind in names.
    pub fn text(self) -> String {
        match self {
            Self::Anchor => "Anchor".to_owned(),
            Self::Xr => XR_KIND.to_owned(),
            Self::Part(n) => format!("parts.example/Part{n}"),
            Self::Config => "local.crossplane.io/ProviderConfig".to_owned(),
            Self::Secret => KIND_EXTERNAL_SECRET.to_owned(),
        }
    }
}

/// The XR kind of every simulated blueprint.
pub const XR_KIND: &str = "blueprints.example/Node";

/// Whose labels an object carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The installation label.
    pub installation: String,
    /// The resource-id label.
    pub record_id: String,
}

/// One object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: u64,
    /// Its owner's uid.
    pub owner: Option<u64>,
    /// The owner it claims.
    pub labels: Option<Labels>,
    /// Its true owner: the work item whose verb, or whose XR's composer, made it. Drivers cannot
    /// see this; checkers ask nothing else.
    pub made_by: Option<Sender>,
    /// Whether a finalizer holds it.
    pub held: bool,
    /// Whether its deletion was requested.
    pub leaving: bool,
    /// When it was created.
    pub created: Tick,
    /// When it changes last.
    pub revision: u64,
    /// When it will be gone, once its deletion was requested and nothing holds it.
    pub gone_at: Option<Tick>,
    /// When a part will be ready.
    pub ready_at: Tick,
    /// What only XRs have.
    pub xr: Option<Composite>,
}

/// What only XRs have.
#[derive(Clone, Debug)]
pub struct Composite {
    /// The token that was injected, and its generation.
    pub token: Option<(TokenId, Generation)>,
    /// How many children it declares.
    pub parts: u8,
    /// Whether the names of its children distinguish it from another XR of the same name.
    pub distinct: bool,
    /// What its children are labelled with.
    pub labels: Labels,
    /// The names of its children, once they are announced.
    pub refs: Vec<(u8, String)>,
    /// When they are announced.
    pub refs_at: Tick,
    /// When it declares itself hopeless.
    pub fails_at: Option<Tick>,
    /// Until when it is not ready for a moment.
    pub flaps_until: Tick,
    /// Whether it differs from what would be rendered.
    pub drifted: bool,
    /// The machine whose agent was started last.
    pub booted: Option<u64>,
    /// Who guards it against deletion.
    pub guard: Guard,
}

/// Who guards an XR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// None.
    None,
    /// We.
    Ours,
    /// Another client.
    Another,
}

/// A machine's agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The part it runs on.
    pub machine: u64,
    /// Its token.
    pub token: TokenId,
    /// The resource it was made for.
    pub resource: usize,
    /// The generation it was made for.
    pub generation: Generation,
    /// When it tries to enrol next; `None` is never.
    pub tries_at: Option<Tick>,
    /// Whether it enrolled.
    pub enrolled: bool,
}

/// The cluster.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The existing objects.
    pub objects: Vec<Object>,
    /// The agents.
    pub agents: Vec<Agent>,
    /// Grows with every change.
    pub revision: u64,
    /// Until when another cluster answers in its place.
    pub rebuilt_until: Tick,
    /// Until when every read shows an empty world, although every object exists.
    pub empty_until: Tick,
    /// A replica that lags: its revision and what it shows.
    pub replica: Option<(u64, Vec<Object>)>,
    /// When the namespace becomes ready.
    pub namespace_ready_at: Tick,
    /// Until when the collector does not see a kind.
    pub blind_until: BTreeMap<u8, Tick>,
    /// Until when a kind is removed.
    pub removed_until: BTreeMap<u8, Tick>,
    /// Whether other records manage the parts: then each is held until they release it, and is
    /// ready when they report so.
    pub managed: bool,
    /// The objects that may not be deleted.
    pub guarded: BTreeSet<u64>,
    /// The deletions that were denied since the last check.
    pub denied: Vec<u64>,
    /// The labels whose objects changed since the watch was last read.
    pub changed: Vec<(Tick, String)>,
    next_uid: u64,
}

impl Default for Outside {
    fn default() -> Self {
        Self {
            objects: vec![],
            agents: vec![],
            revision: 1,
            rebuilt_until: -1,
            empty_until: -1,
            replica: None,
            namespace_ready_at: 0,
            blind_until: BTreeMap::new(),
            removed_until: BTreeMap::new(),
            managed: false,
            guarded: BTreeSet::new(),
            denied: vec![],
            changed: vec![],
            next_uid: 1,
        }
    }
}

impl Outside {
    /// Whether another cluster answers.
    pub fn is_rebuilt(&self, tick: Tick) -> bool {
        tick < self.rebuilt_until
    }

    /// The object with this kind and name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Object> {
        self.objects.iter().find(|it| it.kind == kind && it.name == name)
    }

    /// The object with this uid.
    pub fn by_uid(&self, uid: u64) -> Option<&Object> {
        self.objects.iter().find(|it| it.uid == uid)
    }

    /// Notes that an object changed, for the watch.
    pub fn touch(&mut self, uid: u64, tick: Tick) {
        self.revision += 1;
        let revision = self.revision;
        if let Some(it) = self.objects.iter_mut().find(|it| it.uid == uid) {
            it.revision = revision;
            if let Some(labels) = &it.labels {
                self.changed.push((tick, labels.record_id.clone()));
            }
        }
    }

    /// Creates an object and returns its uid.
    pub fn create(&mut self, mut object: Object, tick: Tick) -> u64 {
        let uid = self.next_uid;
        self.next_uid += 1;
        object.uid = uid;
        object.created = tick;
        self.objects.push(object);
        self.touch(uid, tick);
        uid
    }

    /// How many objects were ever created.
    pub const fn created(&self) -> u64 {
        self.next_uid
    }

    /// Requests a deletion; an object that is guarded is denied, one that a finalizer holds stays,
    /// marked.
    pub fn mark(&mut self, uid: u64, gone_at: Tick, tick: Tick) {
        if self.guarded.contains(&uid) {
            self.denied.push(uid);
            return;
        }
        let it = self.objects.iter_mut().find(|it| it.uid == uid);
        if let Some(it) = it.filter(|it| !it.leaving) {
            it.leaving = true;
            it.gone_at = (!it.held).then_some(gone_at);
            self.touch(uid, tick);
        }
    }

    /// Deletes an object and removes the finalizer.
    pub fn let_go(&mut self, uid: u64, gone_at: Tick, tick: Tick) {
        let it = self.objects.iter_mut().find(|it| it.uid == uid);
        if let Some(it) = it.filter(|it| it.gone_at.is_none()) {
            it.leaving = true;
            it.held = false;
            it.gone_at = Some(gone_at);
            self.touch(uid, tick);
        }
    }

    /// The controller of a part reports it ready.
    pub fn settle(&mut self, uid: u64, tick: Tick) {
        let waiting = |it: &&mut Object| it.uid == uid && it.ready_at > tick;
        if let Some(it) = self.objects.iter_mut().find(waiting) {
            it.ready_at = tick;
            self.touch(uid, tick);
        }
    }

    /// Removes what has finished its deletion.
    pub fn sweep(&mut self, tick: Tick) {
        let gone: Vec<u64> = self
            .objects
            .iter()
            .filter(|it| it.gone_at.is_some_and(|at| at <= tick))
            .map(|it| it.uid)
            .collect();
        for uid in gone {
            self.touch(uid, tick);
            self.objects.retain(|it| it.uid != uid);
        }
    }

    /// Deletes everything whose owner is gone, except what the collector does not see: `true`
    /// if there was such a thing.
    pub fn collect(&mut self, tick: Tick, rng: &mut Rng) -> bool {
        let orphans: Vec<(u64, Kind)> = self
            .objects
            .iter()
            .filter(|it| !it.leaving && it.created < tick - 2)
            .filter(|it| it.owner.is_some_and(|owner| self.by_uid(owner).is_none()))
            .map(|it| (it.uid, it.kind))
            .collect();
        let mut overlooked = false;
        for (uid, kind) in orphans {
            let hidden = match kind {
                Kind::Part(n) => self.blind_until.get(&n).is_some_and(|until| tick < *until),
                Kind::Anchor | Kind::Xr | Kind::Config | Kind::Secret => false,
            };
            overlooked |= hidden;
            if !hidden && rng.percent(40) {
                let dwell = rng.between(1, 20);
                self.mark(uid, tick + dwell, tick);
            }
        }
        overlooked
    }

    /// The children of an XR.
    pub fn children(&self, xr: u64) -> impl Iterator<Item = &Object> {
        self.objects
            .iter()
            .filter(move |it| it.owner == Some(xr) && matches!(it.kind, Kind::Part(_)))
    }

    /// Whether an XR is ready: all announced children exist and are ready.
    pub fn is_ready(&self, xr: &Object, tick: Tick) -> bool {
        let Some(composite) = &xr.xr else {
            return false;
        };
        let ready = self.children(xr.uid).filter(|it| it.ready_at <= tick && !it.leaving);
        ready.count() == usize::from(composite.parts) && composite.flaps_until <= tick
    }
}

impl Object {
    /// An object that none of our records made.
    pub fn foreign(kind: Kind, name: String) -> Self {
        Self {
            kind,
            name,
            uid: 0,
            owner: None,
            labels: None,
            made_by: None,
            held: false,
            leaving: false,
            created: 0,
            revision: 0,
            gone_at: None,
            ready_at: 0,
            xr: None,
        }
    }
}

/// The text of a uid.
pub fn uid(n: u64) -> Uid {
    Uid::new(format!("u{n}"))
}

/// The number of a uid, zero for one that is not of this world.
pub fn number(uid: &Uid) -> u64 {
    uid.0.strip_prefix('u').and_then(|it| it.parse().ok()).unwrap_or(0)
}
