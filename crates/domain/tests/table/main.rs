//! The rules against their tables, cell by cell.
//!
//! A table is written by hand (`tables/*.table`). This program reads it, walks every cell of row
//! facts times observed facts, and demands that exactly one row matches and that the rules answer
//! as it says; the laws that hold whatever a table says are held on the same walk. Then it changes
//! copies of the table and demands a report, so that a checker that cannot fail is found.
//!
//! A further table needs a `Machine` (its facts, its answer and its laws), its text, and a line in
//! [`main`].

mod bend;
mod broker;
mod direct;
mod grammar;
mod law_cases;
mod laws;
mod machine;
mod parse;
mod provider_config;
mod refusal;
mod replay;
mod report;
mod shape;
mod stray;
mod tombstone;
mod usage;
mod walk;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use shape::{Machine, Origin};

/// How many findings of one kind are shown.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    let outcomes = [
        grammar::check(),
        laws::check(),
        provider_config::check(),
        direct::check(),
        usage::check(),
        check(
            &tombstone::machine(),
            "tables/tombstone.table",
            include_str!("../../tables/tombstone.table"),
        ),
        check(
            &provider_config::machine(),
            "tables/provider_config.table",
            include_str!("../../tables/provider_config.table"),
        ),
        check(&direct::machine(), "tables/direct.table", include_str!("../../tables/direct.table")),
        machine::check(),
        check(
            &machine::machine(),
            "tables/machine.table",
            include_str!("../../tables/machine.table"),
        ),
        check(&replay::machine(), "tables/replay.table", include_str!("../../tables/replay.table")),
        check(&stray::machine(), "tables/stray.table", include_str!("../../tables/stray.table")),
        check(&usage::machine(), "tables/usage.table", include_str!("../../tables/usage.table")),
        check(&broker::machine(), "tables/broker.table", include_str!("../../tables/broker.table")),
    ];
    let failed = outcomes.iter().filter(|it| it.is_err()).count();
    let passed = outcomes.len() - failed;
    let mut out = std::io::stdout().lock();
    for text in outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|text| text)) {
        if writeln!(out, "{text}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    // The closing line of every test program, which tools read.
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let written = writeln!(out, "\ntest result: {word}. {passed} passed; {failed} failed");
    if failed > 0 || written.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Reads a table, walks all of it, and checks that changed copies are refused.
fn check<C: Copy + Send + Sync>(
    machine: &Machine<C>,
    path: &str,
    text: &str,
) -> Result<String, String> {
    let shape = &machine.shape;
    let table = parse::parse(shape, text).map_err(|refusal| format!("{path}:{refusal}"))?;
    let found = walk::all(machine, &table);
    if found.total() > 0 {
        return Err(report::findings(shape, &table, path, &found));
    }
    let cells = shape.cells(Origin::Row) * shape.cells(Origin::Seen);
    if found.cells != cells {
        return Err(format!("{} of {cells} cells of {path} were walked", found.cells));
    }
    let mut text = format!(
        "{} table: {} row facts x {} observed facts = {} cells, {} rows, \
         each cell matched by exactly one row and equal to the rules",
        shape.name,
        report::grouped(shape.cells(Origin::Row)),
        report::grouped(shape.cells(Origin::Seen)),
        report::grouped(found.cells),
        table.rows.len(),
    );
    let bent = bend::check(machine, &table).map_err(|what| format!("{path}: {what}"))?;
    let _ = write!(text, "\n{} table: {bent}", shape.name);
    Ok(text)
}
