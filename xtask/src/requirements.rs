//! `requirements`: every requirement has its tests, and every tag on a test its requirement.
//!
//! A tag is a comment `// Requirement: K-1, W-6` above a test function, above a checker of the
//! simulation or above a check of `tidy`; in a transition table it begins with `#`. The tests in
//! the list are written from the tags by `cargo xtask generate`.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;
use crate::rust;
use crate::tree::{Tree, is_kind};

/// The list.
pub(crate) const FILE: &str = "docs/requirements.md";
/// The columns of its tables.
const HEADER: &str = "| ID | requirement | test(s) | turned red by |";
/// What a tag begins with, behind the sign of a comment.
const TAG: &str = "Requirement: ";
/// Where the checkers and breakages of the simulation are.
const SIMULATION: &str = "crates/sim/src/";
/// Where the transition tables are.
const TABLES: &str = "crates/domain/tables/";
/// Where the checks of `tidy` are listed.
const CHECKS: &str = "xtask/src/tidy/mod.rs";

/// How strict to be.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail if a requirement has no test, or a tag no requirement
    #[arg(long)]
    check: bool,
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Requirement<'a> {
    line: usize,
    id: &'a str,
    sentence: &'a str,
    tests: &'a str,
    /// What makes its tests fail.
    red: &'a str,
}

/// A test, checker, table or check that says which requirements it holds.
#[derive(Debug, PartialEq, Eq)]
struct Tag<'a> {
    file: &'a str,
    line: usize,
    ids: Vec<&'a str>,
    /// The name for the list, or nothing if no test follows the tag.
    name: Option<String>,
}

/// Something wrong with a line of the list, or with a tag.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, from the root.
    pub(crate) file: String,
    /// The line, counted from one.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
}

/// Prints what is covered and what is open.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let tree = repo.tree()?;
    let text = tree.get(FILE).ok_or_else(|| Failure::message(format!("cannot find \"{FILE}\"")))?;
    let rows: Vec<Requirement<'_>> = parse(text).into_iter().flatten().collect();
    let open: Vec<_> = rows.iter().filter_map(|row| Some((row.id, row.open()?))).collect();
    output::say(format_args!("covered {}, open {}", rows.len() - open.len(), open.len()));
    for (id, reason) in open {
        output::say(format_args!("open {id}: {reason}"));
    }
    let problems = problems(&tree);
    for problem in &problems {
        output::say(format_args!("{}:{}: {}", problem.file, problem.line, problem.what));
    }
    if args.check && !problems.is_empty() {
        return Err(Failure::message(format!("requirements: {} problems", problems.len())));
    }
    Ok(())
}

/// Prints the list and fails if a requirement has no test, or a tag no requirement.
pub(crate) fn check(repo: &Repo) -> Outcome {
    run(repo, &Args { check: true })
}

/// The list with the tests that the tags name.
pub(crate) fn document(tree: &Tree) -> Option<String> {
    let text = tree.get(FILE)?;
    let tags = tags(tree);
    let tests = tests_by_id(&tags);
    let rows = parse(text).into_iter().flatten().map(|row| (row.line, row));
    let rows: BTreeMap<usize, Requirement<'_>> = rows.collect();
    let mut document = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        match rows.get(&(index + 1)) {
            Some(row) if row.open().is_none() => document.push_str(&row.render(&tests)),
            _ => document.push_str(line),
        }
        document.push('\n');
    }
    Some(document)
}

/// What is wrong with the list and the tags; a tree without a list has one problem.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.get(FILE) else {
        return vec![problem(FILE, 1, "the list of requirements is missing")];
    };
    let (rows, tags) = (parse(text), tags(tree));
    let mut problems = untested(tree, &rows, &tests_by_id(&tags));
    let ids: BTreeSet<&str> = rows.iter().flatten().map(|row| row.id).collect();
    for tag in &tags {
        if tag.name.is_none() {
            problems.push(problem(tag.file, tag.line, "no test follows the tag"));
        }
        for id in tag.ids.iter().filter(|id| !ids.contains(*id)) {
            problems.push(problem(tag.file, tag.line, format!("no requirement {id:?}")));
        }
    }
    problems
}

