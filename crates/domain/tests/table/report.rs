//! What was found, for a person.

use std::fmt::Write as _;

use crate::parse::Table;
use crate::shape::{Origin, Outcome, Shape};
use crate::walk::{Finding, Findings, Kind};

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Everything that is wrong with a table, by kind.
pub(crate) fn findings(shape: &Shape, table: &Table, path: &str, found: &Findings) -> String {
    let mut text = format!("{path}: the rules and the table differ");
    for kind in Kind::ALL {
        let count = found.counts[kind as usize];
        if count == 0 {
            continue;
        }
        let title = match kind {
            Kind::Unmatched => "no row matches",
            Kind::Ambiguous => "several rows match",
            Kind::Different => "the rules answer otherwise",
            Kind::Unlawful => "the rules break a law",
        };
        let shown = found.of(kind).count();
        let _ = write!(text, "\n\n{title}: {} cells, {shown} of them:", grouped(count));
        for finding in found.of(kind) {
            let _ = write!(text, "\n{}", one(shape, table, path, finding));
        }
    }
    text
}

/// One wrong cell, the rows that match it and what the rules say.
fn one(shape: &Shape, table: &Table, path: &str, finding: &Finding) -> String {
    let mut text = format!(
        "  cell   {}\n         {}",
        facts(shape, &finding.cell, Origin::Row),
        facts(shape, &finding.cell, Origin::Seen)
    );
    for row in finding.rows.iter().map(|row| &table.rows[*row]) {
        let _ = write!(text, "\n  row    {path}:{}: {}", row.line, row.text);
    }
    let _ = write!(text, "\n  rules  {}", answer(shape, finding.outcome));
    match finding.kind {
        Kind::Unmatched | Kind::Ambiguous => {}
        Kind::Different => {
            for row in finding.rows.iter().map(|row| &table.rows[*row]) {
                let said = row.answer.at(&finding.cell);
                let _ = write!(text, "\n  differ {}", difference(shape, said, finding.outcome));
            }
        }
        Kind::Unlawful => {
            let _ = write!(text, "\n  law    {}", finding.law.unwrap_or_default());
        }
    }
    text.push('\n');
    text
}

fn facts(shape: &Shape, cell: &[usize], origin: Origin) -> String {
    let facts = shape.facts.iter().zip(cell).filter(|(fact, _)| fact.origin == origin);
    let said = facts.map(|(fact, value)| format!("{}={}", fact.name, fact.words[*value]));
    said.collect::<Vec<_>>().join(" ")
}

fn word(shape: &Shape, outcome: Outcome, field: usize) -> &'static str {
    outcome.word(field).map_or("none", |word| shape.fields[field].words[word])
}

fn answer(shape: &Shape, outcome: Outcome) -> String {
    let fields = shape.fields.iter().enumerate();
    let said = fields.map(|(at, field)| format!("{}={}", field.name, word(shape, outcome, at)));
    said.collect::<Vec<_>>().join(" ")
}

fn difference(shape: &Shape, table: Outcome, rules: Outcome) -> String {
    let fields = shape.fields.iter().enumerate();
    let differing = fields.filter(|(at, _)| table.word(*at) != rules.word(*at));
    let said = differing.map(|(at, field)| {
        let (table, rules) = (word(shape, table, at), word(shape, rules, at));
        format!("{}: the row says {table}, the rules {rules}", field.name)
    });
    said.collect::<Vec<_>>().join("; ")
}
