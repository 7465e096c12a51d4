//! Webhooks: replicas of one admission whose index lags behind the cluster.

use usher_domain::usage::admit::{Admission, Answer, Deletion, Denial, Freshness, Request};
use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::attempt::{Attempt, Origin, Progress, Propagation};
use usher_domain::usage::graph::{Entry, Graph};
use usher_domain::usage::reference::{ObjectKey, UsageKind};
use usher_kernel::Uid;

use crate::clock::{Tick, millis};
use crate::sim_world::SimWorld as _;
use crate::usage::breakage::Breakage;
use crate::usage::check::Checker;
use crate::usage::fault::Fault;
use crate::usage::outside::{Object, uid};
use crate::usage::state::State;

/// One replica: what it knows, and what is in flight to it.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// What it knows.
    pub index: Graph,
    /// What it will know, in the order of each of its two watches.
    pub coming: Vec<(Tick, UsageKind, Uid, Option<Entry>)>,
}

/// A denial that is not on record yet.
#[derive(Clone, Debug)]
pub struct Pending {
    /// When it is recorded.
    pub at: Tick,
    /// With which Usage.
    pub usage: Uid,
    /// What was denied.
    pub attempt: Attempt,
}

/// How a deletion is requested.
#[derive(Clone, Copy, Debug)]
pub struct DeletionRequest<'a> {
    /// Who asks.
    pub requester: &'a str,
    /// What happens to what it owns.
    pub propagation: Propagation,
    /// Whether nothing is meant to happen.
    pub dry_run: bool,
}

/// What admission lets the server do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// Continue.
    Yes,
    /// Stop.
    No(Box<Denial>),
    /// No answer.
    Unanswered,
}

impl State {
    /// Notifies every replica that a Usage changed or is gone, each after its own delay.
    pub(crate) fn publish(&mut self, number: u64, kind: UsageKind) {
        let usage = self.outside.by_uid(number).and_then(Object::usage);
        let entry = usage.map(|it| self.entry_of(&it));
        let lags = self.in_fault_phase() && self.base.course.mix.has(Fault::IndexLags);
        for place in 0..self.replicas.len() {
            let delay = match (lags, self.base.rng.below(10)) {
                (true, 0..=2) => self.base.rng.between(5, 60),
                (_, 0..=4) => 0,
                (_, _) => self.base.rng.between(0, 2),
            };
            if delay > 4 {
                self.met(Fault::IndexLags);
            }
            let tick = self.base.tick;
            let coming = &mut self.replicas[place].coming;
            let before = coming.iter().filter(|it| it.1 == kind).map(|it| it.0).max();
            let at = before.unwrap_or(tick).max(tick + delay);
            coming.push((at, kind, uid(number), entry.clone()));
        }
    }

    /// A Usage as an index has it.
    fn entry_of(&self, usage: &Usage) -> Entry {
        let mut entry = Entry::of(usage);
        entry.holds &= !(usage.deleting && self.is_broken(Breakage::LeavingHoldsNothing));
        entry
    }

    /// What was in flight to the replicas arrives.
    pub(crate) fn catch_up(&mut self) {
        let tick = self.base.tick;
        for replica in &mut self.replicas {
            let (due, later) = std::mem::take(&mut replica.coming)
                .into_iter()
                .partition::<Vec<_>, _>(|it| it.0 <= tick);
            replica.coming = later;
            for (_, _, uid, entry) in due {
                match entry {
                    Some(entry) => replica.index.put(entry),
                    None => _ = replica.index.remove(&uid),
                }
            }
        }
    }

    /// The index that has caught up.
    pub(crate) fn live_index(&self) -> Graph {
        let mut graph = Graph::default();
        for usage in self.outside.usages() {
            graph.put(self.entry_of(&usage));
        }
        graph
    }