/// Lines that cannot be read, are there twice, or have nothing that holds them.
fn untested(
    tree: &Tree,
    rows: &[Result<Requirement<'_>, Problem>],
    tests: &BTreeMap<&str, BTreeSet<&str>>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    if rows.is_empty() {
        problems.push(problem(FILE, 1, format!("no table with the header \"{HEADER}\"")));
    }
    for row in rows {
        let row = match row {
            Ok(row) => row,
            Err(bad) => {
                problems.push(problem(FILE, bad.line, bad.what.clone()));
                continue;
            }
        };
        let id = row.id;
        let mut complain = |what: String| problems.push(problem(FILE, row.line, what));
        if !ids.insert(id) {
            complain(format!("{id} is there twice"));
        }
        match (row.open(), tests.contains_key(id)) {
            (Some(""), _) => complain(format!("{id} is open without a reason")),
            (Some(_), true) => complain(format!("{id} is open although a test has its tag")),
            (None, false) => complain(format!("no test has the tag of {id}")),
            (None, true) if row.red.is_empty() => {
                complain(format!("{id} names nothing that turns it red"));
            }
            _ => {}
        }
        for name in breakages(row.red).filter(|name| !has_breakage(tree, name)) {
            complain(format!("{id}: no breakage \"{name}\""));
        }
    }
    problems
}

impl Requirement<'_> {
    /// Why nothing tests it yet.
    fn open(&self) -> Option<&str> {
        self.tests.strip_prefix("open:").map(str::trim)
    }

    fn render(&self, tests: &BTreeMap<&str, BTreeSet<&str>>) -> String {
        let mut names: Vec<&str> = tests.get(self.id).into_iter().flatten().copied().collect();
        // Names that were there keep their place, so that a change touches only what it means.
        let places: Vec<&str> = self.tests.split([',', '`', ' ']).collect();
        names.sort_by_key(|name| places.iter().position(|it| it == name).unwrap_or(usize::MAX));
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        format!("| {} | {} | {} | {} |", self.id, self.sentence, names.join(", "), self.red)
    }
}

fn parse(text: &str) -> Vec<Result<Requirement<'_>, Problem>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line == HEADER {
            inside = true;
        } else if !line.starts_with('|') {
            inside = false;
        } else if inside && !line.starts_with("|--") {
            rows.push(parse_row(line, index + 1));
        }
    }
    rows
}

fn parse_row(line: &str, number: usize) -> Result<Requirement<'_>, Problem> {
    let inner = line.trim_end().trim_start_matches('|').trim_end_matches('|');
    let cells: Vec<&str> = inner.split(" | ").map(str::trim).collect();
    let [id, sentence, tests, red] = *cells.as_slice() else {
        return Err(problem(FILE, number, format!("{} cells instead of 4", cells.len())));
    };
    if id.is_empty() || sentence.is_empty() {
        return Err(problem(FILE, number, "the id or the requirement is missing"));
    }
    Ok(Requirement { line: number, id, sentence, tests, red })
}

fn problem(file: &str, line: usize, what: impl Into<String>) -> Problem {
    Problem { file: file.to_owned(), line, what: what.into() }
}

/// The names behind `breakage:` in a cell.
fn breakages(cell: &str) -> impl Iterator<Item = &str> {
    cell.split([',', '`', ' ', ';']).filter_map(|part| part.strip_prefix("breakage:"))
}

fn has_breakage(tree: &Tree, name: &str) -> bool {
    let literal = format!("\"{name}\"");
    tree.under(SIMULATION).any(|(_, text)| text.contains(&literal))
}

fn tests_by_id<'a>(tags: &'a [Tag<'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tag in tags {
        for id in &tag.ids {
            tests.entry(id).or_default().extend(tag.name.as_deref());
        }
    }
    tests
}

