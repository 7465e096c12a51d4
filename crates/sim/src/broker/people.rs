//! What people ask for: each command is one transaction on its row.

use usher_domain::broker::command::{self, Outstanding};

use crate::broker::check::Crossing;
use crate::broker::state::State;
use crate::broker::store::Write;
use crate::clock::REQUEST_BOUND;
use crate::clock::millis;
use crate::realm::Realm as _;

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
                self.retire(wish);
            }
            if wishes.replace_at == Some(self.base.tick) {
                self.replace(wish);
            }
            if wishes.abandon_at == Some(self.base.tick) {
                self.abandon(wish);
            }
        }
    }

    fn outstanding(&self, index: usize) -> Outstanding {
        Outstanding {
            heard_until: self.store.resources[index].entry.heard_until(),
            request_bound: millis(REQUEST_BOUND),
        }
    }

    fn retire(&mut self, index: usize) {
        let outstanding = self.outstanding(index);
        let now = self.now();
        let change =
            command::deprovision(&self.store.resources[index].record.state, &outstanding, now);
        self.write_change(index, change);
        self.say(|_| format!("deletion of resource {index} is asked for"));
    }

    fn replace(&mut self, index: usize) {
        let outstanding = self.outstanding(index);
        let now = self.now();
        let resource = &self.store.resources[index].record.state;
        if let Ok(change) = command::replace(resource, &outstanding, now) {
            self.write_change(index, change);
            self.say(|_| format!("a new generation of resource {index} is asked for"));
        }
    }

    fn abandon(&mut self, index: usize) {
        let live = self.store.peers.iter().any(|it| it.resource == index && it.is_registered());
        let now = self.now();
        let record = &self.store.resources[index].record;
        if let Ok(change) = command::abandon(record, live, ("admin", "given up"), now) {
            self.write_change(index, change);
            self.say(|_| format!("resource {index} is abandoned"));
        }
    }

    fn write_change(&mut self, index: usize, change: command::Change) {
        let now = self.now();
        let before = Crossing::from(&self.store.resources[index].record.state);
        if change.next != self.store.resources[index].record.state {
            let command::Change { next, rows, event } = change;
            let write =
                Write { version: None, next, rows: &rows, event, promised: None, breakage: None };
            let written = self.store.write(index, write, now);
            debug_assert!(written.is_ok(), "a command holds the row");
            self.check_told(index, before);
        }
        self.store.resources[index].entry.wake(now);
    }

    /// What is still on its way.
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
        [
            (wished, "a wish"),
            (leaving, "a departure"),
            (enrolling, "an enrolment"),
            (unfinished, "a resource"),
            (requests, "a request"),
        ]
        .into_iter()
        .filter_map(|(under_way, what)| under_way.then_some(what))
        .collect()
    }
}
