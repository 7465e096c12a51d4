//! `generate`: documents drawn from the transition tables, or printed by the code they describe.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;
use crate::requirements;
use crate::table::{Condition, PHASE, Row, Section, Table};
use crate::tree::{Tree, is_kind};
use crate::wire;

/// Where the tables are.
const TABLES: &str = "crates/domain/tables/";
/// Where the charts go.
const CHARTS: &str = "docs/charts/";
/// Documents that an example of a package prints.
const PRINTED: [(&str, &str, &str); 2] = [
    ("docs/configuration.md", "usher-server", "configuration"),
    ("docs/openapi.json", "usher-api", "openapi"),
];
/// So few phases are drawn one by one; more become a node that names them.
const DRAWN_APART: usize = 2;

/// So many reasons fit on an arrow; the listing below the chart has them all.
const REASONS_DRAWN: usize = 6;

/// What to do with the documents.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing and fail if a document is out of date
    #[arg(long)]
    check: bool,
}

/// Writes the documents, or checks that they are fresh.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    if args.check { check(repo) } else { write(repo) }
}

/// Fails if a committed chart differs from its table, or the list of requirements from the tags.
/// Printed documents are compared by tests of the packages that print them, which are built anyway.
pub(crate) fn check(repo: &Repo) -> Outcome {
    wire::check(repo)?;
    let tree = repo.tree()?;
    let documents = drawn(&tree)?;
    let stale = differing(&tree, &documents);
    if stale.is_empty() {
        output::say(format_args!("generate: {} documents, all fresh", documents.len()));
        return Ok(());
    }
    Err(Failure::message(format!(
        "out of date: {}\nrun: cargo xtask generate",
        stale.into_iter().collect::<Vec<_>>().join(", ")
    )))
}

fn write(repo: &Repo) -> Outcome {
    let tree = repo.tree()?;
    // What needs no build comes first, so that it is fresh although the product does not compile.
    let drawn = drawn(&tree)?;
    put(repo, &drawn, differing(&tree, &drawn))?;
    wire::write(repo)?;
    let mut printed = BTreeMap::new();
    for (path, package, example) in PRINTED {
        let args = ["run", "--quiet", "--package", package, "--example", example];
        printed.insert(path.to_owned(), repo.printed(&args)?);
    }
    put(repo, &printed, changed(&tree, &printed))?;
    output::say(format_args!("generate: {} documents", drawn.len() + printed.len()));
    Ok(())
}

/// Writes these paths, or removes those that should not be there.
fn put(
    repo: &Repo,
    documents: &BTreeMap<String, String>,
    paths: impl IntoIterator<Item = String>,
) -> Outcome {
    for path in paths {
        let file = repo.root().join(&path);
        match documents.get(&path) {
            Some(text) => {
                fs::create_dir_all(repo.root().join(CHARTS)).and_then(|()| fs::write(&file, text))
            }
            None => fs::remove_file(&file),
        }
        .map_err(|cause| Failure::message(format!("cannot write \"{path}\": {cause}")))?;
        output::say(format_args!("wrote {path}"));
    }
    Ok(())
}

/// Every document that is made from the files alone, by its path.
fn drawn(tree: &Tree) -> Result<BTreeMap<String, String>, Failure> {
    let mut documents = charts(tree)?;
    documents.extend(requirements::document(tree).map(|it| (requirements::FILE.to_owned(), it)));
    Ok(documents)
}

/// Every chart that should be there, by its path.
fn charts(tree: &Tree) -> Result<BTreeMap<String, String>, Failure> {
    let mut charts = BTreeMap::new();
    for (path, text) in tree.under(TABLES).filter(|(path, _)| is_kind(path, "table")) {
        let table = Table::parse(text)
            .map_err(|bad| Failure::message(format!("{path}:{}: {}", bad.line, bad.what)))?;
        charts.insert(format!("{CHARTS}{}.md", table.name), document(&table, path));
    }
    Ok(charts)
}

/// The paths that are missing, changed, or without a table.
fn differing(tree: &Tree, charts: &BTreeMap<String, String>) -> BTreeSet<String> {
    let orphaned = tree
        .under(CHARTS)
        .map(|(path, _)| path.to_owned())
        .filter(|path| !charts.contains_key(path));
    changed(tree, charts).into_iter().chain(orphaned).collect()
}

fn changed(tree: &Tree, documents: &BTreeMap<String, String>) -> BTreeSet<String> {
    let changed = documents.iter().filter(|(path, text)| tree.get(path) != Some(text.as_str()));
    changed.map(|(path, _)| path.clone()).collect()
}

