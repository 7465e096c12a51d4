//! The tombstone: its facts, its answer, and which function holds its rules.

use usher_domain::broker::facts::{
    Anchor, Composed, Config, Facts, Gate, Node, Protection, Token, Xr,
};
use usher_domain::broker::tombstone::{Reason, Verdict, rules};
use usher_domain::broker::verdict::EffectKind;
use usher_kernel::{Requeue, Visibility};

use crate::broker::START;
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// The tombstone's machine. Its row is always `Deleted`, so only observed facts vary.
pub(crate) fn machine() -> Machine<Facts> {
    Machine::new("tombstone", START.seen, evaluate)
        .fact(Origin::Seen, "visibility", words!(Visibility), |c, v| {
            c.visibility = Visibility::ALL[v];
        })
        .fact(Origin::Seen, "gate", words!(Gate), |c, v| c.gate = Gate::ALL[v])
        .fact(Origin::Seen, "anchor", words!(Anchor), |c, v| c.anchor = Anchor::ALL[v])
        .fact(Origin::Seen, "token", words!(Token), |c, v| c.token = Token::ALL[v])
        .fact(Origin::Seen, "config", words!(Config), |c, v| c.config = Config::ALL[v])
        .fact(Origin::Seen, "xr", words!(Xr), |c, v| c.xr = Xr::ALL[v])
        .fact(Origin::Seen, "composed", words!(Composed), |c, v| c.composed = Composed::ALL[v])
        .fact(Origin::Seen, "node", words!(Node), |c, v| c.node = Node::ALL[v])
        .fact(Origin::Seen, "protection", words!(Protection), |c, v| {
            c.protection = Protection::ALL[v];
        })
        .field("effect", words!(EffectKind), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

/// The fields in the order of [`machine`].
fn evaluate(seen: &Facts) -> Evaluation {
    let Verdict { effect, requeue, reason, .. } =
        rules(*seen).with_snapshot(seen.visibility.is_incomplete());
    let said = Outcome::default().with(1, requeue as usize).with(2, reason as usize);
    let outcome = effect.map_or(said, |effect| said.with(0, effect as usize));
    let unlawful = match effect {
        Some(
            EffectKind::DeleteSubstrate | EffectKind::DeleteAnchor | EffectKind::ReleaseProtection,
        )
        | None => None,
        Some(
            EffectKind::CreateAnchor
            | EffectKind::IssueToken
            | EffectKind::Apply
            | EffectKind::DeregisterNode,
        ) => Some("a tombstone only deletes"),
    };
    Evaluation { outcome, broken: unlawful }
}
