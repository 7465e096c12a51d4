//! `usher migrate`: the state of a database's schema, and migrations up and down.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use usher_cli::console::Form;
use usher_cli::environment::variable;
use usher_cli::error::CliError;
use usher_server::config::is_postgres;
use usher_server::migrate::{self, Direction, Place, Status, Step};
use usher_wire::data_dir;

use super::stop_of;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Migrate the PostgreSQL database behind this URL, else behind `USHER_DATABASE_URL`
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    database_url: Option<String>,
    /// Migrate the SQLite database in this directory, else in `USHER_DATA_DIR`
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Revert the last N migrations, with the data they hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    down: Option<u16>,
    /// Print the state of the schema and change nothing
    #[arg(long, conflicts_with = "down")]
    status: bool,
    /// Revert migrations without confirmation
    #[arg(long, requires = "down")]
    yes: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Form,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match built {
        Ok(runtime) => runtime.block_on(migrate(flags)),
        Err(why) => Err(CliError::failed(format!("failed to start the async runtime: {why}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

async fn migrate(flags: &Flags) -> Result<(), CliError> {
    let place = place(flags, variable)?;
    let way = match flags.down {
        Some(count) => Direction::Down(count.into()),
        None if flags.status => Direction::Stay,
        None => Direction::Up,
    };
    prepare(&place, way)?;
    if let Direction::Down(count) = way {
        let status =
            migrate::migrate(&place, Direction::Stay, &mut |_| {}).await.map_err(stop_of)?;
        if !flags.yes && !status.applied.is_empty() {
            confirm(&status, count)?;
        }
    }
    let mut steps = vec![];
    let mut progress = |step: Step| {
        let word = if step.up { "up" } else { "down" };
        eprintln!("{word} {}", step.name);
        steps.push(step);
    };
    let status = migrate::migrate(&place, way, &mut progress).await.map_err(stop_of)?;
    print(&status, &steps, flags.output)
}

/// The database: flags win over the environment.
fn place(flags: &Flags, variable: impl Fn(&str) -> Option<String>) -> Result<Place, CliError> {
    let (url, folder) = match (&flags.database_url, &flags.data_dir) {
        (None, None) => {
            (variable("USHER_DATABASE_URL"), variable("USHER_DATA_DIR").map(PathBuf::from))
        }
        (url, folder) => (url.clone(), folder.clone()),
    };
    match (url, folder) {
        // The URL is not repeated: it may hold a password.
        (Some(url), None) if !is_postgres(&url) => Err(CliError::usage(
            "the database URL does not begin with postgres:// or postgresql://; \
             for SQLite give --data-dir",
        )),
        (Some(url), None) => Ok(Place::Postgres(url)),
        (None, Some(folder)) => Ok(Place::Sqlite(folder.join(data_dir::DATABASE))),
        (None, None) => Err(CliError::usage("no database: give --database-url or --data-dir")),
        (Some(_), Some(_)) => Err(CliError::usage(
            "USHER_DATABASE_URL and USHER_DATA_DIR are both set; \
             give --database-url or --data-dir",
        )),
    }
}

/// A migration up creates the data directory; otherwise a missing database is an error.
fn prepare(place: &Place, way: Direction) -> Result<(), CliError> {
    let Place::Sqlite(path) = place else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("."));
    if way == Direction::Up {
        let made = std::fs::create_dir_all(folder);
        return made.map_err(|why| CliError {
            code: 5,
            text: format!("failed to create \"{}\": {why}", folder.display()),
        });
    }
    if path.is_file() {
        Ok(())
    } else {
        Err(CliError::not_found(format!("no database at \"{}\"", path.display())))
    }
}

/// Asks for confirmation; only the word `yes` is accepted.
fn confirm(status: &Status, count: usize) -> Result<(), CliError> {
    let names: Vec<&str> = status.applied.iter().rev().take(count).map(String::as_str).collect();
    let names = names.join(", ");
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "this destroys the data of {names}: confirm with --yes"
        )));
    }
    eprint!("This destroys the data of {names}. Type \"yes\" to continue: ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && answer.trim() == "yes" {
        Ok(())
    } else {
        Err(CliError { code: 3, text: "nothing was changed".to_owned() })
    }
}

fn print(status: &Status, steps: &[Step], form: Form) -> Result<(), CliError> {
    let text = match form {
        Form::Table => table(status),
        Form::Json => {
            let steps: Vec<_> = steps
                .iter()
                .map(|it| json!({"name": it.name, "way": if it.up { "up" } else { "down" }}))
                .collect();
            let it = json!({"applied": status.applied, "pending": status.pending, "steps": steps});
            format!("{it}\n")
        }
    };
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|why| CliError::failed(format!("failed to write to standard output: {why}")))
}

fn table(status: &Status) -> String {
    let rows = status.applied.iter().map(|name| (name.as_str(), "applied"));
    let rows = rows.chain(status.pending.iter().map(|name| (name.as_str(), "pending")));
    let rows: Vec<_> = std::iter::once(("MIGRATION", "STATE")).chain(rows).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> =
        rows.iter().map(|(name, state)| format!("{name:width$}  {state}\n")).collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(typed: &str) -> Flags {
        Line::try_parse_from(format!("migrate {typed}").split_whitespace()).ok().unwrap().flags
    }

    // Requirement: Y-14
    #[test]
    fn flags_win_over_the_environment() {
        let url = |name: &str| (name == "USHER_DATABASE_URL").then(|| "postgres://a/b".to_owned());
        let both = |name: &str| Some(format!("postgres://{name}"));
        let none = |_: &str| None;
        let sqlite = Place::Sqlite(PathBuf::from("/d/usher.db"));
        assert_eq!(place(&flags("--data-dir /d"), both).ok(), Some(sqlite));
        let postgres = Some(Place::Postgres("postgres://a/b".to_owned()));
        assert_eq!(place(&flags("--database-url postgres://a/b"), none).ok(), postgres);
        assert_eq!(place(&flags(""), url).ok(), postgres);
        for (typed, variables) in [("", &both as &dyn Fn(&str) -> _), ("", &none)] {
            assert_eq!(place(&flags(typed), variables).err().unwrap().code, 2);
        }
        let refused = place(&flags("--database-url mysql://u:hunter2@h/d"), none).err().unwrap();
        assert!(!refused.text.contains("hunter2"), "{}", refused.text);
    }

    // Requirement: Y-14
    #[test]
    fn conflicting_flags_are_refused() {
        for typed in [
            "--data-dir d --database-url u",
            "--data-dir d --status --down 1",
            "--data-dir d --yes",
            "--data-dir d --down 0",
            "--data-dir d --down -1",
            "--data-dir d -o yaml",
        ] {
            let line = format!("migrate {typed}");
            assert!(Line::try_parse_from(line.split_whitespace()).is_err(), "{typed}");
        }
    }
}