/// Every tag of the tree, in the order of files and lines.
fn tags(tree: &Tree) -> Vec<Tag<'_>> {
    let tables = tree.under(TABLES).filter(|(path, _)| is_kind(path, "table"));
    let tables = tables.flat_map(|(path, text)| {
        let table = path[TABLES.len()..].trim_end_matches(".table");
        tagged_lines(text, "# ").map(move |(line, _, ids)| {
            let name = Some(format!("table:{table}"));
            Tag { file: path, line, ids, name }
        })
    });
    let sources = tree.of_kind("rs").filter(|(_, text)| text.contains(TAG));
    tables.chain(sources.flat_map(|(path, text)| tags_of_source(path, text))).collect()
}

fn tags_of_source<'a>(file: &'a str, text: &'a str) -> Vec<Tag<'a>> {
    let code = rust::code_only(text);
    let tags = tagged_lines(text, "// ").map(|(line, end, ids)| Tag {
        file,
        line,
        ids,
        name: tagged(file, text, &code, end),
    });
    tags.collect()
}

/// The lines that are tags, with the offset behind them and the requirements they name.
fn tagged_lines<'a>(
    text: &'a str,
    sign: &'static str,
) -> impl Iterator<Item = (usize, usize, Vec<&'a str>)> {
    let mut end = 0;
    text.split_inclusive('\n').enumerate().filter_map(move |(index, line)| {
        end += line.len();
        let ids = line.trim().strip_prefix(sign)?.strip_prefix(TAG)?;
        Some((index + 1, end, ids.split(',').map(str::trim).collect()))
    })
}

/// What a tag belongs to: a test function, a word of the simulation, or a check of `tidy`.
fn tagged(file: &str, text: &str, code: &str, from: usize) -> Option<String> {
    let to = code[from..].find(['{', ';']).map_or(code.len(), |length| from + length);
    if let Some(test) = function_of_test(&code[from..to]) {
        return Some(name_of_test(file, test));
    }
    let word = || Some(rust::literals(text, code, from, code.len()).first()?.1);
    match file.strip_prefix(SIMULATION) {
        Some(inside) if inside.ends_with("breakage.rs") => Some(format!("breakage:{}", word()?)),
        Some(_) => Some(format!("sim:{}", word()?)),
        None if file == CHECKS => Some(format!("tidy:{}", word()?)),
        None => None,
    }
}

/// The function in this stretch of code, if it is marked as a test.
fn function_of_test(code: &str) -> Option<&str> {
    let is_test = ["#[test]", "::test]", "::test("].iter().any(|mark| code.contains(mark));
    let mut words = rust::words(code).map(|(_, word)| word).skip_while(|word| *word != "fn");
    words.nth(1).filter(|_| is_test)
}

