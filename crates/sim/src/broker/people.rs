//! What people ask for: each command is one transaction on its row.

use usher_domain::broker::ledger::Command;

use crate::broker::check::Crossing;
use crate::broker::state::State;
use crate::sim_world::{SimWorld as _, under_way};

impl State {
    /// Grants the wishes of this moment.
    pub(crate) fn grant_wishes(&mut self) {
        for wish in 0..self.wishes.len() {
            let wishes = self.wishes[wish].clone();
            if wishes.declare_at <= self.base.tick && self.store.resources.len() == wish {
                self.declare(wish);
            }
            if self.store.resources.len() <= wish {
                continue;
            }
            if wishes.retire_at == Some(self.base.tick)
                || wishes.retire_at == Some(self.base.tick - 30)
            {
                self.order(wish, &Command::Deprovision, "its deletion is asked for");
            }
            if wishes.replace_at == Some(self.base.tick) {
                self.order(wish, &Command::Replace, "a new generation is asked for");
            }
            if wishes.abandon_at == Some(self.base.tick) {
                let (by, reason) = ("admin".to_owned(), "given up".to_owned());
                self.order(wish, &Command::Abandon { by, reason }, "it is abandoned");
            }
        }
    }

    /// A person sends a command about a resource; it may be refused.
    fn order(&mut self, index: usize, order: &Command, said: &str) {
        let now = self.now();
        let record = &self.store.resources[index].record;
        let (before, version) = (Crossing::from(&record.state), record.version);
        if self.store.order(index, order, now).is_err() {
            return;
        }
        if self.store.resources[index].record.version != version {
            self.check_transition_event(index, before);
        }
        self.say(|_| format!("resource {index}: {said}"));
    }

    /// What is still in progress.
    pub(crate) fn on_its_way(&self) -> Vec<&'static str> {
        let tick = self.base.tick;
        let wished = self.wishes.iter().any(|it| {
            [it.retire_at.map(|at| at + 30), it.replace_at, it.abandon_at, Some(it.declare_at)]
                .into_iter()
                .flatten()
                .any(|at| tick <= at)
        });
        let enrolling = self.outside.agents.iter().any(|it| {
            !it.enrolled
                && it.tries_at.is_some()
                && self.outside.by_uid(it.machine).is_some()
                && self.is_redeemable(it.token)
        });
        let unfinished = (0..self.store.resources.len()).any(|it| self.unfinished(it).is_some());
        let requests = !self.base.echoes.is_empty() || !self.late_parts.is_empty();
        let leaving = self.outside.objects.iter().any(|it| it.gone_at.is_some());
        under_way([
            (wished, "a wish"),
            (leaving, "a departure"),
            (enrolling, "an enrolment"),
            (unfinished, "a resource"),
            (requests, "a request"),
        ])
    }
}