    /// Asks admission, as the API server would, with one replica or another.
    pub(crate) fn admit(&mut self, request: &Request) -> Admitted {
        if self.base.tick < self.webhook_down_until {
            return Admitted::Unanswered;
        }
        let replicas = self.replicas.len().max(1) as u64;
        let place = usize::try_from(self.base.rng.below(replicas)).unwrap_or(0);
        let now = self.now();
        let admission = Admission { lifetime: millis(self.lifetime) };
        let Some(replica) = self.replicas.get(place) else { return Admitted::Unanswered };
        let answer = admission.admit(request, &replica.index, (Freshness::Cached, now));
        let trusts = self.is_broken(Breakage::AllowFromCache);
        let answer = match answer {
            Answer::Recheck if trusts => Answer::Allow(None),
            Answer::Recheck if self.injects(Fault::NoBarrier, 60) => return Admitted::Unanswered,
            Answer::Recheck => {
                let index = self.live_index();
                admission.admit(request, &index, (Freshness::Live, now))
            }
            Answer::Allow(_) | Answer::Deny(_) => answer,
        };
        match answer {
            Answer::Allow(_) => Admitted::Yes,
            Answer::Deny(denial) => Admitted::No(denial),
            Answer::Recheck => Admitted::Unanswered,
        }
    }

    /// Asks admission about a deletion, if its rules say that it is to be asked, and keeps what is
    /// to be recorded.
    pub(crate) fn admit_deletion(&mut self, number: u64, asked: DeletionRequest<'_>) -> Admitted {
        let Some(object) = self.outside.by_uid(number) else { return Admitted::Yes };
        let deletion = Deletion {
            object: object.key.clone(),
            uid: uid(number),
            deleting: object.deleting.is_some(),
            break_glass: object.note.clone(),
            owners: object.owner_uids(),
            propagation: asked.propagation,
            requester: asked.requester.to_owned(),
            dry_run: asked.dry_run,
            rows_live: false,
        };
        let (marked, key) = (object.mark.is_some(), object.key.clone());
        let broken = object.note.is_some() || object.deleting.is_some();
        if !marked {
            return Admitted::Yes;
        }
        let admitted = self.admit(&Request::Delete(deletion.clone()));
        match &admitted {
            Admitted::No(denial) => {
                let recorded = denial.record.clone().or_else(|| {
                    let first = denial.blockers.first()?;
                    let mut meant = deletion;
                    meant.dry_run = false;
                    let records = asked.dry_run && self.is_broken(Breakage::DryRunRecords);
                    records.then(|| (first.usage.clone(), first.uid.clone(), self.attempt(&meant)))
                });
                if let Some((_, usage, attempt)) = recorded {
                    self.remember(usage, attempt, asked.dry_run);
                }
            }
            Admitted::Yes if !broken && !asked.dry_run => self.check_allowed(&key),
            Admitted::Yes | Admitted::Unanswered => {}
        }
        admitted
    }

    fn attempt(&self, deletion: &Deletion) -> Attempt {
        let (now, lifetime) = (self.now(), millis(self.lifetime));
        Attempt {
            object: deletion.object.clone(),
            uid: deletion.uid.clone(),
            propagation: deletion.propagation,
            requester: deletion.requester.clone(),
            origin: Origin::judge(&deletion.requester, &deletion.owners),
            at: now,
            expires_at: now.after(lifetime),
            progress: Progress::Recorded,
        }
    }

    /// A denial is recorded after its answer, unless the replica dies.
    fn remember(&mut self, usage: Uid, attempt: Attempt, dry_run: bool) {
        if self.injects(Fault::RecordLost, 100) {
            return;
        }
        if !dry_run {
            self.log.denied.insert((attempt.uid.clone(), attempt.at));
        }
        let at = self.base.tick + self.base.rng.between(0, 6);
        self.pending.push(Pending { at, usage, attempt });
    }

    /// What was denied is written into the status of a Usage.
    pub(crate) fn record_denials(&mut self) {
        let tick = self.base.tick;
        let (due, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|it| it.at <= tick);
        self.pending = later;
        for Pending { usage, attempt, .. } in due {
            self.check_asked(&attempt);
            self.record_attempt(&usage, &attempt);
        }
    }

    /// A deletion is allowed only where no Usage holds, as of now.
    fn check_allowed(&mut self, key: &ObjectKey) {
        let holders = self.live_index().holders(key).count();
        if holders > 0 {
            let what = format!("the deletion of {key} was allowed beside {holders} holders");
            self.wrong(Checker::CacheDenies, what);
        }
    }
}
