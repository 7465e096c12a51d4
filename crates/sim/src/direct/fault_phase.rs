//! Everything that breaks by itself or is broken by another client, and the time without faults.

use usher_domain::direct::mark::{Binding, Mark, RequestId};
use usher_kernel::Uid;

use crate::direct::cloud::{CloudObject, container};
use crate::direct::fault::Fault;
use crate::direct::outside::{HOLD, Object, stamp, uid};
use crate::direct::people::{CONFIG, parent_name};
use crate::direct::state::{State, Stubborn, other_installation};
use crate::sim_world::SimWorld as _;
use usher_domain::object::name::FINALIZER_DIRECT;

impl State {
    /// What breaks by itself.
    pub(crate) fn misbehave(&mut self) {
        if !self.in_fault_phase() {
            return;
        }
        let tick = self.base.tick;
        if self.injects(Fault::ClockJump, 6) {
            self.base.skew += self.base.rng.between(5, 60);
        }
        if self.injects(Fault::WatchDown, 8) {
            self.watch_down_until = tick + self.base.rng.between(5, 60);
        }
        if !self.outside.is_rebuilt(tick) && self.happens(Fault::Rebuilt, 6) {
            self.outside.rebuilt_until = tick + self.base.rng.between(10, 60);
        }
        if self.base.rng.per_mille(40) {
            let cloud = &mut self.outside.cloud;
            let page = (cloud.revision, cloud.objects.clone(), cloud.operations.clone());
            cloud.replica = Some(page);
        }
        self.hide();
        self.bring_back();
        self.trouble_parents();
        self.trouble_cloud();
        self.meddle();
    }

    /// Everything seems absent for a while; the mass-deletion guard trips at once and a person
    /// resets it later.
    fn hide(&mut self) {
        let tick = self.base.tick;
        if self.empty_until < tick && self.happens(Fault::EmptyReads, 6) {
            self.empty_until = tick + self.base.rng.between(10, 60);
            self.store.guard_tripped = true;
        }
        if self.store.guard_tripped && self.empty_until + 5 < tick {
            self.store.guard_tripped = false;
        }
        if self.hidden_until < tick && self.happens(Fault::ObjectsAbsent, 6) {
            self.hidden_until = tick + self.base.rng.between(10, 60);
            self.store.cluster_guard_tripped = true;
        }
        if self.store.cluster_guard_tripped && self.hidden_until + 5 < tick {
            self.store.cluster_guard_tripped = false;
        }
    }

    /// An old state of the cluster is restored, with an object whose record is finished and our
    /// finalizer on it.
    fn bring_back(&mut self) {
        let tick = self.base.tick;
        for removed in self.outside.removed.clone() {
            let uid = removed.uid;
            let over = self.store.of(uid).is_some_and(|it| self.is_over(it));
            let first = !self.restored.contains(&uid);
            if !over || !first || !self.injects(Fault::Restored, 25) {
                continue;
            }
            let deleting = self.base.rng.percent(50);
            let finalizers = vec![FINALIZER_DIRECT.to_owned()];
            self.restored.push(uid);
            let object = Object { deleting, finalizers, status: None, ..removed };
            self.outside.objects.push(object);
            self.outside.changed.push((tick, uid));
            self.say(|_| format!("{uid} is there again, deleting: {deleting}"));
        }
    }

