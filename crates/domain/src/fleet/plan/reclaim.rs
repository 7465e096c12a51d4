//! Surplus: machines that no need asks for are drained, the dearest first and few at a time;
//! machines that are idle for too long are given back.

use usher_kernel::Timestamp;

use super::cycle::{Cycle, GRACE, stage};
use super::lot::{Cluster, Stage};
use super::report::{ClusterReport, HeldBack};
use super::{Aim, Cause, Goal, PlanConfig};

impl Cycle<'_> {
    /// Reclaims the surplus of every cluster, as far as nothing holds it back.
    pub(super) fn reclaim(&mut self, believed: bool, config: PlanConfig) -> Vec<ClusterReport> {
        let fleet = self.fleet;
        fleet.by_cluster.iter().map(|it| self.reclaim_from(it, believed, config)).collect()
    }

    fn reclaim_from(
        &mut self,
        cluster: &Cluster,
        believed: bool,
        config: PlanConfig,
    ) -> ClusterReport {
        let fleet = self.fleet;
        let mut nodes = 0_u32;
        let (mut surplus, mut coming) = (Vec::new(), Vec::new());
        for lot in cluster.ties.iter().flat_map(|it| &fleet.ties[*it as usize].lots) {
            let stage = stage(fleet.lots[*lot as usize].place);
            let len = u32::try_from(fleet.lots[*lot as usize].machines.len()).unwrap_or(u32::MAX);
            nodes = nodes.saturating_add(if stage == Some(Stage::Configured) { len } else { 0 });
            match (self.left(*lot), stage) {
                (0, _) | (_, None) => {}
                (_, Some(Stage::Coming)) => coming.push(*lot),
                (_, Some(Stage::Configured | Stage::Joining)) => surplus.push(*lot),
            }
        }
        let count = surplus.iter().map(|it| self.left(*it)).fold(0, u32::saturating_add);
        let mut report = ClusterReport {
            cluster: cluster.id.clone(),
            surplus: count,
            reclaimed: 0,
            held_back: gate(cluster, believed),
            refused: cluster.unread.clone(),
        };
        if report.held_back.is_some() {
            return report;
        }
        surplus.sort_by(|one, other| self.keep_command(*other, *one));
        let all = nodes.saturating_add(cluster.leaving);
        let cap = config.reclaim_cap(all).saturating_sub(cluster.leaving);
        for lot in surplus {
            let take = self.left(lot).min(cap - report.reclaimed);
            self.aim_back(lot, take, (Goal::Unbound, GRACE), Cause::Reclaim);
            report.reclaimed += take;
        }
        if report.reclaimed < count {
            report.held_back = Some(HeldBack::ReclaimCap);
        }
        for lot in coming {
            // Nothing of this cluster runs on what has not arrived: it need not be spared. What is
            // still a node of another cluster stays there.
            let left = self.left(lot);
            self.aim_back(lot, left, (Goal::Return, GRACE), Cause::Return);
        }
        report
    }

    /// Gives back machines that were idle beyond their window and were not claimed by this very
    /// cycle.
    pub(super) fn release(&mut self, now: Timestamp) {
        let due: Vec<_> = self.fleet.due(now).collect();
        for (slot, lot, position) in due {
            if position >= self.claimed[lot as usize] {
                let (goal, grace, cause) = (Goal::Release, GRACE, Cause::Release);
                self.aims.push(Aim { slot, goal, grace, cause });
            }
        }
    }
}

/// What holds back reclaiming from a cluster.
pub(super) fn gate(cluster: &Cluster, believed: bool) -> Option<HeldBack> {
    if !believed {
        Some(HeldBack::ListQuarantined)
    } else if !cluster.trust.is_answered() {
        Some(HeldBack::FirstRollUp)
    } else if cluster.trust.is_held() {
        Some(HeldBack::RollUpQuarantined)
    } else if !cluster.unread.is_empty() {
        Some(HeldBack::UnreadNeeds)
    } else {
        None
    }
}
