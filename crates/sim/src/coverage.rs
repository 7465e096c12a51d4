//! What the seeds of a run met: a run that met too little proves too little.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::fault::{self, Fault};
use crate::injected_fault::{INJECTED_FAULTS, InjectedFault};
use crate::sim_world::SimWorld;
use crate::words::Words as _;

/// What a world can meet, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The verbs of its tables, each with the phase it leads to.
    pub pairs: Vec<String>,
    /// Its faults, the drivers' first.
    pub faults: Vec<String>,
    /// Which of them are not expected, and not counted.
    pub left_out: BTreeSet<String>,
    /// One injected fault of each verb is expected in so many seeds.
    pub runs_per_injected_fault: u64,
    /// One seed with each fault is expected in so many.
    pub runs_per_fault: u64,
}

impl Names {
    /// The names of a world.
    pub fn of<R: SimWorld>() -> Self {
        let faults = fault::names::<R::Fault>().into_iter().map(str::to_owned).collect();
        Self {
            pairs: R::pairs(),
            faults,
            left_out: BTreeSet::new(),
            runs_per_injected_fault: 1_000,
            runs_per_fault: 100,
        }
    }

    /// No world yet. Each of several worlds that share a seed comes to less than it does alone.
    pub const fn of_several() -> Self {
        Self {
            pairs: vec![],
            faults: vec![],
            left_out: BTreeSet::new(),
            runs_per_injected_fault: 10_000,
            runs_per_fault: 200,
        }
    }

    /// The names of another world beside these, each prefixed with its world.
    pub fn beside<R: SimWorld>(&mut self, left_out: &[&str]) {
        let Self { pairs, faults, .. } = Self::of::<R>();
        let named = |word: String| format!("{}: {word}", R::NAME);
        self.pairs.extend(pairs.into_iter().map(named));
        self.faults.extend(faults.into_iter().map(named));
        self.left_out.extend(left_out.iter().map(|word| named((*word).to_owned())));
    }
}

/// Counts over seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    injects: Vec<[u64; INJECTED_FAULTS]>,
    faults: Vec<bool>,
    runs_with: Vec<u64>,
    /// Verbs that no table has.
    pub unknown_pairs: u64,
    /// Steps that were taken.
    pub steps: u64,
    /// Verbs that were done.
    pub verbs: u64,
}

impl Coverage {
    /// Notes that an injected fault hit a verb, by its place in the table.
    pub fn injected(&mut self, pair: usize, injected: InjectedFault) {
        *at(&mut self.injects, pair).get_mut(injected as usize).unwrap_or(&mut 0) += 1;
    }

    /// Notes that a fault happened in this run.
    pub fn fault(&mut self, fault: impl Fault) {
        *at(&mut self.faults, fault.place()) = true;
    }

    /// Adds the counts of one seed.
    pub fn add(&mut self, counts: &Self) {
        for (pair, theirs) in counts.injects.iter().enumerate() {
            for (mine, theirs) in at(&mut self.injects, pair).iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        for (place, met) in counts.faults.iter().enumerate() {
            *at(&mut self.runs_with, place) += u64::from(*met);
        }
        self.unknown_pairs += counts.unknown_pairs;
        self.steps += counts.steps;
        self.verbs += counts.verbs;
    }

    /// Adds the sums of another run.
    pub fn merge(&mut self, other: &Self) {
        self.add(&Self { faults: vec![], ..other.clone() });
        for (place, theirs) in other.runs_with.iter().enumerate() {
            *at(&mut self.runs_with, place) += theirs;
        }
    }

    /// Puts the counts of one seed of another world beside these, whose names come first.
    pub fn beside(&mut self, names: &Names, counts: &Self) {
        at(&mut self.injects, names.pairs.len());
        self.injects.truncate(names.pairs.len());
        self.injects.extend(&counts.injects);
        at(&mut self.faults, names.faults.len());
        self.faults.truncate(names.faults.len());
        self.faults.extend(&counts.faults);
        self.unknown_pairs += counts.unknown_pairs;
        self.steps += counts.steps;
        self.verbs += counts.verbs;
    }

    /// What was met too rarely for a run of so many seeds.
    pub fn gaps(&self, names: &Names, runs: u64) -> Vec<String> {
        let mut gaps = Vec::new();
        let mut judge = |name: &String, what: String, count: u64, one_in: u64| {
            if count * one_in < runs && !names.left_out.contains(name) {
                gaps.push(what);
            }
        };
        for (place, pair) in names.pairs.iter().enumerate() {
            for (injected, count) in InjectedFault::ALL.iter().zip(self.injected_of(place)) {
                judge(
                    pair,
                    format!("{pair} {}: {count}", injected.as_str()),
                    count,
                    names.runs_per_injected_fault,
                );
            }
        }
        for (place, fault) in names.faults.iter().enumerate() {
            let count = self.runs_with(place);
            judge(fault, format!("{fault}: {count} seeds"), count, names.runs_per_fault);
        }
        if self.unknown_pairs > 0 {
            gaps.push(format!("{} verbs outside the table", self.unknown_pairs));
        }
        gaps
    }

    /// The coverage as a table for people.
    pub fn table(&self, names: &Names, runs: u64) -> String {
        let mut text = String::new();
        let head = "(phase, effect)";
        let _ = write!(text, "{head:<46}");
        for injected in InjectedFault::ALL {
            let _ = write!(text, "{:>14}", injected.as_str());
        }
        text.push('\n');
        let listed = |name: &&String| !names.left_out.contains(*name);
        for (place, pair) in names.pairs.iter().enumerate().filter(|it| listed(&it.1)) {
            let _ = write!(text, "{pair:<46}");
            for count in self.injected_of(place) {
                let _ = write!(text, "{count:>14}");
            }
            text.push('\n');
        }
        for (place, fault) in names.faults.iter().enumerate().filter(|it| listed(&it.1)) {
            let count = self.runs_with(place);
            let share = count * 1_000 / runs.max(1);
            let (whole, tenth) = (share / 10, share % 10);
            let _ = writeln!(text, "{fault:<48}{count:>10} seeds {whole:>3}.{tenth} %");
        }
        text
    }

    fn injected_of(&self, pair: usize) -> [u64; INJECTED_FAULTS] {
        self.injects.get(pair).copied().unwrap_or_default()
    }

    fn runs_with(&self, fault: usize) -> u64 {
        self.runs_with.get(fault).copied().unwrap_or_default()
    }
}

/// The item at a place, made if it is not there yet.
fn at<T: Clone + Default>(items: &mut Vec<T>, place: usize) -> &mut T {
    if items.len() <= place {
        items.resize(place + 1, T::default());
    }
    &mut items[place]
}
