//! A marked object: its facts, its answer, and which function holds its rules.

use usher_domain::usage::stray::{EffectKind, Facts, Holders, Mark, Reason, Verdict, rules};
use usher_kernel::{Requeue, Visibility};

use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// Any cell.
const START: Facts =
    Facts { visibility: Visibility::Complete, mark: Mark::Off, holders: Holders::None };

/// The machine of a marked object.
pub(crate) fn machine() -> Machine<Facts> {
    Machine::new("stray", START, |cell| evaluate(*cell))
        .fact(Origin::Seen, "visibility", words!(Visibility), |c, v| {
            c.visibility = Visibility::ALL[v];
        })
        .fact(Origin::Seen, "mark", words!(Mark), |c, v| c.mark = Mark::ALL[v])
        .fact(Origin::Seen, "holders", words!(Holders), |c, v| c.holders = Holders::ALL[v])
        .field("effect", words!(EffectKind), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

/// The fields in the order of [`machine`].
fn evaluate(seen: Facts) -> Evaluation {
    let Verdict { effect, requeue, reason, .. } =
        rules(seen).with_snapshot(seen.visibility.is_incomplete());
    let said = Outcome::default().with(1, requeue as usize).with(2, reason as usize);
    let outcome = effect.map_or(said, |effect| said.with(0, effect as usize));
    let lawful = effect.is_none() || seen.holders == Holders::None;
    let broken = (!lawful).then_some("a mark is removed only where no Usage holds the object");
    Evaluation { outcome, broken }
}
