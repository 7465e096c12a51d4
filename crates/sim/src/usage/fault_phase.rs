//! Everything that breaks by itself or is broken by another client.

use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::command;
use usher_domain::usage::facts::Resolve;
use usher_domain::usage::reference::{ObjectKey, UsageKind};

use crate::sim_world::SimWorld as _;
use crate::usage::admission::{Admitted, DeletionRequest};
use crate::usage::fault::Fault;
use crate::usage::outside::{Object, key, number, object, uid};
use crate::usage::people::{PERSON, spec};
use crate::usage::plan::{Belongs, Declared, Refer, Thing, policy};
use crate::usage::state::State;

impl State {
    /// What breaks, and who meddles.
    pub(crate) fn misbehave(&mut self) {
        let tick = self.base.tick;
        if tick == 0 && !self.plan.wanted.is_empty() {
            let mut stranger = object(key("Database", "stranger"), "theirs", 0);
            stranger.created = -1;
            self.add(stranger);
        }
        if !self.in_fault_phase() {
            return;
        }
        self.break_down();
        self.meddle();
        self.reconsider();
    }

    /// What breaks by itself.
    fn break_down(&mut self) {
        let tick = self.base.tick;
        if self.injects(Fault::ClockJump, 6) {
            self.base.skew += self.base.rng.between(5, 80);
        }
        if self.injects(Fault::WatchDown, 8) {
            self.watch_down_until = tick + self.base.rng.between(5, 60);
        }
        if self.injects(Fault::WebhookDown, 8) {
            self.webhook_down_until = tick + self.base.rng.between(5, 40);
        }
        if self.injects(Fault::CollectorAsleep, 8) {
            self.outside.asleep_until = tick + self.base.rng.between(10, 80);
        }
        if tick >= self.outside.rebuilt_until && self.happens(Fault::Rebuilt, 6) {
            self.outside.rebuilt_until = tick + self.base.rng.between(10, 60);
        }
        if tick >= self.outside.guarded_until && self.happens(Fault::Guarded, 6) {
            self.outside.guarded_until = tick + self.base.rng.between(10, 60);
        }
        if self.base.rng.per_mille(40) {
            self.outside.replica = Some((self.outside.revision, self.outside.objects.clone()));
        }
        if self.outside.removed_until.is_empty() && self.happens(Fault::KindRemoved, 3) {
            let kind = if self.base.rng.percent(50) { "App" } else { "Database" };
            let until = tick + self.base.rng.between(10, 60);
            self.met(Fault::KindRemoved);
            self.remove_kind(kind, until);
        }
        if !self.outside.finalization.contains_key("ns") && self.happens(Fault::NamespaceDeleted, 2)
        {
            self.delete_namespace();
        }
    }

    fn delete_namespace(&mut self) {
        let name = ObjectKey {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: "ns".to_owned(),
        };
        let deletion = usher_domain::usage::admit::Deletion {
            object: name,
            uid: uid(0),
            deleting: false,
            break_glass: None,
            owners: vec![],
            propagation: Propagation::Background,
            requester: PERSON.to_owned(),
            dry_run: false,
            rows_live: false,
        };
        let request = usher_domain::usage::admit::Request::Delete(deletion);
        if self.admit(&request) == Admitted::Yes {
            self.met(Fault::NamespaceDeleted);
            self.outside.finalization.insert("ns".to_owned(), self.base.tick + 1);
        }
    }

    /// Another client deletes, strips, scribbles and restores.
    fn meddle(&mut self) {
        for uid in self.outside.objects.iter().map(|it| it.uid).collect::<Vec<u64>>() {
            match self.outside.by_uid(uid) {
                Some(it) if it.body.is_some() => self.meddle_with_usage(uid),
                Some(_) => self.meddle_with_object(uid),
                None => {}
            }
        }
        self.recreate();
        if self.happens(Fault::Circle, 4) {
            self.close_circle();
        }
    }

    fn meddle_with_object(&mut self, uid: u64) {
        let Some(object) = self.outside.by_uid(uid) else { return };
        let (marked, is_database) = (object.mark.is_some(), object.key.kind == "Database");
        let propagation = policy(&mut self.base.rng);
        let asked = DeletionRequest { requester: PERSON, propagation, dry_run: false };
        let fault = if is_database { Fault::TargetDeleted } else { Fault::UserDeleted };
        if self.injects(fault, 2) {
            let _ = self.delete(uid, asked);
        }
        if marked && self.injects(Fault::DryRun, 8) {
            let _ = self.delete(uid, DeletionRequest { dry_run: true, ..asked });
        }
        if marked && self.injects(Fault::Stripped, 8) {
            let _ = self.strip(uid);
        }
        if marked && self.injects(Fault::ForcedStrip, 4) {
            self.excuse(uid);
            self.write(uid, |it| it.mark = None);
        }
        if marked && self.injects(Fault::Scribbled, 4) {
            self.write(uid, |it| it.mark = Some("true".to_owned()));
        }
        if marked && self.injects(Fault::BreakGlass, 2) {
            self.write(uid, |it| it.note = Some("fire".to_owned()));
            let _ = self.delete(uid, asked);
        }
        if is_database && self.happens(Fault::OwnersChanged, 4) {
            self.change_owners(uid);
        }
        if is_database && self.injects(Fault::Crossplane, 3) {
            let until = self.base.tick + self.base.rng.between(10, 80);
            let key = self.outside.by_uid(uid).map(|it| it.key.clone());
            self.outside.blocked_until.extend(key.map(|key| (key, until)));
        }
    }

