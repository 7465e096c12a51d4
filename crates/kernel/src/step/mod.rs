//! One pass of the loop.

use thiserror::Error;

use crate::lifecycle::{Condition, Decision, Ledger, Lifecycle, Wake, World};
use crate::time::Timestamp;
use crate::trouble::Trouble;

/// What a finished step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<R> {
    /// Why.
    pub reason: R,
    /// When to requeue.
    pub wake: Wake,
    /// Whether an effect was applied: the next snapshot shows what it did.
    pub acted: bool,
    /// Whether anything was written.
    pub committed: bool,
}

/// A step that could not be finished, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("stopped at {stage}")]
pub struct Stopped {
    /// The stage that failed.
    pub stage: Stage,
    /// Why.
    #[source]
    pub trouble: Trouble,
}

/// The stages of a step, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the record.
    Load,
    /// Observing the outside.
    Observe,
    /// Doing the verb.
    Apply,
    /// Writing the outcome.
    Commit,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Observe => "observe",
            Self::Apply => "apply",
            Self::Commit => "commit",
        })
    }
}

/// Runs one pass over one record; `None` if the record is gone: its queue entry is deleted.
///
/// *Flow*: load, observe, decide, apply the effect if there is one, commit if anything changed,
/// report the reason and the trouble if the ledger shows others.
///
/// *Guarantees*: an observation that failed as a whole decides nothing. If the effect fails and
/// the decision emits no event, its crossing is committed all the same, so that the phase names
/// the step that is stuck; then the trouble is returned. What is unchanged is not written, neither
/// state nor condition; a new reason is not reported while the next step is due at once.
///
/// *Assumptions*: one worker at a time holds the record's lease; the version check stops a
/// worker that was suspended.
///
/// *Errors*: [`Stopped`] with the stage and the trouble.
pub async fn step<L: Lifecycle>(
    lifecycle: &L,
    world: &impl World<L>,
    ledger: &impl Ledger<L>,
    now: Timestamp,
) -> Result<Option<Report<L::Reason>>, Stopped> {
    let Some(record) = ledger.load().await.map_err(at(Stage::Load))? else {
        return Ok(None);
    };
    let shown = ledger.condition();
    let seen = match world.observe(&record).await {
        Ok(seen) => seen,
        Err(trouble) => {
            let reason = shown.as_ref().and_then(|it| it.reason);
            report(ledger, shown, (reason, Some(&trouble))).await;
            return Err(Stopped { stage: Stage::Observe, trouble });
        }
    };
    let decision = lifecycle.decide(&record, &seen, now);
    debug_assert!(
        decision.effect.is_none() || decision.event.is_none(),
        "a decision with an event has no effect"
    );
    let applied = match &decision.effect {
        Some(effect) => world.apply(&record, effect).await.map_err(at(Stage::Apply)),
        None => Ok(()),
    };
    let committed = changes(&record.state, &decision);
    let reason = Some(decision.reason);
    let mut shown = shown;
    let written = if committed {
        shown = Some(Condition { reason, trouble: None });
        ledger.commit(record.version, &decision).await.map_err(at(Stage::Commit))
    } else {
        Ok(())
    };
    let failed = applied.as_ref().err().map(|it| &it.trouble);
    if written.is_ok() && (failed.is_some() || decision.wake != Wake::Now) {
        report(ledger, shown, (reason, failed)).await;
    }
    // An effect that failed may still arrive; a row that moved meanwhile must not hide that.
    applied.and(written)?;
    let acted = decision.effect.is_some();
    Ok(Some(Report { reason: decision.reason, wake: decision.wake, acted, committed }))
}

/// Reports a condition that the ledger does not show yet. One that cannot be written is written by
/// a later step: it is no reason to repeat this one.
async fn report<L: Lifecycle>(
    ledger: &impl Ledger<L>,
    shown: Option<Condition<L::Reason>>,
    (reason, trouble): (Option<L::Reason>, Option<&Trouble>),
) {
    let condition = Condition { reason, trouble: trouble.map(ToString::to_string) };
    if shown.as_ref() != Some(&condition) {
        let _ = ledger.report(&condition).await;
    }
}

fn at(stage: Stage) -> impl Fn(Trouble) -> Stopped {
    move |trouble| Stopped { stage, trouble }
}

fn changes<L: Lifecycle>(state: &L::State, decision: &Decision<L>) -> bool {
    decision.next != *state || !decision.rows.is_empty() || decision.event.is_some()
}

#[cfg(test)]
mod tests;
