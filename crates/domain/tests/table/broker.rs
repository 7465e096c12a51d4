//! The provisioned resource: its facts, its answer, and which function holds its rules.

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::facts::{
    Anchor, Composed, Config, Facts, Finalization, Gate, GenerationState, Intent, Node, Protection,
    RowFacts, Token, Xr,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconcile::rules;
use usher_domain::broker::verdict::{EffectKind, EventKind, RecordChange, Verdict};
use usher_kernel::{Requeue, Visibility};

use crate::laws;
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// One cell: the input of the rules.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// The row's own facts.
    pub(crate) row: RowFacts,
    /// The observed ones.
    pub(crate) seen: Facts,
}

/// Any cell.
pub(crate) const START: Cell = Cell {
    row: RowFacts {
        phase: Phase::Pending,
        intent: Intent::None,
        generation_state: GenerationState::Fresh,
        role: MeshRole::Node,
        finalization: Finalization::InFlight,
    },
    seen: Facts {
        visibility: Visibility::Complete,
        gate: Gate::Ready,
        anchor: Anchor::Absent,
        token: Token::None,
        config: Config::Ready,
        xr: Xr::Absent,
        composed: Composed::None,
        node: Node::None,
        protection: Protection::None,
    },
};

/// The word that ends a generation, beside the words of the `generation_state`.
const NEXT: &str = "next";

/// The broker's machine.
pub(crate) fn machine() -> Machine<Cell> {
    let mut turns = words!(GenerationState);
    turns.push(NEXT);
    row_facts(Machine::new("broker", START, evaluate))
        .fact(Origin::Seen, "visibility", words!(Visibility), |c, v| {
            c.seen.visibility = Visibility::ALL[v];
        })
        .fact(Origin::Seen, "gate", words!(Gate), |c, v| c.seen.gate = Gate::ALL[v])
        .fact(Origin::Seen, "anchor", words!(Anchor), |c, v| c.seen.anchor = Anchor::ALL[v])
        .fact(Origin::Seen, "token", words!(Token), |c, v| c.seen.token = Token::ALL[v])
        .fact(Origin::Seen, "config", words!(Config), |c, v| c.seen.config = Config::ALL[v])
        .fact(Origin::Seen, "xr", words!(Xr), |c, v| c.seen.xr = Xr::ALL[v])
        .fact(Origin::Seen, "composed", words!(Composed), |c, v| {
            c.seen.composed = Composed::ALL[v];
        })
        .fact(Origin::Seen, "node", words!(Node), |c, v| c.seen.node = Node::ALL[v])
        .fact(Origin::Seen, "protection", words!(Protection), |c, v| {
            c.seen.protection = Protection::ALL[v];
        })
        .field("effect", words!(EffectKind), Absent::Nothing)
        .following("phase", "phase", words!(Phase), Absent::Refused)
        .following("generation_state", "change", turns, Absent::Same)
        .field("event", words!(EventKind), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

fn row_facts(machine: Machine<Cell>) -> Machine<Cell> {
    machine
        .fact(Origin::Row, "phase", words!(Phase), |c, v| c.row.phase = Phase::ALL[v])
        .fact(Origin::Row, "intent", words!(Intent), |c, v| c.row.intent = Intent::ALL[v])
        .fact(Origin::Row, "generation_state", words!(GenerationState), |c, v| {
            c.row.generation_state = GenerationState::ALL[v];
        })
        .fact(Origin::Row, "role", words!(MeshRole), |c, v| c.row.role = MeshRole::ALL[v])
        .fact(Origin::Row, "finalization", words!(Finalization), |c, v| {
            c.row.finalization = Finalization::ALL[v];
        })
}

fn evaluate(cell: &Cell) -> Evaluation {
    let incomplete = cell.seen.visibility.is_incomplete();
    let verdict = rules(cell.row, cell.seen).with_snapshot(incomplete);
    Evaluation { outcome: outcome(cell.row, verdict), broken: laws::broken(cell, verdict) }
}

/// The fields in the order of [`machine`]. To stay as it is and to become what it already is are
/// the same change of a generation.
fn outcome(row: RowFacts, verdict: Verdict) -> Outcome {
    let change = match verdict.change {
        None => row.generation_state as usize,
        Some(RecordChange::To(generation_state)) => generation_state as usize,
        Some(RecordChange::Next) => GenerationState::ALL.len(),
    };
    let said = Outcome::default()
        .with(1, verdict.phase as usize)
        .with(2, change)
        .with(4, verdict.requeue as usize)
        .with(5, verdict.reason as usize);
    let said = verdict.effect.map_or(said, |effect| said.with(0, effect as usize));
    verdict.event.map_or(said, |event| said.with(3, event as usize))
}
