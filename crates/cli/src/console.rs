//! Output: a table for people, JSON as a contract.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use usher_kernel::Timestamp;

use crate::error::CliError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Aligned columns
    Table,
    /// JSON, the same as the server's API
    Json,
}

/// Prints everything a command outputs.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    pub form: Form,
}

impl Console {
    /// Prints one value: as JSON, or as these lines.
    pub fn one(
        self,
        value: &impl Serialize,
        lines: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        match self.form {
            Form::Json => self.line(value),
            Form::Table => print(&lines()),
        }
    }

    /// Prints one value as one line of JSON.
    pub fn line(self, value: &impl Serialize) -> Result<(), CliError> {
        print(&format!("{}\n", serde_json::to_value(value).unwrap_or_default()))
    }

    pub fn text(self, text: &str) -> Result<(), CliError> {
        print(text)
    }

    /// Prints a remark that is not part of the result, in table form only.
    pub fn note(self, text: &str) {
        if self.form == Form::Table {
            eprintln!("{text}");
        }
    }
}

/// Whether the error stream is a terminal.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Columns under their headings, as wide as their widest cell.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count());
        cells.chain(heads.get(column).map(|it| it.len())).max().unwrap_or(0)
    };
    let heads: Vec<String> = heads.iter().map(|it| (*it).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:width$}", width = width(column)))
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A cell; `-` if there is no text.
pub fn cell(text: Option<&str>) -> String {
    text.filter(|it| !it.is_empty()).unwrap_or("-").to_owned()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.after(since)
}

/// How long ago a time was, in the largest unit that fits.
pub fn age(time: &str) -> String {
    let Some(at) = Timestamp::from_rfc3339(time) else { return "-".to_owned() };
    let seconds = now().since(at).as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader closed the pipe, e.g. `head`.
        Err(why) if why.kind() == ErrorKind::BrokenPipe => {
            Err(CliError { code: 0, text: String::new() })
        }
        Err(why) => Err(CliError::failed(format!("failed to write to standard output: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["web-1".to_owned(), "Ready".to_owned()], vec!["ä".to_owned(), cell(None)]];
        assert_eq!(table(&["NAME", "PHASE"], &rows), "NAME   PHASE\nweb-1  Ready\nä      -\n");
        assert_eq!(table(&["NAME"], &[]), "NAME\n");
    }

    #[test]
    fn an_age_is_written_in_its_largest_unit() {
        let ago = |seconds: i64| {
            let now = now().as_micros();
            age(&Timestamp::from_micros(now - seconds * 1_000_000).to_rfc3339())
        };
        assert_eq!(ago(-5), "0s", "clocks differ");
        assert_eq!(ago(600), "10m");
        assert_eq!(ago(3 * 3_600), "3h");
        assert_eq!(ago(4 * 86_400), "4d");
        assert_eq!(age("yesterday"), "-");
    }
}
