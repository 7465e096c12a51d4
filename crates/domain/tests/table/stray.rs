//! The life of a marked object: its facts, its answer, and where its rules stand.

use usher_domain::usage::facts::Sight;
use usher_domain::usage::stray::{EffectKind, Facts, Holders, Mark, Reason, rules};

use crate::shape::{Absent, Judgement, Machine, Origin, Outcome, words};

/// Any cell.
const START: Facts = Facts { sight: Sight::Clear, mark: Mark::Off, holders: Holders::None };

/// The machine of a marked object.
pub(crate) fn machine() -> Machine<Facts> {
    Machine::new("stray", START, |cell| judge(*cell))
        .fact(Origin::Seen, "sight", words!(Sight), |c, v| c.sight = Sight::ALL[v])
        .fact(Origin::Seen, "mark", words!(Mark), |c, v| c.mark = Mark::ALL[v])
        .fact(Origin::Seen, "holders", words!(Holders), |c, v| c.holders = Holders::ALL[v])
        .field("effect", words!(EffectKind), Absent::Nothing)
        .field("reason", words!(Reason), Absent::Refused)
}

/// The fields in the order of [`machine`].
fn judge(seen: Facts) -> Judgement {
    let (effect, reason) = rules(seen);
    let said = Outcome::default().with(1, reason as usize);
    let outcome = effect.map_or(said, |effect| said.with(0, effect as usize));
    let lawful = effect.is_none() || seen.holders == Holders::None;
    let broken = (!lawful).then_some("a mark comes off only where nobody holds the object");
    Judgement { outcome, broken }
}
