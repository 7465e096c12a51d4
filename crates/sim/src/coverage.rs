//! What the lives of a run met: a run that met too little proves too little.

use usher_domain::broker::phase::Phase;
use usher_domain::broker::verdict::EffectKind;

use crate::fault::Fault;
use crate::plan::{PAIRS, Pair, Strike};

/// Counts over lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    strikes: [[u64; 4]; PAIRS.len()],
    faults: u64,
    lives_with: Vec<u64>,
    unknown_pairs: u64,
    /// Steps that were taken.
    pub steps: u64,
    /// Verbs that were done.
    pub verbs: u64,
}

impl Coverage {
    /// Notes that a strike hit a pair.
    pub fn strike(&mut self, pair: Pair, strike: Strike) {
        match PAIRS.iter().position(|it| *it == pair) {
            Some(at) => self.strikes[at][strike as usize] += 1,
            None => self.unknown_pairs += 1,
        }
    }

    /// Notes that a fault happened in this life.
    pub const fn fault(&mut self, fault: Fault) {
        self.faults |= 1 << fault as u64;
    }

    /// Adds the counts of one life.
    pub fn add(&mut self, life: &Self) {
        for (mine, theirs) in self.strikes.iter_mut().zip(life.strikes) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        self.lives_with.resize(Fault::ALL.len(), 0);
        for (i, count) in self.lives_with.iter_mut().enumerate() {
            *count += (life.faults >> i) & 1;
        }
        self.unknown_pairs += life.unknown_pairs;
        self.steps += life.steps;
        self.verbs += life.verbs;
    }

    /// Adds the sums of another run.
    pub fn merge(&mut self, other: &Self) {
        let sums = other.lives_with.clone();
        self.add(&Self { faults: 0, ..other.clone() });
        for (mine, theirs) in self.lives_with.iter_mut().zip(sums) {
            *mine += theirs;
        }
    }

    /// What was met too rarely for a run of so many lives.
    pub fn gaps(&self, lives: u64) -> Vec<String> {
        let mut gaps = Vec::new();
        for (pair, counts) in PAIRS.iter().zip(self.strikes) {
            for strike in Strike::ALL {
                let count = counts[strike as usize];
                if count * 1_000 < lives {
                    gaps.push(format!("{} {}: {count}", words(*pair), strike.as_str()));
                }
            }
        }
        for (fault, count) in Fault::ALL.iter().zip(&self.lives_with) {
            if count * 100 < lives {
                gaps.push(format!("{}: {count} lives", fault.as_str()));
            }
        }
        if self.unknown_pairs > 0 {
            gaps.push(format!("{} verbs outside the table", self.unknown_pairs));
        }
        gaps
    }

    /// The coverage as a table for people.
    pub fn table(&self, lives: u64) -> String {
        let mut text = String::new();
        let [a, b, c, d] = Strike::ALL.map(Strike::as_str);
        let head = "(phase, effect)";
        text.push_str(&format!("{head:<36}{a:>14}{b:>14}{c:>14}{d:>14}\n"));
        for (pair, [a, b, c, d]) in PAIRS.iter().zip(self.strikes) {
            text.push_str(&format!("{:<36}{a:>14}{b:>14}{c:>14}{d:>14}\n", words(*pair)));
        }
        for (fault, count) in Fault::ALL.iter().zip(&self.lives_with) {
            let share = count * 1_000 / lives.max(1);
            let (whole, tenth) = (share / 10, share % 10);
            text.push_str(&format!(
                "{:<48}{count:>10} lives {whole:>3}.{tenth} %\n",
                fault.as_str()
            ));
        }
        text
    }
}

fn words((phase, effect): (Phase, EffectKind)) -> String {
    format!("({phase}, {effect})")
}
