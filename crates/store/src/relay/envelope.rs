//! A row of the log as a `CloudEvent` 1.0, in the structured JSON form.

use serde_json::{Value, json};
use usher_domain::object::id::InstallationId;

use crate::port::LoggedEvent;

/// The `CloudEvent` of a row; the same row gives the same event, however often it is delivered.
///
/// `source` and `id` together name it: the installation, and the id that the row was created with.
/// A number of the log would not do: after a restore it is given to another event. `partitionkey`
/// and `sequence` are the extensions of those names: within which key order matters, and a text
/// that sorts as the log does.
pub fn envelope(installation: InstallationId, logged: &LoggedEvent) -> Value {
    let mut event = json!({
        "specversion": "1.0",
        "id": logged.id.to_string(),
        "source": format!("urn:usher:installation:{installation}"),
        "type": logged.about.word(),
        "subject": logged.about.subject().to_string(),
        "time": logged.occurred_at.to_rfc3339(),
        "datacontenttype": "application/json",
        "partitionkey": logged.about.subject().to_string(),
        "sequence": sequence(logged),
        "resourceversion": logged.version.0.to_string(),
        "data": logged.data,
    });
    // An attribute without a value is left out: a machine belongs to no project.
    if let (Some(project), Some(all)) = (logged.about.project(), event.as_object_mut()) {
        all.insert("project".to_owned(), project.to_string().into());
    }
    event
}

/// The place in the log, in digits of one length.
fn sequence(logged: &LoggedEvent) -> String {
    let cursor = logged.cursor;
    format!("{:010}.{:020}.{:020}", cursor.epoch, cursor.transaction, cursor.seq)
}

#[cfg(test)]
mod tests {
    use usher_domain::broker::event::EventType;
    use usher_domain::object::id::{EventId, ProjectId, ResourceId};
    use usher_kernel::{Timestamp, Version};
    use uuid::Uuid;

    use super::*;
    use crate::port::{About, Cursor};

    fn logged(cursor: Cursor) -> LoggedEvent {
        let id = Uuid::from_u128(7);
        LoggedEvent {
            cursor,
            id: EventId::from_uuid(id),
            about: About::Resource {
                id: ResourceId::from_uuid(id),
                project: ProjectId::from_uuid(id),
                event_type: EventType::Ready,
            },
            version: Version(3),
            occurred_at: Timestamp::from_micros(1),
            data: serde_json::Map::from_iter([("name".to_owned(), "web".into())]),
        }
    }

    // Requirement: Y-1
    #[test]
    fn an_event_has_every_attribute_that_must_be_there_and_extensions_with_legal_names() {
        let installation = InstallationId::from_uuid(Uuid::from_u128(1));
        let event = envelope(installation, &logged(Cursor { epoch: 1, transaction: 2, seq: 3 }));
        for required in ["specversion", "id", "source", "type"] {
            assert!(event[required].as_str().is_some_and(|it| !it.is_empty()), "{required}");
        }
        assert_eq!(event["source"], format!("urn:usher:installation:{installation}"));
        assert_eq!(event["type"], "broker.ProvisionedResourceReady");
        assert_eq!(event["data"], json!({"name": "web"}));
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        for name in event.as_object().unwrap().keys() {
            assert!(name.len() <= 20 && name.bytes().all(legal), "{name}");
        }
    }

    // Requirement: Y-1
    #[test]
    fn sequences_sort_as_the_log_does() {
        let place = |epoch, transaction, seq| Cursor { epoch, transaction, seq };
        let places = [place(1, 9, 2), place(1, 10, 1), place(1, 10, 9), place(2, 1, 10)];
        let texts = places.map(|it| sequence(&logged(it)));
        assert!(texts.is_sorted(), "{texts:?}");
    }
}
