//! `requirements`: every requirement names what tests it, and what it names is there.

use std::collections::BTreeSet;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;
use crate::rust;
use crate::tidy;
use crate::tree::{Tree, is_kind};

/// The list.
pub(crate) const FILE: &str = "docs/requirements.md";
/// The columns of its tables.
const HEADER: &str = "| ID | requirement | test(s) | turned red by |";

/// How strict to be.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail if a requirement names something that is not there
    #[arg(long)]
    check: bool,
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    line: usize,
    id: String,
    state: State,
    /// What makes its tests fail.
    red: String,
}

/// Whether a requirement is tested.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// By these.
    Covered(Vec<String>),
    /// Not yet, and why.
    Open(String),
}

/// Something wrong with a line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The line, counted from one.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
}

/// Prints what is covered and what is open.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let tree = repo.tree()?;
    let problems = report(&tree)?;
    for problem in &problems {
        output::say(format_args!("{FILE}:{}: {}", problem.line, problem.what));
    }
    if args.check && !problems.is_empty() {
        return Err(Failure::told(format!("requirements: {} problems", problems.len())));
    }
    Ok(())
}

/// Prints the list and fails if it names something that is not there.
pub(crate) fn check(repo: &Repo) -> Outcome {
    run(repo, &Args { check: true })
}

/// What is wrong with the list; a tree without one has one problem.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    match tree.get(FILE) {
        Some(text) => examine(tree, &parse(text)),
        None => vec![problem(1, "the list of requirements is missing")],
    }
}

fn report(tree: &Tree) -> Result<Vec<Problem>, Failure> {
    let text = tree.get(FILE).ok_or_else(|| Failure::told(format!("cannot find \"{FILE}\"")))?;
    let rows = parse(text);
    let open: Vec<_> = rows.iter().flatten().filter_map(reason).collect();
    let covered = rows.iter().flatten().count() - open.len();
    output::say(format_args!("covered {covered}, open {}", open.len()));
    for (id, reason) in open {
        output::say(format_args!("open {id}: {reason}"));
    }
    Ok(examine(tree, &rows))
}

fn reason(requirement: &Requirement) -> Option<(&str, &str)> {
    match &requirement.state {
        State::Open(reason) => Some((&requirement.id, reason)),
        State::Covered(_) => None,
    }
}

fn parse(text: &str) -> Vec<Result<Requirement, Problem>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line == HEADER {
            inside = true;
        } else if !line.starts_with('|') {
            inside = false;
        } else if inside && !line.starts_with("|--") {
            rows.push(parse_row(line, line_number));
        }
    }
    rows
}

fn parse_row(line: &str, number: usize) -> Result<Requirement, Problem> {
    let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
    let [id, sentence, tests, red] = cells.as_slice() else {
        return Err(problem(number, format!("{} cells instead of 4", cells.len())));
    };
    if id.is_empty() || sentence.is_empty() {
        return Err(problem(number, "the id or the requirement is missing"));
    }
    let state = match tests.strip_prefix("open:") {
        Some(reason) => State::Open(reason.trim().to_owned()),
        None => State::Covered(names(tests)),
    };
    Ok(Requirement { line: number, id: (*id).to_owned(), state, red: (*red).to_owned() })
}

/// The names in a cell, without their backticks.
fn names(cell: &str) -> Vec<String> {
    let parts = cell.split([',', '`']).flat_map(str::split_whitespace);
    parts.filter(|part| *part != "<br>").map(str::to_owned).collect()
}

