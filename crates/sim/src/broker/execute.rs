//! Verbs arriving in the world: what the API server, the mesh and the token store do with them.

use usher_domain::broker::effect::Effect;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{KIND_EXTERNAL_SECRET, Verb};
use usher_kernel::{Generation, Name, Trouble, Uid};

use crate::broker::breakage::Breakage;
use crate::broker::check::Checker;
use crate::broker::fault::Fault;
use crate::broker::outside::{Composite, Guard, Kind, Labels, Object, number, uid};
use crate::broker::state::{State, installation};
use crate::clock::Tick;
use crate::sim_world::SimWorld as _;

/// One verb in flight, with what its sender knew.
#[derive(Clone, Debug)]
pub struct Request {
    /// The work item it serves.
    pub sender: Sender,
    /// The verb.
    pub verb: AnyVerb,
    /// When its sender observed the world.
    pub observed_at: Tick,
    /// Whether its sender is within its lease.
    pub in_time: bool,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

/// The work item a request serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A resource or its tombstone.
    Resource(usize),
    /// The ProviderConfig.
    Config,
}

/// A verb of either kind of work item.
#[derive(Clone, Debug)]
pub enum AnyVerb {
    /// Of a resource.
    Resource(Effect),
    /// Of the ProviderConfig.
    Config(Verb),
}

impl State {
    /// Does what a request asks for, as the real world would. One that names the object it saw
    /// never ends in another one.
    pub(crate) fn serve_checked(&mut self, request: &Request) -> Result<(), Trouble> {
        let created = self.outside.created();
        let done = self.serve(request);
        if request.names_its_object() && self.outside.created() > created {
            self.wrong(Checker::ApplyNeverCreates, "an apply brought an object back".to_owned());
        }
        done
    }

    fn serve(&mut self, request: &Request) -> Result<(), Trouble> {
        let broken = |breakage| request.breakage == Some(breakage);
        match &request.verb {
            AnyVerb::Resource(Effect::CreateAnchor { anchor })
            | AnyVerb::Config(Verb::CreateAnchor { anchor }) => self.create_anchor(request, anchor),
            AnyVerb::Resource(Effect::IssueToken { generation, .. }) => {
                self.issue(request, *generation)
            }
            AnyVerb::Resource(Effect::Apply { xr, uid: None, anchor }) => {
                let owner = (!broken(Breakage::DropAnchor)).then(|| number(anchor));
                self.create_xr(request, xr, owner)
            }
            AnyVerb::Resource(Effect::Apply { xr, uid: Some(expected), anchor }) => {
                self.apply_xr(request, xr, expected, number(anchor))
            }
            AnyVerb::Resource(Effect::DeregisterNode { token }) => {
                self.drain(*token);
                Ok(())
            }
            AnyVerb::Resource(Effect::ReleaseProtection { xr, uid }) => self.release(xr, uid),
            AnyVerb::Resource(Effect::DeleteSubstrate { xr, uid }) => {
                self.check_substrate_may_go(request, xr, uid);
                self.delete(request, Kind::Xr, xr, uid)
            }
            AnyVerb::Resource(Effect::DeleteAnchor { anchor, uid })
            | AnyVerb::Config(Verb::DeleteAnchor { anchor, uid }) => {
                self.delete(request, Kind::Anchor, anchor, uid)
            }
            AnyVerb::Config(Verb::Apply { objects, anchor }) => {
                objects.iter().try_for_each(|(name, uid)| {
                    self.apply_config(request, (name, uid), number(anchor))
                })
            }
            AnyVerb::Config(Verb::Delete { object, uid, revision }) => {
                self.delete_config(request, object, uid, revision)
            }
        }
    }

    /// Takes our guard off the very XR that was seen.
    fn release(&mut self, xr: &Name, expected: &Uid) -> Result<(), Trouble> {
        let found =
            self.outside.objects.iter().find(|it| it.kind == Kind::Xr && it.name == xr.name);
        let Some(found) = found else {
            return Ok(());
        };
        if found.uid != number(expected) {
            return Err(Trouble::Blocked { what: xr.name.clone() });
        }
        if found.xr.as_ref().is_some_and(|it| it.guard == Guard::Ours) {
            self.with_composite(found.uid, |it| it.guard = Guard::None);
        }
        Ok(())
    }