fn document(table: &Table, path: &str) -> String {
    let mut text = format!(
        "# Transitions: {}\n\nDrawn from `{path}` by `cargo xtask generate`; edit the table \
         instead.\n",
        table.name
    );
    if let Some(phases) = table.values(PHASE) {
        text.push_str(&diagram(table, phases));
    }
    for section in &table.sections {
        text.push_str(&listing(section));
    }
    text
}

/// An arrow of the chart.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Edge<'a> {
    /// From these phases.
    from: BTreeSet<usize>,
    /// To this one; nothing keeps the phase.
    to: Option<usize>,
    effect: Option<&'a str>,
    event: Option<&'a str>,
}

fn diagram(table: &Table, phases: &[String]) -> String {
    let edges = edges(table, phases);
    let mut text = String::from("\n```mermaid\nflowchart TD\n");
    for phase in phases {
        _ = writeln!(text, "    {phase}([{phase}])");
    }
    let sets: BTreeSet<&BTreeSet<usize>> =
        edges.keys().map(|edge| &edge.from).filter(|from| from.len() > 1).collect();
    let sets: Vec<_> = sets.into_iter().collect();
    for (index, set) in sets.iter().enumerate() {
        _ = writeln!(text, "    set{index}{{{{\"{}\"}}}}", set_name(set, phases));
    }
    let node = |from: &BTreeSet<usize>| match sets.iter().position(|set| *set == from) {
        Some(index) => format!("set{index}"),
        None => from.first().map_or_else(String::new, |phase| phases[*phase].clone()),
    };
    for (edge, reasons) in &edges {
        let start = node(&edge.from);
        let end = edge.to.map_or_else(|| start.clone(), |phase| phases[phase].clone());
        _ = writeln!(text, "    {start} -- \"{}\" --> {end}", label(edge, reasons));
    }
    text.push_str(
        "```\n\nEffects are bold, events italic, reasons plain. A row that only requeues is not \
         drawn; every row is listed below.\n",
    );
    text
}

fn label(edge: &Edge<'_>, reasons: &BTreeSet<&str>) -> String {
    let effect = edge.effect.map(|effect| format!("<b>{effect}</b>"));
    let event = edge.event.map(|event| format!("<i>{event}</i>"));
    let shown = reasons.iter().take(REASONS_DRAWN).map(|reason| (*reason).to_owned());
    let more = reasons.len().saturating_sub(REASONS_DRAWN);
    let more = (more > 0).then(|| format!("and {more} more"));
    let lines: Vec<String> = effect.into_iter().chain(event).chain(shown).chain(more).collect();
    lines.join("<br/>")
}

fn edges<'a>(table: &'a Table, phases: &[String]) -> BTreeMap<Edge<'a>, BTreeSet<&'a str>> {
    let mut edges: BTreeMap<Edge<'a>, BTreeSet<&'a str>> = BTreeMap::new();
    for section in &table.sections {
        for row in &section.rows {
            let to = row.decided(PHASE).and_then(|to| phases.iter().position(|phase| phase == to));
            let (effect, event) = (row.decided("effect"), row.decided("event"));
            for from in apart(starts(section, row, phases)) {
                let stays = to.is_none_or(|to| from.len() == 1 && from.contains(&to));
                if !stays || effect.is_some() || event.is_some() {
                    let edge = Edge { from, to, effect, event };
                    edges.entry(edge).or_default().extend(row.decided("reason"));
                }
            }
        }
    }
    edges
}

/// The phases that a row applies to.
fn starts(section: &Section, row: &Row, phases: &[String]) -> BTreeSet<usize> {
    let admits = |conditions: &[Condition], phase: &str| {
        conditions.iter().filter(|condition| condition.fact == PHASE).all(|c| c.admits(phase))
    };
    let applies = |phase: &str| {
        admits(&row.when, phase)
            && (section.given.is_empty() || section.given.iter().any(|given| admits(given, phase)))
    };
    (0..phases.len()).filter(|index| applies(&phases[*index])).collect()
}

fn apart(from: BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    if from.len() > DRAWN_APART {
        vec![from]
    } else {
        from.into_iter().map(|phase| BTreeSet::from([phase])).collect()
    }
}

