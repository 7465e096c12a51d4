//! The records and names that the tests of every context begin with.

use usher_kernel::{Evidence, Name, NameLedger, NameState, Record, Row, Timestamp, Uid, Version};

/// When everything was declared.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000);

pub(crate) fn record<S>(state: S, rows: impl IntoIterator<Item = Row>) -> Record<S> {
    Record { version: Version(1), state, name_ledger: NameLedger::new(rows) }
}

pub(crate) fn row(name: Name, state: NameState, uid: Option<&str>) -> Row {
    let evidence = Evidence::new("given", "given", START);
    Row { name, plural: None, incarnation: 1, state, uid: uid.map(Uid::new), evidence }
}

pub(crate) fn intended(name: Name) -> Row {
    row(name, NameState::Intended, None)
}

pub(crate) fn seen(name: Name, uid: &str) -> Row {
    row(name, NameState::Seen, Some(uid))
}

pub(crate) fn gone(name: Name, uid: &str) -> Row {
    row(name, NameState::Gone, Some(uid))
}

pub(crate) fn foreign(name: Name) -> Row {
    row(name, NameState::Foreign, None)
}
