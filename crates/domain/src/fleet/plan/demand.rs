//! When a roll-up counts: not before the first, and not at once when it suddenly shrinks.

use serde::{Deserialize, Serialize};

use super::index::Fleet;
use super::lot::Candidates;
use super::need::{Need, RawNeed};
use crate::fleet::ident::ClusterId;
use crate::fleet::refusal::Refusal;
use crate::object::closed::closed_set;

/// A roll-up is held if it keeps less than one in so many rows of the one before...
const SHRINK: usize = 10;
/// ...which had at least so many...
const ROWS_MIN: usize = 10;
/// ...until so many in a row have the same number of rows.
const CONFIRMATIONS: u8 = 3;

/// The most needs of one cluster.
pub const NEEDS_MAX: usize = 4_096;

closed_set! {
    /// What became of a roll-up.
    "judged" Judged {
        /// It is the demand from now on.
        Accepted = "Accepted",
        /// It shrinks too much to count alone; the demand stays as it was.
        Held = "Held",
    }
}

/// How far the roll-ups of one cluster count. It is kept with the demand, so that a
/// roll-up is judged once, however often it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The rows of the last one that was accepted; none before the first.
    rows: Option<usize>,
    /// The rows of the last one that was held, and how many like it were in a row.
    held: Option<(usize, u8)>,
}

/// Checks a roll-up that a person types: each of its needs can be read, or the first that cannot is
/// refused by name.
pub fn check_needs(needs: &[RawNeed]) -> Result<(), Refusal> {
    let (count, max) = (needs.len(), NEEDS_MAX);
    if count > max {
        return Err(Refusal::DemandTooLong { count, max });
    }
    needs.iter().try_for_each(|it| Need::read(it).map(drop))
}

impl Trust {
    /// Judges a roll-up of so many rows.
    pub fn hear(&mut self, rows: usize) -> Judged {
        let baseline = self.rows.unwrap_or(0);
        let shrinks = baseline >= ROWS_MIN && rows * SHRINK < baseline;
        let alike = self.held.filter(|it| it.0 == rows).map_or(1, |it| it.1 + 1);
        if shrinks && alike < CONFIRMATIONS {
            self.held = Some((rows, alike));
            return Judged::Held;
        }
        *self = Self { rows: Some(rows), held: None };
        Judged::Accepted
    }

    /// Whether a roll-up was ever received.
    pub const fn is_answered(self) -> bool {
        self.rows.is_some()
    }

    /// Whether the last roll-up waits for others that say the same.
    pub const fn is_held(self) -> bool {
        self.held.is_some()
    }
}

impl Fleet {
    /// Receives a roll-up, which replaces the one before. A need that cannot be read is kept as
    /// such: machines that may serve it are not surplus.
    pub fn hear(&mut self, cluster: &ClusterId, rows: Vec<Result<Need, Refusal>>) -> Judged {
        let number = self.cluster(cluster);
        let Some(entry) = self.by_cluster.get_mut(number as usize) else { return Judged::Held };
        let mut trust = entry.trust;
        let reading = trust.hear(rows.len());
        match reading {
            Judged::Held => entry.trust = trust,
            Judged::Accepted => self.believe(cluster, rows, trust),
        }
        reading
    }

    /// Takes over a demand that was judged when it was received, with what was judged.
    pub fn believe(&mut self, cluster: &ClusterId, rows: Vec<Result<Need, Refusal>>, trust: Trust) {
        let number = self.cluster(cluster);
        let Some(entry) = self.by_cluster.get_mut(number as usize) else { return };
        entry.trust = trust;
        let old = std::mem::take(&mut entry.needs);
        let mut needs = Vec::with_capacity(rows.len());
        let mut unread = vec![];
        for row in rows {
            match row {
                Ok(need) => needs.push(self.wanting(cluster, &need)),
                Err(refusal) => unread.push(refusal),
            }
        }
        needs.sort_by_key(|it| std::cmp::Reverse(it.priority));
        if let Some(entry) = self.by_cluster.get_mut(number as usize) {
            entry.needs = needs;
            entry.unread = unread;
        }
        for it in old {
            self.release_tie(it.tie);
            if self.profiles.give_back(it.profile) {
                self.candidates[it.profile as usize] = Candidates::default();
            }
        }
    }

