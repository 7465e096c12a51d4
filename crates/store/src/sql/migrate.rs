//! Running the migrations: all of them in one transaction, one process at a time.

use sqlx::AssertSqlSafe;

use super::super::{BEGIN_WRITE, BYTES, Conn, Db, LOCK_SCHEMA, MIGRATIONS, TABLES};
use crate::error::{Context as _, Error};
use crate::migrate::{Direction, Progress, Refusal, Status, Step, compare};

const DOING: &str = "migrate the schema";

/// Migrates the schema and returns its state. Either every step is applied or none.
pub(crate) async fn run(
    conn: &mut Conn,
    way: Direction,
    progress: &mut Progress<'_>,
) -> Result<Status, Error> {
    if way == Direction::Stay {
        return status(conn).await;
    }
    sqlx::raw_sql(BEGIN_WRITE).execute(&mut *conn).await.context(DOING)?;
    let done = go(conn, way, progress).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::raw_sql(end).execute(&mut *conn).await.context(DOING);
    let status = done?;
    ended?;
    Ok(status)
}

/// Refuses a schema that is not exactly the one of this program.
pub(crate) async fn require_current(conn: &mut Conn) -> Result<(), Error> {
    match status(conn).await?.pending.into_iter().next() {
        Some(missing) => Err(Refusal::Behind { missing }.into()),
        None => Ok(()),
    }
}

async fn go(conn: &mut Conn, way: Direction, progress: &mut Progress<'_>) -> Result<Status, Error> {
    refuse_foreign(conn).await?;
    let create = "CREATE TABLE IF NOT EXISTS usher_schema (
        name text PRIMARY KEY, checksum bytea NOT NULL)";
    sqlx::raw_sql(AssertSqlSafe(create.replace("bytea", BYTES)))
        .execute(&mut *conn)
        .await
        .context(DOING)?;
    sqlx::raw_sql(LOCK_SCHEMA).execute(&mut *conn).await.context(DOING)?;
    let now = compare(MIGRATIONS, &applied(conn).await?)?;
    match way {
        Direction::Stay => {}
        Direction::Up => up(conn, now.applied.len(), progress).await?,
        Direction::Down(count) => down(conn, (now.applied.len(), count), progress).await?,
    }
    Ok(compare(MIGRATIONS, &applied(conn).await?)?)
}

async fn up(conn: &mut Conn, applied: usize, progress: &mut Progress<'_>) -> Result<(), Error> {
    for migration in MIGRATIONS.iter().skip(applied) {
        progress(Step { name: migration.name, up: true });
        sqlx::raw_sql(migration.up).execute(&mut *conn).await.context(DOING)?;
        sqlx::query::<Db>("INSERT INTO usher_schema (name, checksum) VALUES ($1, $2)")
            .bind(migration.name)
            .bind(migration.checksum())
            .execute(&mut *conn)
            .await
            .context(DOING)?;
    }
    Ok(())
}

async fn down(
    conn: &mut Conn,
    (applied, count): (usize, usize),
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    if count > applied {
        return Err(Refusal::TooFar { asked: count, applied }.into());
    }
    for migration in MIGRATIONS.iter().take(applied).rev().take(count) {
        progress(Step { name: migration.name, up: false });
        sqlx::raw_sql(migration.down).execute(&mut *conn).await.context(DOING)?;
        sqlx::query::<Db>("DELETE FROM usher_schema WHERE name = $1")
            .bind(migration.name)
            .execute(&mut *conn)
            .await
            .context(DOING)?;
    }
    Ok(())
}

async fn status(conn: &mut Conn) -> Result<Status, Error> {
    refuse_foreign(conn).await?;
    let applied = if tables(conn).await?.is_empty() { vec![] } else { applied(conn).await? };
    Ok(compare(MIGRATIONS, &applied)?)
}

async fn applied(conn: &mut Conn) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let sql = "SELECT name, checksum FROM usher_schema ORDER BY name";
    sqlx::query_as::<Db, (String, Vec<u8>)>(sql).fetch_all(&mut *conn).await.context(DOING)
}

/// Tables without a record of ours belong to another program.
async fn refuse_foreign(conn: &mut Conn) -> Result<(), Error> {
    let tables = tables(conn).await?;
    if tables.iter().any(|it| it == "usher_schema") {
        return Ok(());
    }
    match tables.into_iter().next() {
        Some(table) => Err(Refusal::Foreign { table }.into()),
        None => Ok(()),
    }
}

async fn tables(conn: &mut Conn) -> Result<Vec<String>, Error> {
    sqlx::query_scalar::<Db, String>(TABLES).fetch_all(&mut *conn).await.context(DOING)
}