    fn labels(&self, sender: Sender) -> Labels {
        let record_id = match sender {
            Sender::Resource(i) => self.store.resources[i].record.state.id().to_string(),
            Sender::Config => self.store.config.record.state.id.to_string(),
        };
        Labels { installation: installation().to_string(), record_id }
    }

    /// The ledger must know a name before it is used.
    fn check_recorded(&mut self, sender: Sender, name: &Name) {
        let name_ledger = match sender {
            Sender::Resource(i) => self.store.name_ledger(i),
            Sender::Config => &self.store.config.record.name_ledger,
        };
        if name_ledger.latest(name).is_none() {
            let what = format!("{} {} is not in the ledger", name.kind, name.name);
            self.wrong(Checker::NameBeforeUse, what);
        }
    }

    fn check_in_flight_grace(&mut self, request: &Request, what: &str) {
        let Sender::Resource(i) = request.sender else {
            return;
        };
        let deleted = self.store.resources[i].record.state.phase() == Phase::Deleted;
        if deleted && request.in_time && !self.was_abandoned(i) {
            self.wrong(Checker::InFlightGrace, format!("{what} created after Deleted was emitted"));
        }
    }

    fn create_anchor(&mut self, request: &Request, anchor: &Name) -> Result<(), Trouble> {
        self.check_recorded(request.sender, anchor);
        let labels = self.labels(request.sender);
        if let Some(found) = self.outside.find(Kind::Anchor, &anchor.name) {
            return if found.labels.as_ref() == Some(&labels) {
                Ok(())
            } else {
                Err(Trouble::Blocked { what: anchor.name.clone() })
            };
        }
        self.check_in_flight_grace(request, &anchor.name);
        let bare = Object::foreign(Kind::Anchor, anchor.name.clone());
        let made_by = Some(request.sender);
        self.put(Object { labels: Some(labels), made_by, held: true, ..bare });
        Ok(())
    }

    fn put(&mut self, object: Object) {
        let (kind, name) = (object.kind, object.name.clone());
        let uid = self.outside.create(object, self.base.tick);
        self.say(|_| format!("created: {kind:?} {name} u{uid}"));
    }

    fn create_xr(
        &mut self,
        request: &Request,
        xr: &Name,
        owner: Option<u64>,
    ) -> Result<(), Trouble> {
        self.check_recorded(request.sender, xr);
        let Sender::Resource(index) = request.sender else {
            return Ok(());
        };
        let labels = self.labels(request.sender);
        if let Some(found) = self.outside.find(Kind::Xr, &xr.name) {
            let ours = found.labels.as_ref() == Some(&labels) && found.owner == owner;
            return if ours { Ok(()) } else { Err(Trouble::Blocked { what: xr.name.clone() }) };
        }
        self.check_in_flight_grace(request, &xr.name);
        let anchored = self
            .store
            .name_ledger(index)
            .rows()
            .iter()
            .any(|row| row.name.kind == "Anchor" && row.uid == owner.map(uid));
        if !anchored && request.breakage != Some(Breakage::DropAnchor) {
            self.wrong(Checker::NameBeforeUse, "an XR under an unrecorded anchor".to_owned());
        }
        let composite = Some(self.compose(index, xr.generation, labels.clone()));
        let bare = Object::foreign(Kind::Xr, xr.name.clone());
        let (labels, made_by) = (Some(labels), Some(request.sender));
        self.put(Object { owner, labels, made_by, xr: composite, ..bare });
        Ok(())
    }

