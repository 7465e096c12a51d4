//! What an operator can request beside the object's own declaration.

use usher_kernel::{Record, Row, Timestamp};

use super::aggregate::Resource;
use super::orphan::{Evidence, OrphanRecord};
use super::proof::Outcome;
use super::refusal::Refusal;

/// What a command changes, written in one transaction guarded by the row's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row as it shall be.
    pub next: Resource,
    /// The identity rows that change with it.
    pub rows: Vec<Row>,
}

/// Abandons a resource being deleted: its end is recorded with everything that is known, and its
/// next step releases it. Asking again changes nothing.
pub fn abandon(
    record: &Record<Resource>,
    (by, reason): (&str, &str),
    now: Timestamp,
) -> Result<Change, Refusal> {
    let resource = &record.state;
    let what = resource.object().to_text();
    if reason.trim().is_empty() {
        return Err(Refusal::ReasonRequired(what));
    }
    if !resource.is_leaving() {
        return Err(Refusal::NotLeaving(what));
    }
    if resource.is_ended() {
        return Ok(Change { next: resource.clone(), rows: vec![] });
    }
    let fields = resource.fields();
    let whose = (&fields.object, resource.binding(), fields.kind.as_str());
    let evidence = Evidence { ordered: Some(format!("{by}: {reason}")), ..Evidence::default() };
    let orphan = OrphanRecord::new(whose, Outcome::Abandoned, &record.name_ledger, evidence, now);
    let rows = record.name_ledger.abandon(by, reason, now);
    Ok(Change { next: resource.abandoned(orphan, now), rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::fixture::{NOW, identified, leaving, record, resource, seen};
    use usher_kernel::{NameLedger, NameState};

    // Requirement: I-26
    #[test]
    fn abandon_records_what_is_open_and_finishes_the_resource() {
        let it = leaving(|it| it.identity = Some(identified("a")));
        let row = seen(it.name_of(&identified("a")), "c-1");
        let change = abandon(&record(it, [row]), ("eve", "account closed"), NOW).unwrap();
        assert_eq!(change.rows[0].state, NameState::Abandoned);
        let after = NameLedger::new(change.rows.clone());
        assert_eq!(change.next.ended(&after).unwrap().outcome(), Outcome::Abandoned);
        let orphan = change.next.fields().orphan.clone().unwrap();
        assert_eq!(orphan.names(), ["kv:clouds/main/projects/a/features/f/memberships/m"]);
        assert_eq!(orphan.evidence().ordered.as_deref(), Some("eve: account closed"));
        let again = abandon(&record(change.next.clone(), []), ("eve", "again"), NOW).unwrap();
        assert_eq!(again, Change { next: change.next, rows: vec![] });
    }

    // Requirement: I-26
    #[test]
    fn only_a_resource_being_deleted_is_abandoned_with_a_reason() {
        let wanted = abandon(&record(resource(|_| ()), []), ("eve", "why not"), NOW);
        assert_eq!(wanted, Err(Refusal::NotLeaving("ns/web".to_owned())));
        let silent = abandon(&record(leaving(|_| ()), []), ("eve", " "), NOW);
        assert_eq!(silent, Err(Refusal::ReasonRequired("ns/web".to_owned())));
    }
}