fn examine(tree: &Tree, rows: &[Result<Requirement, Problem>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    if rows.is_empty() {
        problems.push(problem(1, format!("no table with the header \"{HEADER}\"")));
    }
    for row in rows {
        let requirement = match row {
            Ok(requirement) => requirement,
            Err(bad) => {
                problems.push(problem(bad.line, bad.what.clone()));
                continue;
            }
        };
        let mut complain = |what: String| problems.push(problem(requirement.line, what));
        let id = &requirement.id;
        if !ids.insert(id.as_str()) {
            complain(format!("{id} is there twice"));
        }
        match &requirement.state {
            State::Open(reason) if reason.is_empty() => {
                complain(format!("{id} is open without a reason"));
            }
            State::Open(_) => {}
            State::Covered(tests) => {
                if tests.is_empty() {
                    complain(format!("{id} names no test"));
                }
                if requirement.red.is_empty() {
                    complain(format!("{id} names nothing that turns it red"));
                }
                let breakages = names(&requirement.red);
                let breakages = breakages.iter().filter(|name| name.starts_with("breakage:"));
                let unknown = tests.iter().chain(breakages).filter_map(|name| unknown(tree, name));
                unknown.for_each(|what| complain(format!("{id}: {what}")));
            }
        }
    }
    problems
}

fn problem(line: usize, what: impl Into<String>) -> Problem {
    Problem { line, what: what.into() }
}

/// Why a name means nothing, if it does not.
fn unknown(tree: &Tree, name: &str) -> Option<String> {
    let found = match name.split_once(':') {
        Some(("sim" | "breakage", rest)) if !rest.starts_with(':') => {
            let literal = format!("\"{rest}\"");
            tree.under("crates/sim/src/").any(|(_, text)| text.contains(&literal))
        }
        Some(("table", rest)) if !rest.starts_with(':') => {
            tree.has(&format!("crates/domain/tables/{rest}.table"))
        }
        Some(("tidy", rest)) if !rest.starts_with(':') => {
            tidy::CHECKS.iter().any(|(check, _)| *check == rest)
        }
        _ => has_test(tree, name),
    };
    (!found).then(|| format!("cannot find \"{name}\""))
}

/// Whether `crate::module::test` is a test function in a file of that module.
fn has_test(tree: &Tree, path: &str) -> bool {
    let mut parts: Vec<&str> = path.split("::").collect();
    let (Some(test), Some(member)) = (parts.pop(), parts.first().copied()) else { return false };
    let modules: Vec<&str> = parts[1..].iter().copied().filter(|part| *part != "tests").collect();
    let folder = if member == "xtask" { "xtask/".to_owned() } else { format!("crates/{member}/") };
    let rust_files = tree.under(&folder).filter(|(file, _)| is_kind(file, "rs"));
    rust_files.map(|(file, text)| (&file[folder.len()..], text)).any(|(file, text)| {
        text.contains(test)
            && modules.iter().all(|module| holds_module(file, text, module))
            && defines_test(&rust::code_only(text), test)
    })
}

fn holds_module(file: &str, text: &str, module: &str) -> bool {
    file.trim_end_matches(".rs").split('/').any(|part| part == module)
        || text.contains(&format!("mod {module} {{"))
}

/// Whether a function of this name stands under a `#[test]`.
fn defines_test(code: &str, name: &str) -> bool {
    let words: Vec<(usize, &str)> = rust::words(code).collect();
    words.windows(2).any(|pair| {
        let is_it = pair[0].1 == "fn" && pair[1].1 == name;
        is_it && {
            let before = &code[..pair[0].0];
            let item = before.rfind(['}', '{', ';']).map_or(0, |at| at + 1);
            ["#[test]", "::test]", "::test("].iter().any(|mark| before[item..].contains(mark))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        fn helper() {}
        #[cfg(test)]
        mod tests {
            #[test]
            fn it_holds() {}
            #[tokio::test(flavor = "multi_thread")]
            async fn it_waits() {}
        }
    "#;

    fn tree(rows: &str) -> Tree {
        let list = format!("# Requirements\n\n{HEADER}\n|---|---|---|---|\n{rows}\n");
        Tree::from([
            (FILE, list.as_str()),
            ("crates/kernel/src/schedule.rs", SOURCE),
            ("crates/domain/tables/broker.table", "table broker\n"),
            ("crates/sim/src/breakage.rs", "const NAMES: [&str; 1] = [\"emit-twice\"];"),
            ("crates/sim/src/check.rs", "const NAME: &str = \"told-once\";"),
        ])
    }

    fn whats(rows: &str) -> Vec<String> {
        problems(&tree(rows)).into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn names_that_exist_are_accepted() {
        let rows = "\
| K-1 | it holds | `kernel::schedule::it_holds` | breakage:emit-twice |
| K-2 | it holds | `kernel::schedule::tests::it_holds`, sim:told-once | an early claim |
| K-3 | it waits | `kernel::schedule::it_waits` | an early end |
| B-1 | all cells | table:broker, tidy:edges | a changed row |
| B-2 | later | open: no store yet |  |";
        assert_eq!(whats(rows), Vec::<String>::new());
    }

    #[test]
    fn names_that_do_not_exist_are_refused() {
        let names = [
            "kernel::schedule::it_does_not",
            "kernel::step::it_holds",
            "store::schedule::it_holds",
            "kernel::schedule::helper",
            "sim:told-twice",
            "breakage:emit",
            "table:brokers",
            "tidy:nothing",
            "a sentence",
        ];
        for name in names {
            let found = whats(&format!("| K-1 | it holds | {name} | x |"));
            assert!(found[0].contains("K-1: cannot find"), "{name}: {found:?}");
        }
        let red = whats("| K-1 | it holds | `kernel::schedule::it_holds` | `breakage:none` |");
        assert_eq!(red, ["K-1: cannot find \"breakage:none\""]);
    }

    #[test]
    fn a_row_that_says_too_little_is_refused() {
        let cases = [
            ("| K-1 | it holds | kernel::schedule::it_holds |", "3 cells instead of 4"),
            (
                "| K-1 | it holds | kernel::schedule::it_holds |  |",
                "K-1 names nothing that turns it red",
            ),
            ("| K-1 | it holds |  | x |", "K-1 names no test"),
            ("| K-1 | it holds | open: |  |", "K-1 is open without a reason"),
            ("|  | it holds | open: later |  |", "the id or the requirement is missing"),
        ];
        for (row, what) in cases {
            assert_eq!(whats(row), [what], "{row}");
        }
        let twice = "| K-1 | a | open: x |  |\n| K-1 | b | open: x |  |";
        assert_eq!(whats(twice), ["K-1 is there twice"]);
    }

    #[test]
    fn a_list_without_rows_or_without_a_file_is_a_problem() {
        assert_eq!(problems(&Tree::default()).len(), 1);
        assert_eq!(problems(&Tree::from([(FILE, "# Requirements\n")])).len(), 1);
    }
}
