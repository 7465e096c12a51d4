//! One step of one machine: the kernel's two ports between the store and the provider.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use usher_domain::fleet::accept::Report;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::effect::{Effect, Verb};
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::issue::Token;
use usher_domain::fleet::observe::{Observed, fold};
use usher_domain::fleet::plan::Slot;
use usher_domain::fleet::reason::Reason;
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::fleet::snapshot::{Snapshot, Source};
use usher_domain::object::id::MachineRecordId;
use usher_kernel::{
    Decision, Ledger, Record, Report as Reported, Stopped, Timestamp, Trouble, Unknown, Version,
    World, step,
};
use usher_store::MachineWrite;

use super::epoch::Epoch;
use super::memory::{DueMachine, Message, ProviderAnswer};
use super::provider::Failure;
use super::tally::{Done, Kind, Outcome};
use super::writer::Writer;
use usher_failpoint::Failpoint;

/// The observed state of a machine.
type Said = Result<Option<Result<Report, Refusal>>, Unknown>;

pub struct Step {
    epoch: Arc<Epoch>,
    writer: Writer,
    slot: Slot,
    record_id: MachineRecordId,
    notes: Mutex<Notes>,
}

/// What a step needs at its end.
#[derive(Debug, Default)]
struct Notes {
    /// The token reserved for it.
    fresh: Option<Token>,
    /// The outcome of the command that it sent.
    sent: Option<Sent>,
    /// The record that it began with, and the one that it wrote.
    before: Option<Record<Machine>>,
    after: Option<Machine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Answered,
    Unanswered,
}

impl Step {
    /// The step of a due machine.
    pub fn new(epoch: Arc<Epoch>, writer: Writer, turn: &DueMachine) -> Self {
        let (slot, record_id) = (turn.slot, turn.record_id);
        Self { epoch, writer, slot, record_id, notes: Mutex::default() }
    }

    pub async fn run(self) -> Result<Option<Reported<Reason>>, Stopped> {
        let now = self.epoch.now();
        step(&self.epoch.config.reconciler, &self, &self, now).await
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles every token without a command in flight, and records the current row.
    fn end(&self) {
        let Notes { fresh, sent, before, after } = std::mem::take(&mut *self.notes());
        if fresh.is_none() && before.is_none() {
            return;
        }
        let late = self.epoch.now().after(self.epoch.config.request_bound);
        let mut memory = self.epoch.memory();
        let next = after.as_ref().map(Machine::fields);
        let recorded = next.filter(|it| it.command == CommandState::Recorded).map(|it| it.token);
        if let Some(fresh) = fresh.filter(|it| recorded != Some(*it)) {
            memory.settle(fresh);
        }
        let Some(before) = before else { return };
        let (command, token) = (before.state.fields().command, before.state.fields().token);
        let is_over = after.is_some() && recorded != Some(token);
        match (command, sent) {
            (CommandState::Recorded, Some(Sent::Answered)) => memory.settle(token),
            (CommandState::Recorded, Some(Sent::Unanswered)) => {
                memory.settle_at(token, self.slot, late);
            }
            (CommandState::Recorded, None) if is_over => memory.settle_at(token, self.slot, late),
            (CommandState::Recorded | CommandState::Sent | CommandState::None, _) => {}
        }
        let after_written = after.is_some();
        let (version, machine) = match after {
            Some(machine) => (before.version.next(), machine),
            None => (before.version, before.state),
        };
        memory.note(self.record_id, version, &machine);
        let begins = machine.phase().is_passing() && after_written;
        drop(memory);
        self.epoch.replan.notify_one();
        if begins {
            self.epoch.relist.notify_one();
        }
    }

    /// Reads this machine by id.
    async fn ask(&self, machine: &Machine) -> Said {
        self.epoch.tally.count(Done::Gets);
        match self.epoch.provider.get(machine.id()).await {
            Ok(raw) => Ok(raw.map(|it| self.epoch.tally.read(Report::read(&it)))),
            Err(failure) => {
                self.epoch.tally.count(Done::Unanswered);
                tracing::debug!(machine = %machine.id(), error = failure.text, "read failed");
                Err(Unknown::Unreachable)
            }
        }
    }

    async fn observe_machine(&self, machine: &Machine) -> Snapshot {
        let (message, stamp, fresh) = {
            let mut memory = self.epoch.memory();
            let message = memory.take_message(self.slot, machine);
            let stamp = memory.stamp_for(machine.fields().token);
            (message, stamp, memory.reserve())
        };
        self.notes().fresh = Some(fresh);
        let (source, stamp, reading) = match message {
            Some(Message { source, stamp, answer }) => (source, stamp, Ok(said(&answer))),
            None => (Source::Get, stamp, self.ask(machine).await),
        };
        let listing = self.epoch.memory().listing(self.slot);
        Snapshot {
            by: self.epoch.provider.name().to_owned(),
            at: self.epoch.now(),
            source,
            stamp,
            reading,
            listing,
            paused: self.epoch.is_paused(),
            superseded: !self.epoch.is_ours(),
            fresh,
        }
    }

    fn count(&self, machine: &Machine, effect: &Effect, outcome: Outcome) {
        self.epoch.tally.outcome(Kind::of(&effect.verb, machine), outcome);
    }
}

/// A cancelled step settles its token as well.
impl Drop for Step {
    fn drop(&mut self) {
        self.end();
    }
}

fn said(answer: &ProviderAnswer) -> Option<Result<Report, Refusal>> {
    match answer {
        ProviderAnswer::Record(raw) => Some(Report::read(raw)),
        ProviderAnswer::Broken => Some(Err(Refusal::MachineState(String::new()))),
        ProviderAnswer::Missing => None,
    }
}

impl World<MachineReconciler> for Step {
    async fn observe(&self, record: &Record<Machine>) -> Result<Observed, Trouble> {
        let snapshot = self.observe_machine(&record.state).await;
        Ok(fold(&record.state, &snapshot))
    }

