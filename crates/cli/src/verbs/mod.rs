//! What a person can type.

mod migrate;

use std::process::ExitCode;

/// A verb with its arguments.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Bring the schema of a database up to this program's, or take it back
    ///
    /// The migrations of one run are one transaction: all of them happen, or none. `usher serve`
    /// never migrates by itself and refuses a schema that is not its own
    Migrate(migrate::Flags),
}

impl Verb {
    /// Does it.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Migrate(flags) => migrate::run(&flags),
        }
    }
}