    /// Parents are deleted, are not ready, cannot be read.
    fn trouble_parents(&mut self) {
        let tick = self.base.tick;
        let project = parent_name(self.base.rng.below(2));
        if self.happens(Fault::ParentDeleted, 6) {
            self.outside.delete_parent(&project, tick, tick);
        }
        if self.happens(Fault::ParentTerminating, 8) {
            let gone_at = tick + self.base.rng.between(30, 150);
            self.outside.delete_parent(&project, gone_at, tick);
        }
        if self.happens(Fault::ParentNotReady, 10) {
            let until = tick + self.base.rng.between(10, 80);
            if let Some(it) = self.outside.parents.iter_mut().find(|it| it.name == project) {
                it.unready_until = until;
            }
            self.outside.touch_parent(&project, tick);
        }
        if self.happens(Fault::ConfigMissing, 10) {
            let until = tick + self.base.rng.between(10, 120);
            if let Some(it) = self.outside.parents.iter_mut().find(|it| it.name == CONFIG) {
                it.missing_until = until;
            }
            self.outside.touch_parent(CONFIG, tick);
        }
        if self.happens(Fault::KindNotInstalled, 8) {
            self.outside.kind_missing_until = tick + self.base.rng.between(10, 80);
        }
        if self.happens(Fault::ContainerDeleted, 3) {
            let gone = format!("projects/p{}", self.base.rng.below(2));
            self.outside.cloud.delete_container(&gone);
            self.say(|_| format!("{gone} is deleted with everything in it"));
        }
    }

    /// Another client works in our cloud.
    fn trouble_cloud(&mut self) {
        let ours: Vec<(u64, String)> = self
            .outside
            .cloud
            .objects
            .iter()
            .filter(|it| it.made_by.is_some() && !it.leaving)
            .map(|it| (it.uid, it.identity.clone()))
            .collect();
        for (uid, identity) in ours {
            if self.outside.cloud.is_busy(&identity) {
                continue;
            }
            if self.injects(Fault::CloudDeleted, 3) {
                self.outside.cloud.take(uid);
            } else if self.injects(Fault::Replaced, 4) {
                self.outside.cloud.take(uid);
                self.take_name(&identity, None);
            } else if self.injects(Fault::CloudChanged, 10) {
                self.outside.cloud.change(uid, |it| it.is += 100);
                self.wake_owner(uid);
            }
        }
        for uid in self.outside.objects.iter().map(|it| it.uid).collect::<Vec<u64>>() {
            let Some(identity) = self.stands_for(uid) else { continue };
            let free = self.outside.cloud.find(&identity).is_none();
            if free && !self.outside.cloud.is_busy(&identity) {
                if self.injects(Fault::NameTaken, 4) {
                    self.take_name(&identity, None);
                } else if self.injects(Fault::OtherInstallation, 4) {
                    let object = Uid::new("k-1");
                    let owner = Binding { installation: other_installation(), object };
                    let request = RequestId::of(&owner, 1);
                    self.take_name(&identity, Some(Mark { owner, request }));
                }
            }
        }
    }

    /// A client that changed a cloud object asks to reconcile it.
    fn wake_owner(&mut self, uid: u64) {
        let owner = self.outside.cloud.objects.iter().find(|it| it.uid == uid);
        if let Some(object) = owner.and_then(|it| it.made_by) {
            let now = self.now();
            self.store.wake(object, now);
        }
    }

    /// The identity that an object declares, whatever its references say at the moment.
    pub(crate) fn stands_for(&self, uid: u64) -> Option<String> {
        use usher_domain::direct::reference::Reference;
        let object = self.outside.object(uid)?;
        let parent = match &object.spec.parent {
            Reference::External(text) => text.as_str().to_owned(),
            Reference::Named(named) => {
                let number = named.name.strip_prefix("project-")?;
                format!("projects/p{number}")
            }
        };
        Some(format!("{parent}/memberships/{}", object.spec.member))
    }

    /// Another owner's cloud object takes a free name.
    fn take_name(&mut self, identity: &str, mark: Option<Mark>) {
        if !self.outside.cloud.containers.contains(&container(identity)) {
            return;
        }
        let uid = self.outside.cloud.mint();
        self.outside.cloud.put(CloudObject {
            identity: identity.to_owned(),
            uid,
            etag: 1,
            mark,
            is: 7,
            made_by: None,
            created: self.base.tick,
            leaving: false,
        });
        self.say(|_| format!("another client takes {identity}"));
    }