    /// Draws how this XR will fare.
    fn compose(&mut self, index: usize, generation: Generation, labels: Labels) -> Composite {
        let wishes = self.wishes[index].clone();
        let tick = self.base.tick;
        let state = &self.store.resources[index].record.state;
        let is_node = state.pinned().role == usher_domain::blueprint::MeshRole::Node;
        let token = usher_domain::object::name::token(state.id(), generation);
        let hopeless = self.happens(Fault::Hopeless, 200);
        let guarded = self.injects(Fault::Guarded, 400);
        let guard = if guarded {
            Guard::Another
        } else if wishes.guard_ours {
            Guard::Ours
        } else {
            Guard::None
        };
        Composite {
            token: is_node.then_some((token, generation)),
            parts: wishes.parts,
            distinct: wishes.distinct_parts,
            labels,
            refs: vec![],
            refs_at: tick + self.base.rng.between(1, 6),
            fails_at: hopeless.then(|| tick + self.base.rng.between(3, 40)),
            flaps_until: 0,
            drifted: false,
            booted: None,
            guard,
        }
    }

    /// Server-side apply with the uid inside: absent or replaced is refused, never created.
    fn apply_xr(
        &mut self,
        request: &Request,
        xr: &Name,
        expected: &Uid,
        owner: u64,
    ) -> Result<(), Trouble> {
        let blocked = Err(Trouble::Blocked { what: xr.name.clone() });
        let Some(found) = self.outside.find(Kind::Xr, &xr.name) else {
            if request.breakage == Some(Breakage::ApplyWithoutUid) {
                return self.create_xr(request, xr, Some(owner));
            }
            return blocked;
        };
        if found.uid != number(expected) {
            if request.breakage == Some(Breakage::ApplyWithoutUid) && found.made_by.is_none() {
                self.wrong(Checker::ForeignUntouched, "a foreign XR was written".to_owned());
            }
            return blocked;
        }
        let (found, labels) = (found.uid, self.labels(request.sender));
        let xr = self.outside.objects.iter_mut().find(|it| it.uid == found);
        if let Some(xr) = xr
            && let Some(composite) = xr.xr.as_mut()
            && composite.drifted
        {
            composite.drifted = false;
            xr.labels = Some(labels);
            self.outside.touch(found, self.base.tick);
        }
        Ok(())
    }

    fn check_substrate_may_go(&mut self, request: &Request, xr: &Name, expected: &Uid) {
        let Sender::Resource(index) = request.sender else {
            return;
        };
        let registered = self.store.peers.iter().any(|it| {
            it.resource == index && it.generation() == xr.generation && it.is_registered()
        });
        if registered {
            let what = format!("the XR of resource {index} was deleted before its node was gone");
            self.wrong(Checker::NodeFirst, what);
        }
        let Some(found) = self.outside.find(Kind::Xr, &xr.name) else {
            return;
        };
        let guarded = found.xr.as_ref().is_some_and(|it| it.guard == Guard::Another);
        if found.uid == number(expected) && guarded {
            self.wrong(Checker::GuardHonoured, format!("{} was deleted while in use", xr.name));
        }
    }

    /// Deletes with a uid precondition; deletion only marks.
    fn delete(
        &mut self,
        request: &Request,
        kind: Kind,
        name: &Name,
        expected: &Uid,
    ) -> Result<(), Trouble> {
        let Some(found) = self.outside.find(kind, &name.name).cloned() else {
            return Ok(());
        };
        let blind = request.breakage == Some(Breakage::DeleteWithoutUid);
        if found.uid != number(expected) && !blind {
            return Err(Trouble::Blocked { what: name.name.clone() });
        }
        if found.made_by != Some(request.sender) {
            self.wrong(Checker::ForeignUntouched, format!("{} was deleted", name.name));
        }
        let guarded = found.xr.as_ref().is_some_and(|it| it.guard != Guard::None);
        if guarded && kind == Kind::Xr {
            return Err(Trouble::Rejected { what: "the XR's guard".to_owned() });
        }
        self.check_composed(request, name, &found);
        let waits = self.outside.children(found.uid).next().is_some() && self.base.rng.percent(40);
        let dwell =
            if waits { self.base.rng.between(15, 60) } else { self.base.rng.between(1, 15) };
        if found.gone_at.is_none() {
            self.say(|_| format!("deletion requested: {kind:?} {} u{}", found.name, found.uid));
        }
        match kind {
            Kind::Anchor => self.outside.let_go(found.uid, self.base.tick + dwell, self.base.tick),
            Kind::Xr | Kind::Part(_) | Kind::Config | Kind::Secret => {
                self.outside.mark(found.uid, self.base.tick + dwell, self.base.tick);
            }
        }
        Ok(())
    }