    async fn apply(&self, record: &Record<Machine>, effect: &Effect) -> Result<(), Trouble> {
        let machine = &record.state;
        let blob = match &effect.verb {
            Verb::Configure { cluster, .. } => self.epoch.bootstrap.blob(machine, cluster).await?,
            Verb::Create | Verb::Drain { .. } | Verb::Delete | Verb::Salvage => vec![],
        };
        if !self.epoch.is_ours() {
            self.count(machine, effect, Outcome::Superseded);
            return Err(Trouble::unavailable("the lease of the shard".to_owned()));
        }
        Failpoint::BeforeEffect.pass();
        self.notes().sent = Some(Sent::Unanswered);
        let begun = Instant::now();
        let answer = self.epoch.provider.send(effect, blob).await;
        self.epoch.tally.called(effect.kind(), begun.elapsed());
        Failpoint::AfterEffect.pass();
        match answer {
            Ok(shown) => {
                self.notes().sent = Some(Sent::Answered);
                self.count(machine, effect, Outcome::Success);
                if let Some(raw) = shown {
                    let source = Source::Acknowledgement;
                    let answer = ProviderAnswer::Record(Box::new(raw));
                    let message = Message { source, stamp: effect.token, answer };
                    self.epoch.memory().post(self.slot, message, self.epoch.now());
                }
                Ok(())
            }
            Err(Failure { class, too_slow, text }) => {
                if !too_slow && class != usher_domain::fleet::error::ErrorClass::Retryable {
                    self.notes().sent = Some(Sent::Answered);
                }
                self.count(machine, effect, Outcome::of(class, too_slow));
                let (id, verb) = (machine.id(), effect.kind());
                tracing::warn!(machine = %id, %verb, %class, error = text, "command failed");
                Err(class.trouble(self.epoch.provider.name()))
            }
        }
    }
}

impl Ledger<MachineReconciler> for Step {
    async fn load(&self) -> Result<Option<Record<Machine>>, Trouble> {
        let stored = self.epoch.store.machine(self.record_id).await;
        let record = stored.map_err(|error| error.trouble())?.record;
        self.notes().before = Some(record.clone());
        Ok(Some(record))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<MachineReconciler>,
    ) -> Result<(), Trouble> {
        let before = self.notes().before.clone();
        let Some(before) = before else { return Err(Trouble::Conflict) };
        let next = match Machine::hydrate(decision.next.fields().clone()) {
            Ok(next) => next,
            Err(why) => {
                self.epoch.tally.transition_error(&before.state);
                tracing::error!(machine = %before.state.id(), %why, "invalid row: this is a bug");
                return Err(Trouble::Corrupt { what: format!("machine {}", before.state.id()) });
            }
        };
        let write = MachineWrite {
            id: self.record_id,
            version,
            next: next.clone(),
            name_ledger: before.name_ledger.with(&decision.rows),
            event: decision.event.clone(),
        };
        Failpoint::BeforeCommit.pass();
        self.writer.write(write).await?;
        Failpoint::AfterCommit.pass();
        self.epoch.tally.crossed(&before.state, &next, decision.reason);
        self.notes().after = Some(next);
        Ok(())
    }
}

/// When a machine is requeued.
pub fn requeue_of(
    done: &Result<Option<Reported<Reason>>, Stopped>,
    (epoch, attempts): (&Epoch, u8),
) -> (Option<Timestamp>, bool) {
    use usher_kernel::Wake;
    use usher_kernel::schedule::{Jitter, pause};

    let (now, pace) = (epoch.now(), &epoch.config.pace);
    match done {
        Ok(report) => (
            match report.as_ref().map_or(Wake::Never, |it| it.wake) {
                Wake::Now => Some(now),
                Wake::At(at) => Some(at),
                Wake::OnChange | Wake::Never => None,
            },
            true,
        ),
        Err(Stopped { trouble, .. }) => {
            let paused = pause(trouble.retry(), pace, (u32::from(attempts), Jitter(jitter())));
            (paused.map(|it| now.after(it)), false)
        }
    }
}

fn jitter() -> u32 {
    let [.., a, b, c, d] = uuid::Uuid::new_v4().into_bytes();
    u32::from_be_bytes([a, b, c, d])
}
