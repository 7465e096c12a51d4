//! Verbs arriving in the world: what the API server and the cloud do with them.

use usher_domain::direct::deleter::Precondition;
use usher_domain::direct::effect::Effect;
use usher_domain::direct::facts::{Facts, Policy};
use usher_domain::direct::identity::Identified;
use usher_domain::direct::mark::Mark;
use usher_domain::direct::operation::Progress;
use usher_domain::direct::recorded::Recorded;
use usher_domain::object::name::FINALIZER_DIRECT;
use usher_kernel::{Timestamp, Trouble};

use crate::clock::Tick;
use crate::direct::breakage::Breakage;
use crate::direct::check::Checker;
use crate::direct::cloud::{CloudObject, MEMORY, Running, Work, cloud_uid, container};
use crate::direct::fault::Fault;
use crate::direct::state::State;
use crate::sim_world::SimWorld as _;

/// One verb in flight, with what its sender knew.
#[derive(Clone, Debug)]
pub struct Request {
    /// The row it serves.
    pub row: usize,
    /// The verb.
    pub verb: Effect,
    /// The facts of its sender's snapshot, before anything was bent.
    pub facts: Facts,
    /// Until when it may arrive in time.
    pub deadline: Timestamp,
    /// Whether it was delayed in flight.
    pub held_up: bool,
}

impl Request {
    /// Whether it goes to the cluster.
    pub const fn is_for_cluster(&self) -> bool {
        match self.verb {
            Effect::AddFinalizer { .. } | Effect::Stamp { .. } | Effect::RemoveFinalizer { .. } => {
                true
            }
            Effect::Create { .. } | Effect::Update { .. } | Effect::Delete { .. } => false,
        }
    }
}

