//! Identity rows: the name ledger of a record.

use sqlx::QueryBuilder;
use usher_kernel::{Evidence, Generation, Name, NameLedger, NameState, Row, Timestamp, Uid};
use uuid::Uuid;

use super::record::corrupt;
use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};

/// One identity row, as the statements bring it: kind, place, name, generation, incarnation,
/// state, uid, who answered what, when, and the plural of the kind.
type Cells =
    (String, String, String, u32, u32, String, Option<String>, String, String, i64, Option<String>);

/// The name ledger of a record in this text.
pub(crate) fn read(record: &str, text: &str) -> Result<NameLedger, Error> {
    let rows: Option<Vec<Cells>> = serde_json::from_str(text).ok();
    let rows: Option<Vec<Row>> = rows.and_then(|rows| rows.into_iter().map(row).collect());
    rows.map(NameLedger::new).ok_or_else(|| corrupt(record, "name ledger"))
}

fn row(cells: Cells) -> Option<Row> {
    let (kind, place, name, generation, incarnation, state, uid, by, answer, at, plural) = cells;
    Some(Row {
        name: Name { kind, place, name, generation: Generation(generation) },
        plural,
        incarnation,
        state: NameState::ALL.into_iter().find(|it| it.as_str() == state)?,
        uid: uid.map(Uid::new),
        evidence: Evidence { by, answer, at: Timestamp::from_micros(at) },
    })
}

/// How many rows one statement writes: databases bound the values of a statement.
const ROWS_MAX: usize = 500;

/// Rows of a record.
pub(crate) type Rows<'a> = (Uuid, &'a [Row]);

/// Begins the name ledgers of new records.
pub(crate) async fn begin(conn: &mut Conn, ledgers: &[Rows<'_>]) -> Result<(), Error> {
    put(conn, ledgers, |values, _, place| {
        values.push_bind(place);
    })
    .await
}

/// Writes rows over those with their key, or adds them at the end of the ledger, in as few
/// statements as possible. Of two rows with one key the last counts.
pub(crate) async fn write(conn: &mut Conn, ledgers: &[Rows<'_>]) -> Result<(), Error> {
    put(conn, ledgers, |values, item, place| {
        values
            .push("(SELECT COALESCE(MAX(position), 0) FROM names WHERE record = ")
            .push_bind_unseparated(item)
            .push_unseparated(") + ")
            .push_bind_unseparated(place);
    })
    .await
}

type Values<'sql> = sqlx::query_builder::Separated<'sql, Db, &'static str>;

async fn put(
    conn: &mut Conn,
    ledgers: &[Rows<'_>],
    position: impl Fn(&mut Values<'_>, Uuid, i64),
) -> Result<(), Error> {
    let rows: Vec<(Uuid, i64, &Row)> = ledgers.iter().flat_map(last).collect();
    for rows in rows.chunks(ROWS_MAX) {
        let mut sql = QueryBuilder::<Db>::new(
            "INSERT INTO names (record, position, kind, place, name, generation, incarnation,
                state, uid, evidence_by, evidence_answer, evidence_at, plural) ",
        );
        sql.push_values(rows, |mut values, (item, place, row)| {
            values.push_bind(*item);
            position(&mut values, *item, *place);
            values
                .push_bind(row.name.kind.clone())
                .push_bind(row.name.place.clone())
                .push_bind(row.name.name.clone())
                .push_bind(i64::from(row.name.generation.0))
                .push_bind(i64::from(row.incarnation))
                .push_bind(row.state.as_str())
                .push_bind(row.uid.as_ref().map(|it| it.0.clone()))
                .push_bind(row.evidence.by.clone())
                .push_bind(row.evidence.answer.clone())
                .push_bind(Time(row.evidence.at))
                .push_bind(row.plural.clone());
        });
        sql.push(
            " ON CONFLICT (record, kind, place, name, generation, incarnation) DO UPDATE SET
                state = excluded.state, uid = excluded.uid,
                evidence_by = excluded.evidence_by, evidence_answer = excluded.evidence_answer,
                evidence_at = excluded.evidence_at, plural = excluded.plural",
        );
        sql.build().execute(&mut *conn).await.context("write identity rows")?;
    }
    Ok(())
}

/// The rows that count, numbered.
fn last<'a>((item, rows): &Rows<'a>) -> impl Iterator<Item = (Uuid, i64, &'a Row)> + use<'a> {
    let (item, rows) = (*item, *rows);
    let key = |row: &Row| (row.name.clone(), row.incarnation);
    let is_last = move |(index, row): &(usize, &Row)| {
        rows.iter().skip(index + 1).all(|later| key(later) != key(row))
    };
    let kept = rows.iter().enumerate().filter(is_last);
    kept.zip(1_i64..).map(move |((_, row), place)| (item, place, row))
}
