//! The content of a record: state and name ledger as versioned JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use usher_kernel::{Lifecycle, Name, NameLedger, Row, Trouble};

use super::DATA_MAX;
use super::object::Target;

/// The format of the content, raised by a change that an older program would misread.
const FORMAT: u32 = 1;

/// How the rules of one kind are kept in a record. One codec is made per step: it may hold what
/// was read of the object.
pub trait Codec<L: Lifecycle> {
    /// What a record begins with; `None` if there is nothing to reconcile, because the object is
    /// gone and left no record.
    fn initial(&self) -> Option<L::State>;

    /// The part of the state that is kept.
    fn encode(&self, state: &L::State) -> Value;

    /// The state from what was kept, or why that cannot be.
    fn decode(&self, kept: Value) -> Result<L::State, String>;

    /// The event as it is kept.
    fn event(&self, event: &L::Event) -> Value;

    fn phase<'s>(&self, state: &'s L::State) -> &'s str;

    fn reason(&self, reason: L::Reason) -> &'static str;

    /// The reason of this word, if there is one.
    fn reason_of(&self, word: &str) -> Option<L::Reason>;

    /// What is protected.
    fn target(&self, _: &L::State) -> Target {
        Target::default()
    }

    /// Whether the state still means a name, so that its last row is kept.
    fn is_meant(&self, state: &L::State, name: &Name) -> bool;

    /// Whether the object ended although something of it may be left behind.
    fn is_orphan(&self, _: &L::State) -> bool {
        false
    }
}

/// The content of a record, read.
pub(super) struct Content {
    pub(super) state: Value,
    pub(super) names: NameLedger,
    pub(super) event: Option<Emitted>,
}

/// The event of the last crossing: it is emitted after a crash, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emitted {
    /// Counts the events of the record, from one.
    pub number: u64,
    pub event: Value,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    state: Value,
    names: Vec<Row>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Emitted>,
}

/// The part that every format has.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Content {
    /// Reads the content of a record, called `record` if that fails.
    pub(super) fn read(record: &str, data: &str) -> Result<Self, Trouble> {
        let corrupt = |why: String| Trouble::Corrupt { what: format!("{record}: {why}") };
        let head: Head = serde_json::from_str(data)
            .map_err(|_| corrupt("its data is not what Usher writes".to_owned()))?;
        if head.format > FORMAT {
            let format = head.format;
            return Err(corrupt(format!(
                "its data has format {format}, and this program reads up to {FORMAT}: run the \
                 newer program that wrote it"
            )));
        }
        // A position says where, and repeats nothing of the data.
        let stored: Stored = serde_json::from_str(data).map_err(|error| {
            corrupt(format!("its data is malformed at column {}", error.column()))
        })?;
        let names = NameLedger::new(stored.names);
        Ok(Self { state: stored.state, names, event: stored.event })
    }

    /// The content as it is written, if it fits.
    pub(super) fn write(self, record: &str) -> Result<String, Trouble> {
        let names = self.names.rows().to_vec();
        let stored = Stored { format: FORMAT, state: self.state, names, event: self.event };
        let text = serde_json::to_string(&stored)
            .map_err(|error| Trouble::Corrupt { what: format!("{record}: {error}") })?;
        if text.len() > DATA_MAX {
            let (size, rows) = (text.len(), stored.names.len());
            return Err(Trouble::Rejected {
                what: format!(
                    "{record}: its data would have {size} bytes with {rows} names, and at most \
                     {DATA_MAX} fit"
                ),
            });
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use usher_kernel::{Generation, Timestamp};

    use super::*;

    fn row(name: &str) -> Row {
        let name = Name {
            kind: "K".to_owned(),
            place: String::new(),
            name: name.to_owned(),
            generation: Generation::FIRST,
        };
        Row::intended(name, "usher", Timestamp::ZERO)
    }

    fn content(state: Value, names: Vec<Row>) -> Content {
        let event = Some(Emitted { number: 3, event: json!("Lit") });
        Content { state, names: NameLedger::new(names), event }
    }

    // Requirement: KR-5
    #[test]
    fn what_is_written_is_read_again() {
        let text = content(json!({"a": 1}), vec![row("x"), row("y")]).write("r").unwrap();
        let read = Content::read("r", &text).unwrap();
        assert_eq!(read.state, json!({"a": 1}));
        assert_eq!(read.names.rows(), [row("x"), row("y")]);
        assert_eq!(read.event.map(|it| it.number), Some(3));
        assert!(text.starts_with(r#"{"format":1,"#), "{text}");
    }

    /// Red by: a format that is not looked at before the rest.
    // Requirement: KR-5
    #[test]
    fn what_cannot_be_read_is_corrupt_and_not_repeated() {
        let cases = [
            (r#"{"format":2,"stuff":"secret"}"#, "r: its data has format 2, and this program"),
            (r#"{"format":1,"state":1,"names":"secret"}"#, "r: its data is malformed at column"),
            ("secret", "r: its data is not what Usher writes"),
            ("{}", "r: its data is not what Usher writes"),
        ];
        for (data, expected) in cases {
            let Err(Trouble::Corrupt { what }) = Content::read("r", data) else { panic!("{data}") };
            assert!(what.starts_with(expected) && !what.contains("secret"), "{what}");
        }
    }

    // Requirement: KR-5
    #[test]
    fn a_content_that_does_not_fit_is_rejected_with_its_size() {
        let fits = "x".repeat(DATA_MAX - 100);
        assert!(content(json!(fits), vec![]).write("r").is_ok());
        let much = "x".repeat(DATA_MAX);
        let Err(Trouble::Rejected { what }) = content(json!(much), vec![row("x")]).write("r")
        else {
            panic!("it does not fit")
        };
        assert!(what.contains("with 1 names, and at most 262144 fit"), "{what}");
    }
}
