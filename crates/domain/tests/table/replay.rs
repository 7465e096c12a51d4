//! A recorded deletion: its facts, its answer, and which function holds its rules.

use usher_domain::usage::attempt::Outcome as End;
use usher_domain::usage::facts::Attempt;
use usher_domain::usage::replay::{Age, Facts, Holders, Object, Policy, Progress, Verdict, rules};

use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// Any cell.
const START: Facts = Facts {
    progress: Progress::Recorded,
    object: Object::Present,
    age: Age::Current,
    holders: Holders::None,
    policy: Policy::On,
};

/// The machine of a recorded deletion.
pub(crate) fn machine() -> Machine<Facts> {
    Machine::new("replay", START, |cell| evaluate(*cell))
        .fact(Origin::Seen, "progress", words!(Progress), |c, v| c.progress = Progress::ALL[v])
        .fact(Origin::Seen, "object", words!(Object), |c, v| c.object = Object::ALL[v])
        .fact(Origin::Seen, "age", words!(Age), |c, v| c.age = Age::ALL[v])
        .fact(Origin::Seen, "holders", words!(Holders), |c, v| c.holders = Holders::ALL[v])
        .fact(Origin::Seen, "policy", words!(Policy), |c, v| c.policy = Policy::ALL[v])
        .field("attempt", words!(Attempt), Absent::Refused)
        .field("outcome", words!(End), Absent::Nothing)
}

/// The fields in the order of [`machine`].
fn evaluate(seen: Facts) -> Evaluation {
    let Verdict { attempt, outcome } = rules(seen);
    let said = Outcome::default().with(0, attempt as usize);
    let said = outcome.map_or(said, |it| said.with(1, it as usize));
    let free = seen.object == Object::Present && seen.holders == Holders::None;
    let replays = matches!(attempt, Attempt::Due | Attempt::Begun);
    let lawful = !replays || (free && seen.policy == Policy::On && seen.age == Age::Current);
    let broken = (!lawful).then_some("a deletion is replayed only where the object is free");
    Evaluation { outcome: said, broken }
}
