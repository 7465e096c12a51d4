//! Errors of the store.

use thiserror::Error;
use usher_domain::broker::refusal::Refusal;
use usher_domain::fleet;
use usher_kernel::Trouble;

use crate::migrate;

/// Why a call of the store failed.
#[derive(Debug, Error)]
pub enum Error {
    /// Another writer moved the record since it was read.
    #[error("the record has moved since it was read")]
    Conflict,
    /// What a declaration was resolved against has changed: read it again and decide again.
    #[error("the views have moved since they were read: {what}")]
    ViewsMoved {
        /// Which of them.
        what: &'static str,
    },
    /// There is no such row.
    #[error("cannot find {what}")]
    NotFound {
        /// What was requested.
        what: String,
    },
    /// The name is in use by another row of its kind.
    #[error("cannot store {what}: its name is in use")]
    Taken {
        /// What was to be stored.
        what: String,
    },
    /// Other rows refer to it.
    #[error("cannot remove {what}: something refers to it")]
    Held {
        /// What was to be removed.
        what: String,
    },
    /// The domain refuses a command.
    #[error("{0}")]
    Refused(Refusal),
    /// The domain refuses a command about a machine.
    #[error("{0}")]
    FleetRefused(fleet::refusal::Refusal),
    /// The lease that a write was made under is not the newest any more, or has ended.
    #[error("cannot write for {what}: its lease is lost")]
    LeaseLost {
        /// The shard.
        what: String,
    },
    /// A cluster is served by the shard that received its first roll-up.
    #[error("cannot accept a roll-up of cluster \"{cluster}\": shard \"{shard}\" serves it")]
    Served {
        /// The cluster.
        cluster: String,
        /// Who serves it.
        shard: String,
    },
    /// The resource is in teardown and gets no new token.
    #[error("cannot issue a token for {what}: it is being torn down")]
    Leaving {
        /// The resource.
        what: String,
    },
    /// A row breaks the rules of its own aggregate.
    #[error("cannot read {row}: its {field} breaks the rules")]
    Corrupt {
        /// Which row.
        row: String,
        /// What of it.
        field: String,
    },
    /// The events after the reader's cursor were deleted.
    #[error("cannot read events after \"{after}\": the log begins after \"{floor}\"")]
    Forgotten {
        /// The reader's cursor.
        after: crate::Cursor,
        /// The cursor of the last deleted event.
        floor: crate::Cursor,
    },
    /// The connection was lost during the commit, and it is not known whether
    /// it was done.
    #[error("commit outcome unknown: the connection was lost")]
    OutcomeUnknown {
        /// The connection's error.
        #[source]
        source: sqlx::Error,
    },
    /// The disk is full.
    #[error("cannot write: the disk is full")]
    Full {
        /// The database's error.
        #[source]
        source: sqlx::Error,
    },
    /// The database may only be read.
    #[error("cannot write: the database may only be read")]
    ReadOnly {
        /// The database's error.
        #[source]
        source: sqlx::Error,
    },
    /// Another process has the database open.
    #[error("cannot open \"{file}\": another process has it open")]
    InUse {
        /// The lock file.
        file: String,
    },
    /// The file cannot be opened.
    #[error("cannot open \"{file}\"")]
    File {
        /// Which file.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The schema is not the one of this program.
    #[error(transparent)]
    Schema(#[from] migrate::Refusal),
    /// The task that writes has ended.
    #[error("cannot write: the store is closed")]
    Closed,
    /// The database did not answer, or refused a statement.
    #[error("cannot {doing}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// The database's error.
        #[source]
        source: sqlx::Error,
    },
}

impl Error {
    /// A database error, and what was being done.
    pub(crate) fn new(doing: &'static str, source: sqlx::Error) -> Self {
        match Self::kind_of(&source) {
            Kind::Full => Self::Full { source },
            Kind::ReadOnly => Self::ReadOnly { source },
            Kind::Other => Self::Database { doing, source },
        }
    }

    /// What an error means for a step; decided only here.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Conflict | Self::LeaseLost { .. } => Trouble::Conflict,
            Self::Corrupt { .. } => Trouble::Corrupt { what: self.to_string() },
            Self::Refused(_)
            | Self::FleetRefused(_)
            | Self::Served { .. }
            | Self::Leaving { .. }
            | Self::Held { .. }
            | Self::Taken { .. }
            | Self::NotFound { .. }
            | Self::Forgotten { .. }
            | Self::Schema(_) => Trouble::Rejected { what: self.to_string() },
            Self::ViewsMoved { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Full { .. }
            | Self::ReadOnly { .. }
            | Self::InUse { .. }
            | Self::File { .. }
            | Self::Closed
            | Self::Database { .. } => Trouble::unavailable("the database".to_owned()),
        }
    }

    /// Codes of PostgreSQL are five characters, those of SQLite numbers with the kind in the low
    /// byte.
    pub(crate) fn kind_of(source: &sqlx::Error) -> Kind {
        match code(source).as_deref() {
            Some("53100") => Kind::Full,
            Some("25006") => Kind::ReadOnly,
            Some(code) if code.len() < 5 => match code.parse::<u32>().map(|it| it & 0xff) {
                Ok(13) => Kind::Full,
                Ok(8) => Kind::ReadOnly,
                Ok(_) | Err(_) => Kind::Other,
            },
            Some(_) | None => Kind::Other,
        }
    }

    /// Whether the connection failed before the database could answer.
    pub(crate) fn is_connection(source: &sqlx::Error) -> bool {
        matches!(
            source,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed
        ) || matches!(
            code(source).as_deref(),
            Some("57P01" | "57P02" | "57P03" | "08006" | "08003")
        )
    }

    /// Whether a reference has no target, or the row is still referred to.
    pub(crate) fn is_reference(source: &sqlx::Error) -> bool {
        source.as_database_error().is_some_and(|it| {
            // SQLite calls a refused removal a trigger; there are no others in the schema.
            it.is_foreign_key_violation() || it.code().as_deref() == Some("1811")
        })
    }

    /// Whether a key exists already.
    pub(crate) fn is_duplicate(source: &sqlx::Error) -> bool {
        source.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }
}

/// Names what was being done when the database failed.
pub(crate) trait Context<T> {
    /// Adds the words.
    fn context(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Context<T> for Result<T, sqlx::Error> {
    fn context(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::new(doing, source))
    }
}

/// The cause that a database's error code means.
pub(crate) enum Kind {
    /// The disk is full.
    Full,
    /// It may only be read.
    ReadOnly,
    /// Something else.
    Other,
}

fn code(source: &sqlx::Error) -> Option<String> {
    let error = source.as_database_error();
    error.and_then(sqlx::error::DatabaseError::code).map(std::borrow::Cow::into_owned)
}
