//! The presence of a server, and what it learns of the others.
//!
//! **Invariants**
//! - A server is present while its session with the database is open; a number that is absent once
//!   is absent for ever.
//! - A session that is not polled for [`Settings::presence`](crate::Settings) is ended by the
//!   database, so a process that is stopped or cut off is absent, too.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use usher_domain::object::id::{PeerId, ProjectId};

use crate::error::Error;
use crate::store::{Inner, Store};
use crate::{postgres, sqlite};

/// The number of a server's presence; a server that comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerNumber(pub i64);

/// The presence of this process, until it is dropped or its session is lost.
#[derive(Debug)]
pub struct Presence {
    /// Its number.
    pub number: ServerNumber,
    session: Session,
}

#[derive(Debug)]
enum Session {
    /// The connection that holds the lock.
    Postgres(Box<postgres::Conn>, Duration),
    /// The file lock is the presence.
    Sqlite,
}

/// What a poll found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The present servers.
    pub present: BTreeSet<ServerNumber>,
    /// The projects with a peer that is being drained.
    pub draining_projects: BTreeSet<ProjectId>,
    /// The peers that are not lost and that no present server hears, with the server that was the
    /// last to hear each.
    pub unclaimed: Vec<(PeerId, Option<ServerNumber>)>,
}

impl Store {
    /// Makes this process present under a number that was never used.
    pub async fn appear(&self) -> Result<Presence, Error> {
        match &self.inner {
            Inner::Postgres(port) => {
                let limit = port.settings.presence() / 3;
                let (number, conn) = within(limit, port.appear()).await?;
                Ok(Presence { number, session: Session::Postgres(Box::new(conn), limit) })
            }
            Inner::Sqlite(port) => {
                Ok(Presence { number: port.appear().await?, session: Session::Sqlite })
            }
        }
    }

    /// Polls for what this server must know of the others, and so keeps it present. After an error
    /// the presence is of no use any more.
    pub async fn sight(&self, presence: &mut Presence) -> Result<Sighting, Error> {
        match (&mut presence.session, &self.inner) {
            (Session::Postgres(conn, limit), _) => {
                within(*limit, postgres::sql::presence::sight(conn)).await
            }
            (Session::Sqlite, Inner::Sqlite(port)) => {
                sqlite::sql::presence::sight(&mut *port.pool.read().await?).await
            }
            (Session::Sqlite, Inner::Postgres(_)) => Err(Error::Closed),
        }
    }
}

/// A database that cannot be reached answers nothing, not even an error.
async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = || {
        let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Error::new("keep the presence of this server", sqlx::Error::Io(source))
    };
    timeout(limit, call).await.unwrap_or_else(|_| Err(late()))
}
