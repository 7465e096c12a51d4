//! Identity rows: the book of a life.

use usher_kernel::{Book, Evidence, Generation, Name, Row, Standing, Timestamp, Uid};
use uuid::Uuid;

use super::super::{Conn, Db};
use crate::column::Time;
use crate::error::{Doing as _, Error};

/// One identity row, as the statements bring it: kind, place, name, generation, incarnation,
/// standing, uid, and who answered what, when.
type Cells = (String, String, String, u32, u32, String, Option<String>, String, String, i64);

/// The book in this text, or `None` if it breaks the rules.
pub(crate) fn read(text: &str) -> Option<Book> {
    let rows: Vec<Cells> = serde_json::from_str(text).ok()?;
    let rows: Option<Vec<Row>> = rows.into_iter().map(row).collect();
    rows.map(Book::new)
}

fn row(cells: Cells) -> Option<Row> {
    let (kind, place, name, generation, incarnation, standing, uid, by, answer, at) = cells;
    Some(Row {
        name: Name { kind, place, name, generation: Generation(generation) },
        incarnation,
        standing: Standing::ALL.into_iter().find(|it| it.as_str() == standing)?,
        uid: uid.map(Uid::new),
        evidence: Evidence { by, answer, at: Timestamp::from_micros(at) },
    })
}

/// Writes rows over those with their key, or adds them at the end of the book.
pub(crate) async fn write(conn: &mut Conn, life: Uuid, rows: &[Row]) -> Result<(), Error> {
    let sql = "INSERT INTO names (life, position, kind, place, name, generation, incarnation,
            standing, uid, evidence_by, evidence_answer, evidence_at)
        VALUES ($1, (SELECT COALESCE(MAX(position), 0) + 1 FROM names WHERE life = $1),
            $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (life, kind, place, name, generation, incarnation) DO UPDATE SET
            standing = excluded.standing, uid = excluded.uid, evidence_by = excluded.evidence_by,
            evidence_answer = excluded.evidence_answer, evidence_at = excluded.evidence_at";
    for row in rows {
        sqlx::query::<Db>(sql)
            .bind(life)
            .bind(&row.name.kind)
            .bind(&row.name.place)
            .bind(&row.name.name)
            .bind(i64::from(row.name.generation.0))
            .bind(i64::from(row.incarnation))
            .bind(row.standing.as_str())
            .bind(row.uid.as_ref().map(|it| it.0.as_str()))
            .bind(&row.evidence.by)
            .bind(&row.evidence.answer)
            .bind(Time(row.evidence.at))
            .execute(&mut *conn)
            .await
            .doing("write identity rows")?;
    }
    Ok(())
}
