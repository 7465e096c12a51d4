//! The smallest reconciler: a lamp that is lit. Ledgers are tried with it.

use usher_kernel::{
    Decision, Evidence, Generation, Lifecycle, Name, NameState, Record, Row, Timestamp, Uid, Wake,
};

/// The rules of a lamp.
#[derive(Clone, Copy, Debug)]
pub struct Lamp;

/// What is recorded of a lamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub phase: Phase,
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Dark,
    Lit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Lighting,
    Burning,
}

/// The event of a lamp that was lit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burns;

impl Phase {
    pub const ALL: [Self; 2] = [Self::Dark, Self::Lit];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "Dark",
            Self::Lit => "Lit",
        }
    }
}

impl Reason {
    pub const ALL: [Self; 2] = [Self::Lighting, Self::Burning];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lighting => "Lighting",
            Self::Burning => "Burning",
        }
    }
}

impl State {
    /// A lamp before its first step.
    pub fn initial() -> Self {
        dark()
    }

    /// Whether a name stays in the ledger after its end.
    pub fn means(&self, name: &Name) -> bool {
        name.name == flame()
    }
}

impl Lifecycle for Lamp {
    type State = State;
    type Observed = bool;
    type Effect = ();
    type Event = Burns;
    type Reason = Reason;

    fn decide(&self, record: &Record<State>, burns: &bool, _: Timestamp) -> Decision<Self> {
        if !burns {
            return Decision { effect: Some(()), ..decision(&record.state) };
        }
        let event = (record.state.phase == Phase::Dark).then_some(Burns);
        let next = State { phase: Phase::Lit, ..record.state.clone() };
        Decision { event, wake: Wake::OnChange, ..decision(&next) }
    }
}

pub(super) fn dark() -> State {
    State { phase: Phase::Dark, note: String::new() }
}

pub(super) fn lit(note: &str) -> State {
    State { phase: Phase::Lit, note: note.to_owned() }
}

/// A decision for this state, without effect or event.
pub(super) fn decision(next: &State) -> Decision<Lamp> {
    let reason = match next.phase {
        Phase::Dark => Reason::Lighting,
        Phase::Lit => Reason::Burning,
    };
    let next = next.clone();
    Decision { next, rows: vec![], effect: None, event: None, wake: Wake::Now, reason }
}

/// The name that every lamp means.
pub(super) const fn flame() -> &'static str {
    "flame"
}

/// A row with its evidence at this time.
pub(super) fn row(name: &str, state: NameState, at: u32) -> Row {
    let name = Name {
        kind: "Flame".to_owned(),
        place: String::new(),
        name: name.to_owned(),
        generation: Generation::FIRST,
    };
    let at = Timestamp::from_millis(at.into());
    let uid = Some(Uid::new(name.name.clone()));
    let evidence = Evidence::new("eye", state.as_str(), at);
    Row { state, uid, evidence, ..Row::intended(name, "usher", at) }
}
