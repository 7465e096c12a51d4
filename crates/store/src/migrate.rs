//! The migrations, embedded, and what is refused about a schema.
//!
//! The two dialects have the same list; `sql::migrate` runs it.

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use usher_kernel::coded;

/// One step of the schema, up and down.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number and name.
    pub name: &'static str,
    /// The statements that apply it.
    pub(crate) up: &'static str,
    /// The statements that revert it.
    pub(crate) down: &'static str,
}

impl Migration {
    /// The checksum of its text.
    pub(crate) fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.up).to_vec()
    }
}

macro_rules! migrations {
    ($($name:literal,)+) => {
        /// The schema of PostgreSQL.
        pub(crate) const POSTGRES: &[Migration] = &[$(migrations!("postgres", $name)),+];
        /// The schema of SQLite.
        pub(crate) const SQLITE: &[Migration] = &[$(migrations!("sqlite", $name)),+];
    };
    ($dialect:literal, $name:literal) => {
        Migration {
            name: $name,
            up: include_str!(concat!("../migrations/", $dialect, "/", $name, ".up.sql")),
            down: include_str!(concat!("../migrations/", $dialect, "/", $name, ".down.sql")),
        }
    };
}

migrations! {
    "0001_tenancy",
    "0002_records",
    "0003_enrolment",
    "0004_logs",
    "0005_sinks",
    "0006_timeline",
    "0007_worlds",
    "0008_drains",
    "0009_machines",
    "0010_free_and_gone_machines",
    "0011_server_keys",
    "0012_presence",
}

/// How far a schema is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The applied migrations, in order.
    pub applied: Vec<String>,
    /// The pending migrations.
    pub pending: Vec<String>,
}

/// The direction of a migration run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Apply the pending migrations.
    Up,
    /// Revert the last ones.
    Down(usize),
    /// Only report the state.
    Stay,
}

/// One migration that is about to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub name: &'static str,
    /// Whether it is applied, not reverted.
    pub up: bool,
}

/// Called at every step. All steps are one transaction: until its end nothing has happened.
pub type Progress<'p> = dyn FnMut(Step) + Send + 'p;

coded! {
    /// Why a schema is refused.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// A newer program migrated it.
        #[error("cannot use the database: its schema \"{found}\" is newer than this program")]
        Newer {
            /// The first migration that this program does not have.
            found: String,
        } = "schema_newer",
        /// The schema is of an older program and was not migrated.
        #[error("cannot use the database: its schema lacks \"{missing}\"")]
        Behind {
            /// The first migration that is missing.
            missing: String,
        } = "schema_behind",
        /// The same migration, with another text.
        #[error("cannot use the database: its migration \"{name}\" is not the one of this program")]
        Changed {
            /// Which.
            name: String,
        } = "schema_changed",
        /// Tables of another program.
        #[error("cannot use the database: table \"{table}\" is not ours")]
        Foreign {
            /// One of them.
            table: String,
        } = "schema_foreign",
        /// There are not so many migrations to revert.
        #[error("cannot revert {asked} migrations: only {applied} are applied")]
        TooFar {
            /// How many were requested.
            asked: usize,
            /// How many there are.
            applied: usize,
        } = "schema_too_far",
    }
}

impl Refusal {
    /// What to do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Newer { .. } => {
                "run the newer program, or let it take its migrations away: `usher migrate --down`"
            }
            Self::Behind { .. } => "run `usher migrate`",
            Self::Changed { .. } => {
                "run the program that made this schema, or restore a backup of it"
            }
            Self::Foreign { .. } => "name an empty database, or the one that is ours",
            Self::TooFar { .. } => "run `usher migrate --status` to see what is applied",
        }
    }
}

/// Compares the applied migrations with this program's, or returns the first difference.
pub(crate) fn compare(
    known: &[Migration],
    applied: &[(String, Vec<u8>)],
) -> Result<Status, Refusal> {
    for (index, (name, checksum)) in applied.iter().enumerate() {
        match known.get(index) {
            None => return Err(Refusal::Newer { found: name.clone() }),
            Some(it) if it.name != name || it.checksum() != *checksum => {
                return Err(Refusal::Changed { name: name.clone() });
            }
            Some(_) => {}
        }
    }
    let names = applied.iter().map(|(name, _)| name.clone()).collect();
    let pending = known.iter().skip(applied.len()).map(|it| it.name.to_owned()).collect();
    Ok(Status { applied: names, pending })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_dialects_have_the_same_migrations_and_no_file_is_forgotten() {
        let names = |list: &[Migration]| -> Vec<_> { list.iter().map(|it| it.name).collect() };
        assert_eq!(names(POSTGRES), names(SQLITE));
        let numbers: Vec<usize> =
            names(POSTGRES).iter().map(|it| it[..4].parse().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
        for dialect in ["postgres", "sqlite"] {
            let folder = format!("{}/migrations/{dialect}", env!("CARGO_MANIFEST_DIR"));
            let files = std::fs::read_dir(folder).unwrap();
            let files: BTreeSet<_> =
                files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            let expected = names(POSTGRES);
            let expected = expected
                .iter()
                .flat_map(|name| ["up", "down"].map(|way| format!("{name}.{way}.sql")));
            assert_eq!(files, expected.collect::<BTreeSet<_>>(), "{dialect}");
        }
    }

    #[test]
    fn newer_changed_and_behind_schemas_are_distinguished() {
        let applied = |count: usize| -> Vec<_> {
            SQLITE.iter().take(count).map(|it| (it.name.to_owned(), it.checksum())).collect()
        };
        let status = compare(SQLITE, &applied(1)).unwrap();
        assert_eq!((status.applied.len(), status.pending.len()), (1, SQLITE.len() - 1));
        let mut newer = applied(SQLITE.len());
        newer.push(("0099_later".to_owned(), vec![1]));
        let refusal = compare(SQLITE, &newer).unwrap_err();
        assert_eq!(refusal, Refusal::Newer { found: "0099_later".to_owned() });
        let mut changed = applied(2);
        changed[1].1[0] ^= 1;
        let refusal = compare(SQLITE, &changed).unwrap_err();
        assert_eq!(refusal, Refusal::Changed { name: "0002_records".to_owned() });
    }
}
