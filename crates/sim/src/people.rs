//! What people ask for: each command is one transaction on its row.

use usher_domain::broker::command::{self, Outstanding};

use crate::check::Crossing;
use crate::plan::REQUEST_BOUND;
use crate::seat::millis;
use crate::state::State;
use crate::store::Write;

impl State {
    /// Grants the wishes of this moment.
    pub(crate) fn grant_wishes(&mut self) {
        for wish in 0..self.plan.wishes.len() {
            let wishes = self.plan.wishes[wish].clone();
            if wishes.declare_at <= self.tick && self.store.resources.len() == wish {
                self.declare(wish);
            }
            if self.store.resources.len() <= wish {
                continue;
            }
            if wishes.retire_at == Some(self.tick) || wishes.retire_at == Some(self.tick - 30) {
                self.retire(wish);
            }
            if wishes.replace_at == Some(self.tick) {
                self.replace(wish);
            }
            if wishes.abandon_at == Some(self.tick) {
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
            let write = Write { version: None, next, rows: &rows, event, breakage: None };
            let written = self.store.write(index, write, now);
            debug_assert!(written.is_ok(), "a command holds the row");
            self.check_told(index, before);
        }
        self.store.resources[index].entry.wake(now);
    }
}
