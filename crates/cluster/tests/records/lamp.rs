//! A lamp as it is kept in a record.

use serde_json::{Value, json};
use usher_cluster::records::{Codec, Target};
use usher_kernel::Name;
use usher_sim::contract::ledger::{Burns, Lamp, Phase, Reason, State};

/// The codec of one step.
pub(crate) struct LampCodec {
    pub(crate) has_object: bool,
}

/// A lamp with this note protects an object, and ends as an orphan.
pub(crate) const ORPHAN: &str = "orphan";

impl Codec<Lamp> for LampCodec {
    fn initial(&self) -> Option<State> {
        self.has_object.then(State::initial)
    }

    fn encode(&self, state: &State) -> Value {
        json!({"phase": state.phase.as_str(), "note": state.note})
    }

    fn decode(&self, kept: Value) -> Result<State, String> {
        let phase = Phase::ALL.into_iter().find(|it| kept["phase"] == it.as_str());
        let phase = phase.ok_or("its phase is unknown")?;
        let note = kept["note"].as_str().ok_or("it has no note")?.to_owned();
        Ok(State { phase, note })
    }

    fn event(&self, Burns: &Burns) -> Value {
        json!("Burns")
    }

    fn phase<'s>(&self, state: &'s State) -> &'s str {
        state.phase.as_str()
    }

    fn reason(&self, reason: Reason) -> &'static str {
        reason.as_str()
    }

    fn reason_of(&self, word: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|it| it.as_str() == word)
    }

    fn target(&self, state: &State) -> Target {
        Target::of((state.note == ORPHAN).then_some("moth"))
    }

    fn is_meant(&self, state: &State, name: &Name) -> bool {
        state.means(name)
    }

    fn is_orphan(&self, state: &State) -> bool {
        state.note == ORPHAN
    }
}
