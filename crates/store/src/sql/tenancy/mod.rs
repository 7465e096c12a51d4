//! Tenancy: projects, catalog, credentials, labels, operators; plain rows with references that
//! hold.

pub(crate) mod catalog;
pub(crate) mod credentials;
pub(crate) mod labels;
pub(crate) mod operators;
pub(crate) mod projects;

use sqlx::query::Query;
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};

type Arguments = <Db as sqlx::Database>::Arguments;

/// Inserts one row; `what` names it if its name is in use, or if what it refers to is not there.
pub(crate) async fn insert(
    conn: &mut Conn,
    query: Query<'_, Db, Arguments>,
    what: &str,
) -> Result<(), Error> {
    match query.execute(conn).await {
        Ok(_) => Ok(()),
        Err(source) if Error::is_duplicate(&source) => Err(Error::Taken { what: what.to_owned() }),
        Err(source) if Error::is_reference(&source) => {
            Err(Error::NotFound { what: format!("what {what} refers to") })
        }
        Err(source) => Err(Error::new("insert a row", source)),
    }
}

/// Removes one row by its id, unless something refers to it.
async fn remove(conn: &mut Conn, (sql, id): (&'static str, Uuid), kind: &str) -> Result<(), Error> {
    let what = || format!("{kind} \"{id}\"");
    match sqlx::query::<Db>(sql).bind(id).execute(conn).await {
        Ok(done) if done.rows_affected() == 0 => Err(Error::NotFound { what: what() }),
        Ok(_) => Ok(()),
        Err(source) if Error::is_reference(&source) => Err(Error::Held { what: what() }),
        Err(source) => Err(Error::new("remove a row", source)),
    }
}

/// Withdraws what a row with an id is; the first time counts.
async fn withdraw(
    conn: &mut Conn,
    (sql, id): (&'static str, Uuid),
    at: Timestamp,
    kind: &str,
) -> Result<(), Error> {
    let done = sqlx::query::<Db>(sql).bind(id).bind(Time(at)).execute(conn).await;
    if done.context("withdraw a row")?.rows_affected() == 1 {
        return Ok(());
    }
    Err(Error::NotFound { what: format!("{kind} \"{id}\"") })
}

/// Changes one row that must be as it was read.
async fn change(conn: &mut Conn, query: Query<'_, Db, Arguments>) -> Result<(), Error> {
    let done = query.execute(conn).await.context("change a row")?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(Error::Conflict) }
}
