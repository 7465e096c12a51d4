//! The parts of a long run with their times: printed at its end, and kept for `.ci/run`.

use std::fs;
use std::time::{Duration, Instant};

use crate::output;
use crate::repo::Repo;

/// Where the tables are kept, in the target directory.
const FOLDER: &str = "target/parts";

/// What a verb did, one line for each part, in order.
pub(crate) struct Parts {
    verb: &'static str,
    begun: Instant,
    lines: Vec<String>,
}

impl Parts {
    /// A run that begins now.
    pub(crate) fn new(verb: &'static str) -> Self {
        Self { verb, begun: Instant::now(), lines: Vec::new() }
    }

    /// Adds a part that took so long.
    pub(crate) fn add(&mut self, name: &str, took: Duration, remark: &str) {
        let line = format!("   {:>7.1} s  {name:<52} {remark}", took.as_secs_f64());
        self.lines.push(line.trim_end().to_owned());
    }

    /// Prints every part and the sum, and keeps them in a file that `.ci/run` prints once more.
    pub(crate) fn close(&self, repo: &Repo, end: &str) {
        let took = self.begun.elapsed().as_secs_f64();
        let closing = format!("{}: {end} in {took:.1} s", self.verb);
        let table = format!("{}\n{closing}\n", self.lines.join("\n"));
        output::say(table.trim_end());
        let folder = repo.root().join(FOLDER);
        // The table is only a report: that it could not be kept changes no verdict.
        let _kept =
            fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(self.verb), &table));
    }
}