/// The crate, the modules as its files name them, and the function.
fn name_of_test(file: &str, test: &str) -> String {
    let path = file.trim_start_matches("crates/").trim_end_matches(".rs");
    let folders = path.split('/').filter(|it| !["src", "tests", "mod", "lib", "main"].contains(it));
    let mut parts: Vec<&str> = folders.chain([test]).collect();
    // A crate whose only test program has its name.
    parts.dedup();
    parts.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        fn helper() {}
        #[cfg(test)]
        mod tests {
            // TAG K-1, K-2
            // TAG B-1
            #[test]
            fn it_holds() {}
            /// Slowly.
            // TAG K-3
            #[tokio::test(flavor = "multi_thread")]
            async fn it_waits() {}
        }
    "#;
    const CHECKER: &str = "words! { Checker {\n/// Once.\n// TAG K-2\nOnce = \"once\",\n} }";
    const BREAKAGE: &str = "words! { Breakage {\nTwice = \"emit-twice\",\n} }";
    const ROWS: &str = "\
| K-1 | it holds | `old::name` | `breakage:emit-twice` |
| K-2 | it holds |  | an early claim |
| K-3 | it waits | `old::name` | an early end |
| B-1 | all cells |  | a changed row |
| B-2 | later | open: no store yet |  |";

    fn tree(rows: &str, source: &str) -> Tree {
        let list = format!("# Requirements\n\n{HEADER}\n|---|---|---|---|\n{rows}\n");
        let tag = |text: &str| text.replace("TAG ", TAG);
        Tree::from([
            (FILE, list.as_str()),
            ("crates/kernel/src/schedule.rs", &tag(source)),
            ("crates/domain/tables/broker.table", &tag("# TAG B-1\ntable broker\n")),
            ("crates/sim/src/broker/breakage.rs", BREAKAGE),
            ("crates/sim/src/check.rs", &tag(CHECKER)),
            (CHECKS, &tag("const CHECKS: X = [\n    // TAG B-1\n    (\"edges\", edges),\n];")),
        ])
    }

    fn whats(rows: &str, source: &str) -> Vec<String> {
        problems(&tree(rows, source)).into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn a_requirement_with_a_tag_and_a_tag_with_a_requirement_are_accepted() {
        assert_eq!(whats(ROWS, SOURCE), Vec::<String>::new());
    }

    #[test]
    fn the_tests_of_the_list_are_written_from_the_tags() {
        let document = document(&tree(ROWS, SOURCE)).unwrap();
        let rows: Vec<&str> = document.lines().filter(|line| line.contains('-')).skip(1).collect();
        let expected = [
            "| K-1 | it holds | `kernel::schedule::it_holds` | `breakage:emit-twice` |",
            "| K-2 | it holds | `kernel::schedule::it_holds`, `sim:once` | an early claim |",
            "| K-3 | it waits | `kernel::schedule::it_waits` | an early end |",
            "| B-1 | all cells | `kernel::schedule::it_holds`, `table:broker`, `tidy:edges` | a \
             changed row |",
            "| B-2 | later | open: no store yet |  |",
        ];
        assert_eq!(rows, expected);
        let again = super::document(&Tree::from([(FILE, document.as_str())])).unwrap();
        assert!(again.contains("| K-1 | it holds |  | `breakage:emit-twice` |"), "{again}");
    }

    // Requirement: H-14
    #[test]
    fn a_tag_without_its_requirement_or_its_test_is_refused() {
        let unknown = SOURCE.replace("K-3", "K-3, K-9");
        assert_eq!(whats(ROWS, &unknown), ["no requirement \"K-9\""]);
        let helper = SOURCE.replacen("fn helper", "// TAG K-1\nfn helper", 1);
        assert_eq!(whats(ROWS, &helper), ["no test follows the tag"]);
        let at = problems(&tree(ROWS, &helper)).remove(0);
        assert_eq!((at.file.as_str(), at.line), ("crates/kernel/src/schedule.rs", 2));
    }

    // Requirement: H-14
    #[test]
    fn a_requirement_without_its_test_is_refused() {
        let renamed = SOURCE.replace("// TAG K-3", "");
        assert_eq!(whats(ROWS, &renamed), ["no test has the tag of K-3"]);
        let cases = [
            ("| C-1 | it holds | x |", "3 cells instead of 4"),
            ("| C-1 | it holds | open: |  |", "C-1 is open without a reason"),
            ("|  | it holds | open: later |  |", "the id or the requirement is missing"),
            ("| K-1 | it holds | x | y |", "K-1 is there twice"),
            ("| C-1 | it holds | open: x | `breakage:none` |", "C-1: no breakage \"none\""),
        ];
        for (row, what) in cases {
            assert_eq!(whats(&format!("{ROWS}\n{row}"), SOURCE), [what], "{row}");
        }
        let red = ROWS.replace("an early end", "");
        assert_eq!(whats(&red, SOURCE), ["K-3 names nothing that turns it red"]);
        let open = ROWS.replace("| `old::name` | an early end |", "| open: later |  |");
        assert_eq!(whats(&open, SOURCE), ["K-3 is open although a test has its tag"]);
    }

    #[test]
    fn a_list_without_rows_or_without_a_file_is_a_problem() {
        assert_eq!(problems(&Tree::default()).len(), 1);
        assert_eq!(problems(&Tree::from([(FILE, "# Requirements\n")])).len(), 1);
    }
}