    /// Another client edits, strips, copies and deletes objects.
    fn meddle(&mut self) {
        let tick = self.base.tick;
        if self.injects(Fault::NamespaceDeleted, 2) {
            self.delete_namespace();
        }
        for object in self.outside.objects.clone() {
            let uid = object.uid;
            self.edit(&object);
            if object.is_held() && self.injects(Fault::FinalizerStripped, 4) {
                self.say(|_| format!("another client takes our finalizer off {uid}"));
                self.outside
                    .change(uid, tick, |it| it.finalizers.retain(|it| it != FINALIZER_DIRECT));
            }
            // The only record, if a ledger that was lost has not taken it over yet.
            let row = self.store.of(uid).map(|it| &self.store.resources[it].record);
            let only =
                row.is_some_and(|it| it.name_ledger.rows().is_empty() && !it.state.is_witnessed());
            let may_go = object.stamp.is_some() && !(only && self.moved.contains(&uid));
            if may_go && self.injects(Fault::StampStripped, 5) {
                self.outside.change(uid, tick, |it| it.stamp = None);
                if only {
                    self.forgotten.push(uid);
                }
            }
            if self.outside.object(uid).is_some_and(Object::is_held) {
                self.restore(&object);
            }
            self.forge(&object);
            if object.stamp.is_some() && self.injects(Fault::Copied, 3) {
                self.copy(&object);
            }
        }
    }

    fn edit(&mut self, object: &Object) {
        let (tick, uid) = (self.base.tick, object.uid);
        if self.injects(Fault::SpecEdited, 10) {
            self.outside.change(uid, tick, |it| it.spec.wanted += 1);
        }
        // A record that lost everything and is edited to another identity while a create is in
        // flight cannot be helped: nothing on record names what was requested.
        let movable = !self.copies.contains(&uid) && !self.forgotten.contains(&uid);
        if movable && self.injects(Fault::IdentityEdited, 3) {
            self.moved.push(uid);
            self.outside.change(uid, tick, |it| it.spec.member = format!("{}x", it.spec.member));
        }
        if self.injects(Fault::PolicyEdited, 5) {
            let word = self.base.rng.pick(&["hold", "release-with-record", "abandon"]);
            self.outside.change(uid, tick, |it| it.policy = Some(word.to_owned()));
        }
        if self.injects(Fault::PolicyMisspelt, 3) {
            self.outside.change(uid, tick, |it| it.policy = Some("Abandon".to_owned()));
        }
        let held = object.finalizers.iter().any(|it| it == HOLD);
        if !held && !object.deleting && self.injects(Fault::Held, 5) {
            self.outside.change(uid, tick, |it| it.finalizers.push(HOLD.to_owned()));
        } else if held && self.base.rng.per_mille(15) {
            self.outside.change(uid, tick, |it| it.finalizers.retain(|it| it != HOLD));
        }
    }

    /// The ledger is restored from a backup without this record; the status is lost with it, and
    /// perhaps more.
    fn restore(&mut self, object: &Object) {
        let (tick, uid) = (self.base.tick, object.uid);
        let fault = if self.happens(Fault::LedgerLost, 4) {
            Fault::LedgerLost
        } else if self.happens(Fault::RecordLost, 3) {
            Fault::RecordLost
        } else if self.happens(Fault::StampMalformed, 3) {
            Fault::StampMalformed
        } else {
            return;
        };
        let Some(row) = self.store.of(uid) else { return };
        let all = fault != Fault::LedgerLost || object.stamp.is_none();
        if all && self.moved.contains(&uid) {
            return;
        }
        self.met(fault);
        if all {
            self.forgotten.push(uid);
        }
        let edited = self.base.rng.percent(50);
        self.store.resources[row].entry = None;
        self.outside.change(uid, tick, |it| {
            it.status = None;
            it.spec.wanted += u64::from(edited);
            if fault == Fault::RecordLost {
                it.stamp = None;
            }
            if fault == Fault::StampMalformed {
                it.stamp = Some("{\"v\":1".to_owned());
            }
        });
        self.say(|_| format!("the ledger forgets {uid}"));
        self.accept(uid);
    }