    /// Whatever the XR composed before its sender's snapshot is in the ledger.
    fn check_composed(&mut self, request: &Request, xr: &Name, found: &Object) {
        let (Sender::Resource(index), Kind::Xr) = (request.sender, found.kind) else {
            return;
        };
        let name_ledger = self.store.name_ledger(index);
        let missing = self.outside.children(found.uid).find(|child| {
            let is_child =
                |name: &Name| name.name == child.name && name.generation == xr.generation;
            child.created <= request.observed_at
                && !name_ledger.rows().iter().any(|row| is_child(&row.name))
        });
        if let Some(missing) = missing {
            let what = format!("{} is not in the ledger and its XR goes", missing.name);
            self.wrong(Checker::ComposedRecorded, what);
        }
    }

    fn apply_config(
        &mut self,
        request: &Request,
        (config, expected): (&Name, &Option<Uid>),
        owner: u64,
    ) -> Result<(), Trouble> {
        self.check_recorded(request.sender, config);
        let labels = self.labels(request.sender);
        let kind = config_kind(config);
        match (self.outside.find(kind, &config.name), expected) {
            (Some(found), None) if found.labels.as_ref() == Some(&labels) => Ok(()),
            (Some(found), Some(it)) if found.uid == number(it) => Ok(()),
            (None, None) => {
                let bare = Object::foreign(kind, config.name.clone());
                let (labels, made_by) = (Some(labels), Some(request.sender));
                self.put(Object { owner: Some(owner), labels, made_by, ..bare });
                Ok(())
            }
            (Some(_), _) | (None, Some(_)) => Err(Trouble::Blocked { what: config.name.clone() }),
        }
    }

    fn delete_config(
        &mut self,
        request: &Request,
        config: &Name,
        expected: &Uid,
        revision: &str,
    ) -> Result<(), Trouble> {
        let kind = config_kind(config);
        let Some(found) = self.outside.find(kind, &config.name).cloned() else {
            return Ok(());
        };
        if found.uid != number(expected) || found.revision.to_string() != *revision {
            return Err(Trouble::Blocked { what: config.name.clone() });
        }
        let is_user = |sender| match sender {
            Sender::Resource(i) => self.store.resources[i].record.state.phase() != Phase::Deleted,
            Sender::Config => false,
        };
        let mut xrs = self.outside.objects.iter().filter(|it| it.kind == Kind::Xr);
        let user = xrs.find(|it| it.made_by.is_some_and(is_user));
        if let Some(user) = user {
            let what = format!("the ProviderConfig was deleted while {} exists", user.name);
            self.wrong(Checker::ConfigLast, what);
        }
        self.delete(request, kind, config, expected)
    }
}

/// Which of a ProviderConfig's objects a name is.
fn config_kind(name: &Name) -> Kind {
    if name.kind == KIND_EXTERNAL_SECRET { Kind::Secret } else { Kind::Config }
}

impl Request {
    /// Whether it writes onto an object that was seen, and so must not create one.
    fn names_its_object(&self) -> bool {
        match &self.verb {
            AnyVerb::Resource(Effect::Apply { uid, .. }) => uid.is_some(),
            AnyVerb::Config(Verb::Apply { objects, .. }) => {
                objects.iter().all(|(_, uid)| uid.is_some())
            }
            AnyVerb::Resource(_) | AnyVerb::Config(_) => false,
        }
    }

    /// Whether it goes to the cluster, and not to our own store or mesh.
    pub const fn is_for_cluster(&self) -> bool {
        !matches!(
            self.verb,
            AnyVerb::Resource(Effect::IssueToken { .. } | Effect::DeregisterNode { .. })
        )
    }
}
