//! One pass of the loop.

use thiserror::Error;

use crate::lifecycle::{Decision, Ledger, Lifecycle, Wake, World};
use crate::time::Timestamp;
use crate::trouble::Trouble;

/// What a finished step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<R> {
    /// Why.
    pub reason: R,
    /// When to look again.
    pub wake: Wake,
    /// Whether anything was written.
    pub committed: bool,
}

/// A step that could not be finished, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("stopped at {stage}")]
pub struct Stopped {
    /// The stage that met trouble.
    pub stage: Stage,
    /// The trouble it met.
    #[source]
    pub trouble: Trouble,
}

/// The stages of a step, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the record.
    Load,
    /// Looking at the outside.
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

/// Runs one pass of one life.
///
/// *Flow*: load, observe, decide, apply the effect if there is one, commit if anything changed.
///
/// *Guarantees*: an observation that failed as a whole decides nothing. If the effect fails and
/// the decision tells no event, its crossing is committed all the same, so that the phase names
/// the step that is stuck; then the trouble is returned.
///
/// *Assumptions*: one driver at a time holds the life's lease; the version check is the net under
/// those that fell asleep.
///
/// *Errors*: [`Stopped`] with the stage and the trouble.
pub async fn step<L: Lifecycle>(
    life: &L,
    world: &impl World<L>,
    ledger: &impl Ledger<L>,
    now: Timestamp,
) -> Result<Report<L::Reason>, Stopped> {
    let record = ledger.load().await.map_err(at(Stage::Load))?;
    let seen = world.observe(&record).await.map_err(at(Stage::Observe))?;
    let decision = life.decide(&record, &seen, now);
    debug_assert!(
        decision.effect.is_none() || decision.event.is_none(),
        "a decision with an event has no effect"
    );
    let applied = match &decision.effect {
        Some(effect) => world.apply(&record, effect).await.map_err(at(Stage::Apply)),
        None => Ok(()),
    };
    let committed = changes(&record.state, &decision);
    let written = if committed {
        ledger.commit(record.version, &decision).await.map_err(at(Stage::Commit))
    } else {
        Ok(())
    };
    // A verb that failed may still arrive; that must not be hidden by a row that moved meanwhile.
    applied.and(written)?;
    Ok(Report { reason: decision.reason, wake: decision.wake, committed })
}

fn at(stage: Stage) -> impl Fn(Trouble) -> Stopped {
    move |trouble| Stopped { stage, trouble }
}

fn changes<L: Lifecycle>(state: &L::State, decision: &Decision<L>) -> bool {
    decision.next != *state || !decision.rows.is_empty() || decision.event.is_some()
}

#[cfg(test)]
mod tests;
