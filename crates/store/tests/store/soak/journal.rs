//! The journal that a writer prints, one line per entry.

use std::str::FromStr;

use usher_domain::object::id::ResourceId;
use usher_store::WorkItem;
use uuid::Uuid;

/// One line of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A declaration was acknowledged.
    Accepted(ResourceId),
    /// A commit was acknowledged, with this version.
    Committed(ResourceId, u64),
    /// An end was acknowledged, with this version.
    Ended(ResourceId, u64),
    /// Deletion was acknowledged.
    Retired(ResourceId),
    /// A wake-up was acknowledged.
    Woken(WorkItem),
    /// A lease was given: fence, wake-ups at that time, from when, until when.
    Leased(WorkItem, [i64; 4]),
    /// A lease with this fence is about to be released.
    Returning(WorkItem, u64),
}

/// Begins each line, to separate it from the output of the test harness.
const MARK: &str = "soak";

fn item(it: WorkItem) -> String {
    format!("{} {}", it.kind(), it.id())
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted(id) => writeln!(f, "\n{MARK} accepted {id}"),
            Self::Committed(id, version) => writeln!(f, "\n{MARK} committed {id} {version}"),
            Self::Ended(id, version) => writeln!(f, "\n{MARK} ended {id} {version}"),
            Self::Retired(id) => writeln!(f, "\n{MARK} retired {id}"),
            Self::Woken(it) => writeln!(f, "\n{MARK} woken {}", item(*it)),
            Self::Leased(it, [fence, seq, now, until]) => {
                writeln!(f, "\n{MARK} leased {} {fence} {seq} {now} {until}", item(*it))
            }
            Self::Returning(it, fence) => {
                writeln!(f, "\n{MARK} returning {} {fence}", item(*it))
            }
        }
    }
}

impl Line {
    /// Reads a line; `None` if it is not a journal line, or the writer died in the middle of it.
    pub(super) fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(MARK)?.split_ascii_whitespace();
        let verb = words.next()?;
        let words: Vec<&str> = words.collect();
        let id = |place: usize| -> Option<Uuid> { words.get(place)?.parse().ok() };
        let resource = |place| id(place).map(ResourceId::from_uuid);
        let number = |place: usize| u64::from_str(words.get(place)?).ok();
        let whose = || match *words.first()? {
            "resource" => resource(1).map(WorkItem::Resource),
            "tombstone" => resource(1).map(WorkItem::Tombstone),
            "provider_config" => {
                let id = usher_domain::object::id::ProviderConfigId::from_uuid(id(1)?);
                Some(WorkItem::ProviderConfig(id))
            }
            _ => None,
        };
        let signed = |place: usize| i64::from_str(words.get(place)?).ok();
        match (verb, words.len()) {
            ("accepted", 1) => resource(0).map(Self::Accepted),
            ("committed", 2) => Some(Self::Committed(resource(0)?, number(1)?)),
            ("ended", 2) => Some(Self::Ended(resource(0)?, number(1)?)),
            ("retired", 1) => resource(0).map(Self::Retired),
            ("woken", 2) => whose().map(Self::Woken),
            ("leased", 6) => {
                Some(Self::Leased(whose()?, [signed(2)?, signed(3)?, signed(4)?, signed(5)?]))
            }
            ("returning", 3) => Some(Self::Returning(whose()?, number(2)?)),
            _ => None,
        }
    }
}

#[test]
fn a_line_is_read_back_and_half_a_line_is_none() {
    let id = ResourceId::from_uuid(Uuid::now_v7());
    for line in [
        Line::Accepted(id),
        Line::Committed(id, 7),
        Line::Ended(id, 8),
        Line::Retired(id),
        Line::Woken(WorkItem::Tombstone(id)),
        Line::Leased(WorkItem::Resource(id), [1, 2, 3, 4]),
        Line::Returning(WorkItem::Resource(id), 9),
    ] {
        let text = line.to_string();
        assert_eq!(text.lines().find_map(Line::read), Some(line), "{text}");
        let half = &text[..text.len() / 2];
        assert_eq!(half.lines().find_map(Line::read), None, "{half}");
    }
}