    /// The owners of an object change: it is adopted, or released.
    fn change_owners(&mut self, place: u64) {
        let group = self.outside.under(&Thing::Group.key());
        let group = group.filter(|it| it.deleting.is_none()).map(|it| it.uid);
        let owned = self.outside.by_uid(place).is_some_and(|it| !it.owners.is_empty());
        match (owned, group) {
            (true, _) => self.write(place, |it| it.owners.clear()),
            (false, Some(uid)) => self.write(place, |it| {
                it.owners =
                    vec![crate::usage::outside::Owner { uid, controller: true, blocks: true }];
            }),
            (false, None) => return,
        }
        self.met(Fault::OwnersChanged);
    }

    fn meddle_with_usage(&mut self, uid: u64) {
        if self.injects(Fault::UsageDeleted, 2) {
            let propagation = policy(&mut self.base.rng);
            let _ = self
                .delete(uid, DeletionRequest { requester: PERSON, propagation, dry_run: false });
        }
        let held = self.outside.by_uid(uid).and_then(|it| it.body.as_ref());
        let held = held.is_some_and(|it| it.finalizer);
        if held && self.injects(Fault::FinalizerStripped, 6) {
            self.write(uid, |it| {
                if let Some(body) = &mut it.body {
                    body.finalizer = false;
                }
            });
        }
    }

    /// What is gone is made again under its name, sometimes from a copy that carries the mark.
    fn recreate(&mut self) {
        let mix = self.base.course.mix;
        if !mix.has(Fault::Restored) && !mix.has(Fault::Recreated) {
            return;
        }
        let things = [Thing::App(0), Thing::App(1), Thing::Database(0), Thing::Database(1)];
        for thing in things {
            if !self.is_gone(&thing.key()) || !self.log.seen.contains(&thing.key()) {
                continue;
            }
            let restored = self.happens(Fault::Restored, 6);
            let soon = if self.plan.returns == Some(thing) { 120 } else { 8 };
            if !restored && !self.happens(Fault::Recreated, soon) {
                continue;
            }
            let mut new = object(thing.key(), "ours", self.base.tick);
            new.hold_lease = self.base.rng.between(0, 20);
            if restored {
                let mut usages = self.outside.objects.iter().filter(|it| it.body.is_some());
                new.mark = Some(usages.next_back().map_or(1, |it| it.uid).to_string());
            }
            if self.add(new).is_some() {
                self.met(if restored { Fault::Restored } else { Fault::Recreated });
            }
        }
    }

    /// Two Usages that close a circle come in at the same time, past each other.
    fn close_circle(&mut self) {
        let (one, other) = (Thing::App(1), Thing::App(2));
        let existing = |thing: Thing| {
            let it = self.outside.under(&thing.key());
            it.is_some_and(|it| it.deleting.is_none())
        };
        if !existing(one) || !existing(other) || self.usage_named("circle-0").is_some() {
            return;
        }
        for (place, (of, by)) in [(one, other), (other, one)].into_iter().enumerate() {
            let it = Declared {
                at: 0,
                kind: UsageKind::Usage,
                of: Refer::Name(of),
                by: Some(Refer::Name(by)),
                resolve: Resolve::Once,
                replay: true,
                belongs: Belongs::None,
                edit: None,
                delete_at: None,
            };
            let name = format!("circle-{place}");
            self.declare(&name, spec(it), (it.kind, vec![]));
        }
        if self.usage_named("circle-1").is_some() {
            self.met(Fault::Circle);
        }
    }

    /// People change their minds.
    fn reconsider(&mut self) {
        let planned = 0..self.plan.declared.len();
        for name in planned.map(|place| format!("u{place}")) {
            if self.happens(Fault::Edited, 3) && self.usage_named(&name).is_some() {
                let number = u8::try_from(self.base.rng.below(3)).unwrap_or(0);
                let used = self.base.rng.percent(40);
                let thing = if used { Thing::App(number) } else { Thing::Database(number) };
                self.met(Fault::Edited);
                self.edit(&name, Refer::Name(thing));
            }
        }
        let remembering: Vec<u64> = self
            .outside
            .objects
            .iter()
            .filter(|it| it.body.as_ref().is_some_and(|it| !it.status.attempts.is_empty()))
            .map(|it| it.uid)
            .collect();
        for place in remembering {
            if self.happens(Fault::Withdrawn, 8) {
                self.withdraw(place);
            }
        }
    }

    fn withdraw(&mut self, place: u64) {
        let now = self.now();
        let remembering = self.outside.by_uid(place).and_then(Object::usage);
        let attempt = remembering.and_then(|it| it.status.attempts.first().cloned());
        let Some(attempt) = attempt else { return };
        let usages: Vec<Usage> = self.outside.usages().collect();
        let Ok(changed) = command::withdraw(&usages, &attempt.uid, now) else { return };
        self.met(Fault::Withdrawn);
        self.note_withdrawn(&attempt.uid, now);
        for after in changed {
            self.write(number(&after.uid), |it| {
                if let Some(body) = &mut it.body {
                    body.status = after.status;
                }
            });
        }
    }
}