    /// Whether a roll-up of a cluster was received since this index was made.
    pub fn hears(&self, cluster: &ClusterId) -> bool {
        let entry = self.clusters.get(cluster).and_then(|it| self.by_cluster.get(*it as usize));
        entry.is_some_and(|it| it.trust.is_answered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(rows: &[usize]) -> Vec<Judged> {
        let mut trust = Trust::default();
        rows.iter().map(|it| trust.hear(*it)).collect()
    }

    // Requirement: F-31
    #[test]
    fn a_sudden_fall_needs_three_that_say_the_same() {
        use Judged::{Accepted, Held};
        assert_eq!(reading(&[10, 0, 0, 0, 0]), [Accepted, Held, Held, Accepted, Accepted]);
        assert_eq!(
            reading(&[100, 9, 9, 10]),
            [Accepted, Held, Held, Accepted],
            "a tenth is enough"
        );
        assert_eq!(reading(&[9, 0]), [Accepted, Accepted], "few rows may vanish");
        assert_eq!(reading(&[20, 1, 20, 1, 1]), [Accepted, Held, Accepted, Held, Held]);
        let unequal = reading(&[100, 9, 5, 0, 0, 0]);
        assert_eq!(
            unequal,
            [Accepted, Held, Held, Held, Held, Accepted],
            "three falls are not one"
        );
        assert_eq!(reading(&[0]), [Accepted], "an empty first one is received, too");
    }

    // Requirement: F-31
    #[test]
    fn silence_is_not_demand_for_nothing() {
        assert!(!Trust::default().is_answered());
        let mut trust = Trust::default();
        trust.hear(30);
        trust.hear(1);
        assert!(trust.is_answered() && trust.is_held());
    }

    fn cpus(count: &str) -> RawNeed {
        let aggregate = [("cpu".to_owned(), count.to_owned())].into();
        RawNeed { aggregate, ..RawNeed::default() }
    }

    // Requirement: F-54
    #[test]
    fn the_first_need_that_cannot_be_read_is_refused_by_name() {
        assert_eq!(check_needs(&[]), Ok(()));
        let refused = check_needs(&[cpus("1"), cpus("much"), RawNeed::default()]).unwrap_err();
        assert_eq!(refused, Refusal::Quantity("much".to_owned()));
        let many = vec![cpus("1"); NEEDS_MAX + 1];
        assert_eq!(check_needs(&many[1..]), Ok(()));
        assert_eq!(check_needs(&many).unwrap_err().code(), "demand_too_long");
    }

    /// Red by: a demand that is judged again by each reader.
    // Requirement: F-53
    #[test]
    fn what_was_judged_elsewhere_is_taken_over_with_the_judgement() {
        use crate::fleet::plan::{Circumstances, HeldBack, PlanConfig, Switch, Windows, plan};
        let owner = "s".parse().unwrap();
        let cluster: ClusterId = "a".parse().unwrap();
        let rows = |count: usize| (0..count).map(|_| Need::read(&cpus("1"))).collect::<Vec<_>>();
        let held_back = |fleet: &Fleet| {
            let at = Circumstances {
                now: usher_kernel::Timestamp::from_millis(1),
                store_up: true,
                list_believed: true,
                switch: Switch::Run,
                config: PlanConfig::default(),
            };
            let report = plan(fleet, &at).report;
            (report.needs.len(), report.clusters[0].held_back)
        };
        let mut fleet = Fleet::new(owner, Windows::default());
        let mut trust = Trust::default();
        trust.hear(20);
        fleet.believe(&cluster, rows(20), trust);
        assert_eq!((fleet.hears(&cluster), held_back(&fleet)), (true, (20, None)));
        trust.hear(1);
        fleet.believe(&cluster, rows(20), trust);
        assert_eq!(held_back(&fleet), (20, Some(HeldBack::RollUpQuarantined)));
        trust.hear(1);
        trust.hear(1);
        fleet.believe(&cluster, rows(1), trust);
        assert_eq!(held_back(&fleet), (1, None), "it was said three times");
    }
}