    /// Another client writes a stamp onto an object of which nothing is on record: bound to it, and
    /// naming the cloud object of another.
    fn forge(&mut self, object: &Object) {
        let (tick, owner) = (self.base.tick, object.uid);
        let row = self.store.of(owner).map(|it| &self.store.resources[it].record);
        let open = row.is_some_and(|it| it.name_ledger.rows().is_empty());
        // A record that lost everything while a create is in flight cannot be helped.
        let settled = row.is_some_and(|it| it.state.is_witnessed())
            || self.outside.cloud.objects.iter().any(|it| it.made_by == Some(owner));
        let movable = !self.moved.contains(&owner) && !self.copies.contains(&owner);
        if !open || !settled || !movable || !self.happens(Fault::StampForged, 60) {
            return;
        }
        let others = self.outside.cloud.objects.iter().filter(|it| it.made_by != Some(owner));
        let others: Vec<CloudObject> = others.cloned().collect();
        let at = self.base.rng.below(others.len().max(1) as u64);
        let Some(victim) = usize::try_from(at).ok().and_then(|at| others.get(at)) else { return };
        self.met(Fault::StampForged);
        self.forged.push(owner);
        self.forgotten.push(owner);
        let text = stamp(&uid(owner), victim);
        self.say(|_| format!("another client writes {text} onto {owner}"));
        self.outside.change(owner, tick, |it| it.stamp = Some(text));
    }

    /// A manifest is applied again under another name, with its stamp and perhaps its finalizer.
    fn copy(&mut self, object: &Object) {
        if self.copies.len() > 2 {
            return;
        }
        let uid = self.outside.mint();
        let keeps = self.base.rng.percent(50);
        let copy = Object {
            uid,
            name: format!("{}-copy", object.name),
            deleting: false,
            finalizers: if keeps { vec![FINALIZER_DIRECT.to_owned()] } else { vec![] },
            status: None,
            ..object.clone()
        };
        self.copies.push(uid);
        self.outside.objects.push(copy);
        self.say(|_| format!("{uid} is a copy"));
        self.accept(uid);
    }

    fn delete_namespace(&mut self) {
        let tick = self.base.tick;
        for name in self.outside.parents.iter().map(|it| it.name.clone()).collect::<Vec<_>>() {
            let gone_at = tick + self.base.rng.between(0, 60);
            self.outside.delete_parent(&name, gone_at, tick);
        }
        for uid in self.outside.objects.iter().map(|it| it.uid).collect::<Vec<u64>>() {
            self.ask_to_go(uid);
        }
    }

    /// The fault phase is over: every request is answered, no other client interferes, and most
    /// copies and most restored objects are deleted again.
    pub(crate) fn calm_down(&mut self) {
        let tick = self.base.tick;
        let now = self.now();
        self.watch_down_until = tick;
        self.empty_until = tick - 1;
        self.hidden_until = tick - 1;
        self.stubborn = Stubborn::default();
        self.store.guard_tripped = false;
        self.store.cluster_guard_tripped = false;
        self.outside.rebuilt_until = tick;
        self.outside.kind_missing_until = tick;
        for it in &mut self.outside.parents {
            it.unready_until = it.unready_until.min(tick);
            it.missing_until = it.missing_until.min(tick);
        }
        self.lift_holds();
        for uid in self.forged.clone() {
            self.outside.change(uid, tick, |it| it.stamp = None);
        }
        for uid in [self.copies.clone(), self.restored.clone()].concat() {
            if self.base.rng.percent(70) {
                self.ask_to_go(uid);
            }
        }
        self.store.wake_all(now);
    }
}