impl State {
    /// Does what a request asks for, as the real world would.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<(), Trouble> {
        let object = self.store.resources[request.row].object;
        self.say(|_| match &request.verb {
            Effect::Create { identified, .. }
            | Effect::Update { identified, .. }
            | Effect::Delete { identified, .. } => {
                format!("{} of {object} arrives: {}", request.verb.kind(), identified.identity)
            }
            Effect::Stamp { recorded, .. } => {
                format!("Stamp of {object} arrives: {}", recorded.to_text())
            }
            Effect::AddFinalizer { .. } | Effect::RemoveFinalizer { .. } => {
                format!("{} of {object} arrives", request.verb.kind())
            }
        });
        if let Some(delay) = self.hold_up(request) {
            let arrives = self.base.tick + delay;
            let deadline = self.now();
            let late = Request { held_up: true, deadline, ..request.clone() };
            self.base.echoes.push((arrives, late));
            return Err(Trouble::unavailable("the cloud".to_owned()));
        }
        self.check_request(request);
        match &request.verb {
            Effect::AddFinalizer { .. } => self.add_finalizer(object),
            Effect::Stamp { recorded, .. } => self.stamp(object, recorded),
            Effect::Create { identified, mark } => self.create(request, identified, mark),
            Effect::Update { identified, at } => self.update(object, identified, at),
            Effect::Delete { identified, at } => self.delete(request, identified, at),
            Effect::RemoveFinalizer { .. } => {
                self.remove_finalizer(object);
                Ok(())
            }
        }
    }

    /// How long a create is delayed in flight, if it is.
    fn hold_up(&mut self, request: &Request) -> Option<Tick> {
        let creates = matches!(request.verb, Effect::Create { .. }) && !request.held_up;
        (creates && self.injects(Fault::HeldUp, 300)).then(|| self.base.rng.between(20, 150))
    }

    fn add_finalizer(&mut self, object: u64) -> Result<(), Trouble> {
        let found = self.outside.object(object);
        // The API server takes no new finalizer for what is being deleted.
        if found.is_none_or(|it| it.deleting) {
            return Err(Trouble::Rejected { what: "the API server".to_owned() });
        }
        if !found.is_some_and(crate::direct::outside::Object::is_held) {
            let tick = self.base.tick;
            self.outside.change(object, tick, |it| {
                it.finalizers.push(FINALIZER_DIRECT.to_owned());
            });
        }
        Ok(())
    }

    fn stamp(&mut self, object: u64, recorded: &Recorded) -> Result<(), Trouble> {
        if self.outside.object(object).is_none() {
            return Err(Trouble::Blocked { what: "another object".to_owned() });
        }
        let text = recorded.to_text();
        let tick = self.base.tick;
        self.outside.change(object, tick, |it| {
            it.stamp = Some(text.clone());
            it.status = Some(text);
        });
        Ok(())
    }

    fn remove_finalizer(&mut self, object: u64) {
        let tick = self.base.tick;
        self.outside.change(object, tick, |it| {
            it.finalizers.retain(|it| it != FINALIZER_DIRECT);
        });
    }

    fn create(
        &mut self,
        request: &Request,
        identified: &Identified,
        mark: &Mark,
    ) -> Result<(), Trouble> {
        let tick = self.base.tick;
        let object = self.store.resources[request.row].object;
        let identity = identified.identity.as_str().to_owned();
        if self.outside.cloud.requests.contains_key(&mark.request) {
            return Ok(());
        }
        if !self.outside.cloud.containers.contains(&container(&identity)) {
            return Err(Trouble::Rejected { what: "the cloud".to_owned() });
        }
        let busy = self.outside.cloud.is_busy(&identity);
        if busy || self.outside.cloud.find(&identity).is_some() {
            return Err(Trouble::Blocked { what: identity });
        }
        self.outside.cloud.requests.insert(mark.request, tick + MEMORY);
        let uid = self.outside.cloud.mint();
        let made = CloudObject {
            identity: identity.clone(),
            uid,
            etag: 1,
            mark: Some(mark.clone()),
            is: self.outside.object(object).map_or(0, |it| it.spec.wanted),
            made_by: Some(object),
            created: tick,
            leaving: false,
        };
        match self.base.rng.below(3) {
            0 => self.outside.cloud.put(made),
            // Some clouds show at once what they are still making, and some do not.
            1 => {
                self.outside.cloud.put(made);
                self.operate(identity, Work::Settle);
            }
            _ => self.operate(identity, Work::Create(made)),
        }
        self.check_single(object);
        Ok(())
    }

    fn update(
        &mut self,
        object: u64,
        identified: &Identified,
        at: &Precondition,
    ) -> Result<(), Trouble> {
        let identity = identified.identity.as_str().to_owned();
        let found = self.matching(&identity, at)?;
        let Some(found) = found else {
            return Err(Trouble::Blocked { what: identity });
        };
        let wanted = self.outside.object(object).map(|it| it.spec.wanted);
        self.check_touch(object, &found, "changed");
        if let Some(wanted) = wanted {
            self.outside.cloud.change(found.uid, |it| it.is = wanted);
            if self.base.rng.percent(40) {
                self.operate(identity, Work::Settle);
            }
        }
        Ok(())
    }

    fn delete(
        &mut self,
        request: &Request,
        identified: &Identified,
        at: &Precondition,
    ) -> Result<(), Trouble> {
        let object = self.store.resources[request.row].object;
        let identity = identified.identity.as_str().to_owned();
        let found = if self.is_broken(Breakage::DeleteWithoutPrecondition) {
            self.outside.cloud.find(&identity).cloned()
        } else {
            self.matching(&identity, at)?
        };
        let Some(found) = found else {
            return Ok(());
        };
        self.check_touch(object, &found, "deleted");
        if matches!(request.facts.policy, Policy::Abandon | Policy::Unreadable)
            && !self.is_over(request.row)
        {
            let what = format!("{identity} is deleted although its policy forbids it");
            self.wrong(Checker::PolicyHonoured, what);
        }
        if self.base.rng.percent(40) {
            self.outside.cloud.take(found.uid);
        } else {
            self.outside.cloud.change(found.uid, |it| it.leaving = true);
            self.operate(identity, Work::Delete(found.uid));
        }
        Ok(())
    }

    /// The object that a precondition names; nothing if it does not exist.
    fn matching(&self, identity: &str, at: &Precondition) -> Result<Option<CloudObject>, Trouble> {
        let Some(found) = self.outside.cloud.find(identity) else {
            return Ok(None);
        };
        let same = cloud_uid(found.uid) == *at.uid()
            && at.etag().is_none_or(|etag| etag == found.etag.to_string());
        if !same || self.outside.cloud.is_busy(identity) {
            return Err(Trouble::Blocked { what: identity.to_owned() });
        }
        Ok(Some(found.clone()))
    }

    /// Begins an operation; it takes a while and may end badly.
    fn operate(&mut self, identity: String, work: Work) {
        let slow = self.injects(Fault::OperationSlow, 400);
        let fails = self.injects(Fault::OperationFails, 250);
        let dwell =
            if slow { self.base.rng.between(30, 120) } else { self.base.rng.between(1, 20) };
        let name = self.outside.cloud.mint();
        self.outside.cloud.operations.push(Running {
            name,
            identity,
            work,
            ends_at: self.base.tick + dwell,
            fails,
            progress: Progress::Running,
        });
        self.outside.cloud.touch();
    }
}
