//! What a verb does at the provider: fence first, then existence, repetition and position.

use usher_domain::fleet::effect::{Effect, Verb};
use usher_domain::fleet::error::ErrorClass;
use usher_domain::fleet::phase::Phase;
use usher_kernel::Trouble;

use crate::fleet::fault::Fault;
use crate::fleet::state::State;
use crate::sim_world::SimWorld as _;

/// The longest that something staged takes, in ticks.
const DWELL_MAX: i64 = 40;

/// A verb in flight.
#[derive(Clone, Debug)]
pub struct Request {
    /// The row whose reconciler sends it.
    pub row: usize,
    /// The shard that sends it.
    pub shard: usize,
    /// The verb.
    pub effect: Effect,
    /// Whether its sender still holds its lease.
    pub leased: bool,
    /// The epoch of the shard when its sender claimed.
    pub epoch: u64,
}

impl State {
    /// Does what a request asks for.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<(), Trouble> {
        self.check_verb(request);
        let trouble = |class: ErrorClass| Err(class.trouble("the provider"));
        if self.base.tick < self.outside.down_until || self.injects(Fault::Transient, 50) {
            return trouble(ErrorClass::Retryable);
        }
        let machine = self.store.rows[request.row].machine;
        let treatment = self.outside.machines[machine].treatment;
        if request.effect.verb == Verb::Salvage && treatment.never_salvages {
            return trouble(ErrorClass::Unsupported);
        }
        let mark = self.outside.marks.entry((request.shard, machine)).or_default();
        if request.effect.token <= *mark {
            return trouble(ErrorClass::Fenced);
        }
        *mark = request.effect.token;
        let absent = self.base.tick < self.outside.empty_until;
        if self.outside.machines[machine].removed || absent {
            return trouble(ErrorClass::NotFound);
        }
        if !self.accept(machine, request) {
            return trouble(ErrorClass::OutOfPosition);
        }
        let raw = self.outside.machines[machine].show();
        self.outside.answers.insert((machine, request.effect.token), raw);
        self.say(|it| {
            let actual = &it.outside.machines[machine];
            let (kind, token) = (request.effect.kind(), request.effect.token);
            format!("{} {kind} {}.{}: {}", actual.id, token.epoch, token.sequence, actual.phase)
        });
        Ok(())
    }

    /// Begins, repeats or refuses.
    fn accept(&mut self, machine: usize, request: &Request) -> bool {
        let verb = &request.effect.verb;
        let timely = request.leased && request.epoch == self.store.shards[request.shard].epoch;
        let it = &self.outside.machines[machine];
        let (from, to) = match verb {
            Verb::Create => (Phase::Speculative, Phase::Creating),
            Verb::Configure { .. } => (Phase::Idle, Phase::Configuring),
            Verb::Drain { .. } => (Phase::Configured, Phase::Draining),
            Verb::Delete => (Phase::Idle, Phase::Deleting),
            Verb::Salvage => (Phase::Failed, Phase::Deleting),
        };
        if it.phase == to {
            // Asked again, it takes up what it forgot.
            if it.ends_at.is_none() {
                let ends_at = self.base.tick + self.base.rng.between(1, DWELL_MAX);
                self.outside.machines[machine].ends_at = Some(ends_at);
            }
            return true;
        }
        if it.phase != from {
            return Some(it.phase) == to.goal();
        }
        if let Verb::Configure { cluster, metadata } = verb {
            let it = &mut self.outside.machines[machine];
            it.cluster = cluster.to_string();
            it.metadata.clone_from(metadata);
        }
        self.outside.machines[machine].put(to);
        let it = &mut self.outside.machines[machine];
        // What an overtaken lease holder sends cannot be known; a later snapshot finds it.
        if timely {
            it.floor = it.history.len() - 1;
        }
        self.work_on(machine);
        true
    }

    /// Works on what was begun: at once, later, never, or in vain.
    fn work_on(&mut self, machine: usize) {
        let stuck = self.injects(Fault::Stuck, 60);
        let ends_in_failure = self.injects(Fault::Terminal, 60);
        let dwell = self.base.rng.between(1, DWELL_MAX);
        let tick = self.base.tick;
        let it = &mut self.outside.machines[machine];
        it.ends_in_failure = ends_in_failure;
        it.ends_at = (!stuck).then_some(tick + dwell);
        if !it.treatment.staged && !stuck {
            self.outside.complete(machine);
        }
    }
}
