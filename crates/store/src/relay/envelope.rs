//! A row of the log as a `CloudEvent` 1.0, in the structured JSON form.

use serde_json::{Value, json};
use usher_domain::object::id::InstallationId;
use usher_kernel::Timestamp;

use crate::port::Told;

const DAY: i64 = 86_400;

/// The `CloudEvent` of a row; the same row gives the same event, whoever delivers it and how often.
///
/// `source` and `id` together name it: the installation, and the id that the row was born with. A
/// number of the log would not do: after a restore it is given to another event. `partitionkey` and
/// `sequence` are the extensions of those names: whose order counts, and a text that sorts as the
/// log does.
pub fn envelope(installation: InstallationId, told: &Told) -> Value {
    json!({
        "specversion": "1.0",
        "id": told.id.to_string(),
        "source": format!("urn:usher:installation:{installation}"),
        "type": told.event_type.as_str(),
        "subject": told.resource.to_string(),
        "time": rfc3339(told.occurred_at),
        "datacontenttype": "application/json",
        "partitionkey": told.resource.to_string(),
        "sequence": sequence(told),
        "project": told.project.to_string(),
        "resourceversion": told.version.0.to_string(),
        "data": told.data,
    })
}

/// The place in the log, in digits of one length.
fn sequence(told: &Told) -> String {
    let cursor = told.cursor;
    format!("{:010}.{:020}.{:020}", cursor.epoch, cursor.transaction, cursor.seq)
}

/// A time as RFC 3339 writes it, in UTC and to the microsecond.
fn rfc3339(at: Timestamp) -> String {
    let seconds = at.as_micros().div_euclid(1_000_000);
    let micros = at.as_micros().rem_euclid(1_000_000);
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day that is counted from the Unix epoch. The year begins in March here,
/// so that the day that comes and goes is its last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use usher_domain::broker::event::EventType;
    use usher_domain::object::id::{EventId, ProjectId, ResourceId};
    use usher_kernel::Version;
    use uuid::Uuid;

    use super::*;
    use crate::port::Cursor;

    #[test]
    fn times_are_written_as_rfc_3339_says() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_000_001, "2000-02-28T23:59:59.000001Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (1_785_542_399_999_999, "2026-07-31T23:59:59.999999Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in cases {
            assert_eq!(rfc3339(Timestamp::from_micros(micros)), text);
        }
    }

    fn told(cursor: Cursor) -> Told {
        let id = Uuid::from_u128(7);
        Told {
            cursor,
            id: EventId::from_uuid(id),
            event_type: EventType::Ready,
            resource: ResourceId::from_uuid(id),
            project: ProjectId::from_uuid(id),
            version: Version(3),
            occurred_at: Timestamp::from_micros(1),
            data: serde_json::Map::from_iter([("name".to_owned(), "web".into())]),
        }
    }

    #[test]
    fn an_event_has_every_attribute_that_must_be_there_and_extensions_with_legal_names() {
        let installation = InstallationId::from_uuid(Uuid::from_u128(1));
        let event = envelope(installation, &told(Cursor { epoch: 1, transaction: 2, seq: 3 }));
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

    #[test]
    fn sequences_sort_as_the_log_does() {
        let place = |epoch, transaction, seq| Cursor { epoch, transaction, seq };
        let places = [place(1, 9, 2), place(1, 10, 1), place(1, 10, 9), place(2, 1, 10)];
        let texts = places.map(|it| sequence(&told(it)));
        assert!(texts.is_sorted(), "{texts:?}");
    }
}