fn set_name(set: &BTreeSet<usize>, phases: &[String]) -> String {
    let names = |inside: bool| {
        let chosen = (0..phases.len()).filter(|index| set.contains(index) == inside);
        chosen.map(|index| phases[index].as_str()).collect::<Vec<_>>().join(", ")
    };
    match phases.len() - set.len() {
        0 => "any phase".to_owned(),
        others if others < set.len() => format!("any but {}", names(false)),
        _ => names(true),
    }
}

fn listing(section: &Section) -> String {
    let mut text = format!("\n## {}\n\n", section.title);
    for (index, given) in section.given.iter().enumerate() {
        let word = if index == 0 { "given" } else { "or given" };
        _ = writeln!(text, "- {word} {}", conditions(given));
    }
    if !section.given.is_empty() {
        text.push('\n');
    }
    text.push_str("| when | then |\n|---|---|\n");
    for row in &section.rows {
        let then = row.then.iter().map(|(key, value)| format!("`{key}={value}`"));
        let then = then.collect::<Vec<_>>().join(" ");
        _ = writeln!(text, "| {} | {then} |", conditions(&row.when));
    }
    text
}

fn conditions(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return "always".to_owned();
    }
    let shown = conditions.iter().map(|condition| {
        let not = if condition.negated { "!" } else { "" };
        format!("`{}={not}{}`", condition.fact, condition.values.join(","))
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::table::SAMPLE;

    use super::*;

    const PATH: &str = "crates/domain/tables/sample.table";

    #[test]
    fn a_chart_draws_crossings_and_effects_and_skips_plain_requeues() {
        let chart = document(&Table::parse(SAMPLE).unwrap(), PATH);
        let drawn: Vec<_> = chart.lines().filter(|line| line.contains("-->")).collect();
        let expected = [
            "    Pending -- \"<b>Apply</b><br/>Applied\" --> Pending",
            "    Pending -- \"<i>Provisioned</i><br/>AsDeclared\" --> Ready",
            "    set0 -- \"<b>Reread</b><br/>Unreachable\" --> set0",
            "    set0 -- \"<b>Deregister</b><br/>Draining\" --> Leaving",
            "    set0 -- \"<i>Deleted</i><br/>Gone\" --> Deleted",
            "    Ready -- \"<b>Apply</b><br/>Applied\" --> Pending",
            "    Ready -- \"<i>Provisioned</i><br/>AsDeclared\" --> Ready",
        ];
        assert_eq!(drawn, expected);
        assert!(chart.contains("set0{{\"any but Deleted\"}}"), "{chart}");
    }

    #[test]
    fn an_arrow_with_many_reasons_counts_the_reasons_it_omits() {
        let edge = Edge { from: BTreeSet::from([0]), to: Some(1), effect: None, event: None };
        let reasons = BTreeSet::from(["A", "B", "C", "D", "E", "F", "G", "H"]);
        assert!(label(&edge, &reasons).ends_with("E<br/>F<br/>and 2 more"));
    }

    #[test]
    fn every_row_is_listed_under_its_section() {
        let chart = document(&Table::parse(SAMPLE).unwrap(), PATH);
        assert!(chart.contains("\n## Teardown: the node is removed first\n"));
        assert!(chart.contains("- given `intent=requested` `phase=!Deleted`"));
        let rows = chart.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, 6);
    }

    // Requirement: H-13
    #[test]
    fn a_chart_that_is_missing_changed_or_orphaned_is_out_of_date() {
        let chart = document(&Table::parse(SAMPLE).unwrap(), PATH);
        let stale = |tree: Tree| {
            let charts = charts(&tree).unwrap();
            differing(&tree, &charts).into_iter().collect::<Vec<_>>()
        };
        let path = "docs/charts/sample.md";
        assert!(stale(Tree::from([(PATH, SAMPLE), (path, &chart)])).is_empty());
        assert_eq!(stale(Tree::from([(PATH, SAMPLE)])), [path]);
        assert_eq!(stale(Tree::from([(PATH, SAMPLE), (path, "# Old")])), [path]);
        assert_eq!(stale(Tree::from([(path, chart.as_str())])), [path]);
        let changed = SAMPLE.replace("reason=Gone", "reason=Away");
        assert_eq!(stale(Tree::from([(PATH, changed.as_str()), (path, &chart)])), [path]);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_named_with_its_line() {
        let tree = Tree::from([(PATH, "table t\nrow x\n")]);
        let refused = charts(&tree).unwrap_err();
        assert_eq!(refused, Failure::message(format!("{PATH}:2: no \"->\" in \"x\"")));
    }
}
