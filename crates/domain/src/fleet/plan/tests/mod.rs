mod laws;

use std::collections::BTreeMap;

use super::lot::{Place, Stage};
use super::*;
use crate::fleet::accept::{Raw, Report as Record, adopt};
use crate::fleet::aggregate::{CapacityType, Machine, Offer, Offering, State};
use crate::fleet::binding::Binding;
use crate::fleet::fixture::{NOW, cluster, dispute, raw, resource, shard, state};
use crate::fleet::phase::Phase;
use crate::fleet::quantity::Quantity;

/// A machine of this type in a phase; where it is bound, for a need of cluster `a`.
fn machine(kind: &str, phase: Phase) -> Machine {
    let price = match kind {
        "small" => 1.0,
        "spot" => 0.2,
        _ => 3.0,
    };
    let record = Raw {
        instance_type: kind.to_owned(),
        price_per_hour: price,
        capacity_type: if kind == "spot" { 4 } else { 3 },
        interruption_probability: if kind == "spot" { 0.1 } else { 0.0 },
        cluster: String::new(),
        shard_metadata: BTreeMap::new(),
        ..raw(Phase::Idle)
    };
    let idle = adopt(&Record::read(&record).unwrap(), "p", &shard(), NOW).unwrap().machine;
    let free = matches!(phase, Phase::Speculative | Phase::Idle);
    let target = if free { Target::Unbound } else { Target::Release };
    idle.changed(|it| it.state = state(phase)).aimed(Wanted::of(target))
}

/// A node that serves a need.
fn node(kind: &str, name: &str, need: &Need) -> Machine {
    let binding = Binding { cluster: cluster(name), assignment: need.assignment.clone() };
    let it = machine(kind, Phase::Idle);
    let host = it.state().host().unwrap().clone();
    let it = it.changed(|it| it.state = State::Configured { host, binding: binding.clone() });
    it.aimed(Wanted::of(Target::Bind(binding)))
}

/// A need for so many processors of any type; a machine has four.
fn need(priority: i32, cpu: u32) -> Need {
    need_of(priority, cpu, &[], 0)
}

fn need_of(priority: i32, cpu: u32, kinds: &[&str], bucket: i32) -> Need {
    let requirement = RawRequirement {
        key: "node.kubernetes.io/instance-type".to_owned(),
        operator: 1,
        values: kinds.iter().map(|it| (*it).to_owned()).collect(),
    };
    let requirements = if kinds.is_empty() { vec![] } else { vec![requirement] };
    let aggregate = BTreeMap::from([("cpu".to_owned(), cpu.to_string())]);
    let interruption_bucket = bucket;
    let raw =
        RawNeed { requirements, aggregate, priority, interruption_bucket, ..RawNeed::default() };
    Need::read(&raw).unwrap()
}

/// A store of rows with its index.
#[derive(Debug)]
struct Rows {
    rows: Vec<Machine>,
    fleet: Fleet,
}

impl Rows {
    fn new(rows: Vec<Machine>) -> Self {
        let mut fleet = Fleet::new(shard(), Windows::default());
        for (slot, it) in (0..).zip(&rows) {
            fleet.apply(Slot(slot), Some(it));
        }
        Self { rows, fleet }
    }

    fn hear(&mut self, name: &str, needs: Vec<Need>) -> Judged {
        self.fleet.hear(&cluster(name), needs.into_iter().map(Ok).collect())
    }

    fn plan(&self) -> Plan {
        plan(&self.fleet, &RUN)
    }

    /// Writes the aims into the rows.
    fn write(&mut self, plan: &Plan) {
        for aim in &plan.aims {
            let at = aim.slot.0 as usize;
            self.rows[at] = self.rows[at].aimed(self.fleet.wanted(aim, &self.rows[at]).unwrap());
        }
        for aim in &plan.aims {
            self.fleet.apply(aim.slot, self.rows.get(aim.slot.0 as usize));
        }
    }

    fn change(&mut self, slot: u32, machine: Machine) {
        self.fleet.apply(Slot(slot), Some(&machine));
        self.rows[slot as usize] = machine;
    }
}

const RUN: Circumstances = Circumstances {
    now: NOW,
    store_up: true,
    list_believed: true,
    switch: Switch::Run,
    config: PlanConfig { reclaim_percent: 5 },
};

fn slots(plan: &Plan, cause: Cause) -> Vec<u32> {
    plan.aims.iter().filter(|it| it.cause == cause).map(|it| it.slot.0).collect()
}

fn outcomes(plan: &Plan) -> Vec<Outcome> {
    plan.report.needs.iter().map(|it| it.outcome).collect()
}

// Requirement: F-28
#[test]
fn idle_machines_are_used_before_new_ones_and_cheap_ones_first() {
    let kinds = [
        ("large", Phase::Speculative),
        ("small", Phase::Speculative),
        ("large", Phase::Idle),
        ("small", Phase::Idle),
    ];
    let mut rows = Rows::new(kinds.map(|(kind, phase)| machine(kind, phase)).to_vec());
    rows.hear("a", vec![need(1, 12)]);
    let plan = rows.plan();
    assert_eq!(slots(&plan, Cause::Assign), [3, 2, 1]);
    assert_eq!(outcomes(&plan), [Outcome::Assigned]);
}

// Requirement: F-28
#[test]
fn a_need_that_suffers_from_interruptions_pays_for_them() {
    let of = |bucket| {
        let machines = vec![machine("spot", Phase::Idle), machine("small", Phase::Idle)];
        let mut rows = Rows::new(machines);
        rows.hear("a", vec![need_of(1, 4, &[], bucket)]);
        slots(&rows.plan(), Cause::Assign)
    };
    assert_eq!(of(1), [0], "0.20 $ is less than 1.00 $");
    assert_eq!(of(7), [1], "0.20 $ + 0.1 × 16 $ is not");
}

// Requirement: F-28
#[test]
fn the_need_of_higher_priority_is_served_first() {
    let mut rows = Rows::new(vec![machine("small", Phase::Idle)]);
    rows.hear("a", vec![need(1, 4)]);
    rows.hear("b", vec![need(2, 4)]);
    let plan = rows.plan();
    let wanted = rows.fleet.wanted(&plan.aims[0], &rows.rows[0]).unwrap();
    assert_eq!(wanted.cluster(), Some(&cluster("b")));
    assert_eq!(outcomes(&plan), [Outcome::NoCapacity, Outcome::Assigned]);
}

// Requirement: F-24
#[test]
fn every_machine_in_transit_counts() {
    let mut rows = Rows::new(vec![machine("small", Phase::Speculative); 8]);
    rows.hear("a", vec![need(1, 8)]);
    let first = rows.plan();
    assert_eq!(first.aims.len(), 2);
    rows.write(&first);
    for phase in [Phase::Speculative, Phase::Creating, Phase::Idle] {
        let plan = rows.plan();
        assert_eq!((plan.aims.len(), outcomes(&plan)), (0, vec![Outcome::InFlight]), "{phase}");
        for slot in 0..2 {
            let next = rows.rows[slot].changed(|it| it.state = state(phase));
            rows.change(u32::try_from(slot).unwrap(), next);
        }
    }
}

// Requirement: F-25
#[test]
fn a_victim_still_being_drained_counts_for_the_need_that_took_it() {
    let (low, high) = (need(100, 12), need(1_000_000, 8));
    let mut rows = Rows::new(vec![node("small", "a", &low); 3]);
    rows.hear("a", vec![low]);
    rows.hear("b", vec![high]);
    let first = rows.plan();
    assert_eq!(slots(&first, Cause::Preempt).len(), 2, "as many as are lacking");
    assert!(first.aims.iter().all(|it| it.grace.as_secs() == 10), "the gap is wide");
    rows.write(&first);
    for it in first.aims {
        let row = rows.rows[it.slot.0 as usize].clone();
        let (host, binding) =
            (row.state().host().unwrap().clone(), row.state().binding().unwrap().clone());
        rows.change(it.slot.0, row.changed(|it| it.state = State::Draining { host, binding }));
    }
    let again = rows.plan();
    assert_eq!(again.aims, [], "no other is taken while they are drained");
    assert_eq!(outcomes(&again), [Outcome::NoCapacity, Outcome::InFlight]);
}

// Requirement: F-26
#[test]
fn a_victim_that_is_not_needed_after_all_stays_where_it_is() {
    let (low, high) = (need(100, 8), need(1_000_000, 8));
    let mut rows = Rows::new(vec![node("small", "a", &low); 2]);
    rows.hear("a", vec![low]);
    rows.hear("b", vec![high]);
    let first = rows.plan();
    rows.write(&first);
    let leaving = rows.rows[0].clone();
    let (host, binding) =
        (leaving.state().host().unwrap().clone(), leaving.state().binding().unwrap().clone());
    rows.change(0, leaving.changed(|it| it.state = State::Draining { host, binding }));
    rows.hear("b", vec![]);
    let again = rows.plan();
    assert_eq!(slots(&again, Cause::Return).len(), 2);
    rows.write(&again);
    assert_eq!(rows.rows[0].wanted().target, Target::Unbound, "it is being drained already");
    assert_eq!(rows.rows[1].wanted().cluster(), Some(&cluster("a")));
}

// Requirement: F-27
#[test]
fn only_needs_of_lower_priority_lose_machines() {
    let low = need(100, 4);
    for (priority, outcome) in [(100, Outcome::NoCapacity), (101, Outcome::Preempting)] {
        let mut rows = Rows::new(vec![node("small", "a", &low)]);
        rows.hear("a", vec![low.clone()]);
        rows.hear("b", vec![need(priority, 4)]);
        assert_eq!(outcomes(&rows.plan()), [Outcome::Satisfied, outcome]);
    }
    let lowest = need(i32::MIN, 4);
    let mut rows = Rows::new(vec![node("small", "a", &lowest)]);
    rows.hear("b", vec![need(i32::MAX, 4)]);
    let plan = rows.plan();
    assert_eq!(plan.aims[0].grace.as_secs(), 10, "the widest gap there is does not wrap");
}

// Requirement: F-27
#[test]
fn what_no_need_claims_is_taken_before_what_one_uses() {
    let low = need(100, 4);
    let machines = ["small", "tall"].map(|it| node(it, "a", &low)).to_vec();
    let mut rows = Rows::new(machines);
    rows.hear("a", vec![low.clone()]);
    rows.hear("b", vec![need(1_000_000, 4)]);
    let plan = rows.plan();
    assert_eq!(slots(&plan, Cause::Preempt), [1], "the cheap one is in use");
    assert_eq!(slots(&plan, Cause::Reclaim), [0_u32; 0]);
    let lowest = need(1, 4);
    let mut rows = Rows::new(vec![node("small", "c", &lowest), node("small", "a", &low)]);
    rows.hear("c", vec![lowest]);
    rows.hear("a", vec![]);
    rows.hear("b", vec![need(1_000_000, 4)]);
    assert_eq!(slots(&rows.plan(), Cause::Preempt), [1], "whatever its priority");
}

// Requirement: F-27
#[test]
fn nothing_counts_as_unclaimed_in_an_untrusted_cluster() {
    let (lowest, low) = (need(1, 4), need(100, 4));
    let mut rows = Rows::new(vec![node("small", "c", &lowest), node("small", "a", &low)]);
    rows.hear("c", vec![lowest]);
    rows.hear("b", vec![need(1_000_000, 4)]);
    assert_eq!(slots(&rows.plan(), Cause::Preempt), [0], "it is not known what cluster a uses");
}

// Requirement: F-30
#[test]
fn every_machine_still_being_drained_counts_against_the_cap() {
    let one = need(1, 4);
    let mut rows = Rows::new(vec![node("small", "a", &one); 40]);
    rows.hear("a", vec![]);
    let first = rows.plan();
    rows.write(&first);
    let leaving = slots(&first, Cause::Reclaim);
    assert_eq!(leaving.len(), 2, "five percent of forty");
    let held_back = |rows: &Rows| {
        let plan = rows.plan();
        (slots(&plan, Cause::Reclaim).len(), plan.report.clusters[0].held_back)
    };
    assert_eq!(held_back(&rows), (0, Some(HeldBack::ReclaimCap)), "before the drain begins");
    for slot in &leaving {
        let row = rows.rows[*slot as usize].clone();
        let (host, binding) =
            (row.state().host().unwrap().clone(), row.state().binding().unwrap().clone());
        rows.change(*slot, row.changed(|it| it.state = State::Draining { host, binding }));
    }
    assert_eq!(held_back(&rows), (0, Some(HeldBack::ReclaimCap)), "and while it runs");
    for slot in leaving {
        let row = rows.rows[slot as usize].changed(|it| it.state = state(Phase::Idle));
        rows.change(slot, row);
    }
    assert_eq!(held_back(&rows), (1, Some(HeldBack::ReclaimCap)), "five percent of 38");
}

// Requirement: F-30
#[test]
fn surplus_is_reclaimed_dearest_first_and_few_at_a_time() {
    let one = need(1, 4);
    let mut machines = vec![node("small", "a", &one); 30];
    machines.extend(vec![node("large", "a", &one); 10]);
    let mut rows = Rows::new(machines);
    rows.hear("a", vec![need(1, 4)]);
    let plan = rows.plan();
    let reclaimed = slots(&plan, Cause::Reclaim);
    assert_eq!(reclaimed.len(), 2, "five percent of forty");
    assert!(reclaimed.iter().all(|it| *it >= 30), "the dear ones: {reclaimed:?}");
    let report = &plan.report.clusters[0];
    let reported = (report.surplus, report.reclaimed, report.held_back);
    assert_eq!(reported, (39, 2, Some(HeldBack::ReclaimCap)));
    assert_eq!(
        [0, 19, 20, 39, 40, 1_000].map(|it| RUN.config.reclaim_cap(it)),
        [1, 1, 1, 1, 2, 50]
    );
}

// Requirement: F-19, F-31
#[test]
fn nothing_is_reclaimed_from_an_untrusted_cluster() {
    let one = need(1, 4);
    let nodes = || Rows::new(vec![node("small", "a", &one); 40]);
    let held_back = |rows: &Rows, at: Circumstances| {
        let plan = plan(&rows.fleet, &at);
        assert_eq!(slots(&plan, Cause::Reclaim), [0_u32; 0]);
        plan.report.clusters[0].held_back
    };
    let unanswered = nodes();
    assert_eq!(held_back(&unanswered, RUN), Some(HeldBack::FirstRollUp));
    let mut fallen = nodes();
    fallen.hear("a", (0..40).map(|it| need(it, 4)).collect());
    assert_eq!(fallen.hear("a", vec![]), Judged::Held);
    assert_eq!(held_back(&fallen, RUN), Some(HeldBack::RollUpQuarantined));
    let mut unread = nodes();
    unread.fleet.hear(&cluster("a"), vec![Err(crate::fleet::refusal::Refusal::NeedEmpty)]);
    assert_eq!(held_back(&unread, RUN), Some(HeldBack::UnreadNeeds));
    let mut cut = nodes();
    cut.hear("a", vec![]);
    let at = Circumstances { list_believed: false, ..RUN };
    assert_eq!(held_back(&cut, at), Some(HeldBack::ListQuarantined));
}

// Requirement: F-33
#[test]
fn what_holds_all_back_suppresses_the_aims_and_not_the_report() {
    let mut rows = Rows::new(vec![machine("small", Phase::Idle)]);
    rows.hear("a", vec![need(1, 4)]);
    let cases = [
        (Circumstances { store_up: false, ..RUN }, HeldBack::StoreDown),
        (Circumstances { switch: Switch::Paused, ..RUN }, HeldBack::Paused),
        (Circumstances { switch: Switch::DryRun, ..RUN }, HeldBack::DryRun),
    ];
    let run = rows.plan();
    for (at, held_back) in cases {
        let held = plan(&rows.fleet, &at);
        assert_eq!((held.aims.len(), held.report.aims), (0, 1), "{held_back}");
        assert_eq!(held.report.held_back, [held_back]);
        assert_eq!(held.report.needs, run.report.needs);
    }
}

// Requirement: F-32
#[test]
fn a_machine_idle_beyond_its_window_is_given_back() {
    let kinds = ["small", "spot", "small", "spot"];
    let mut machines = kinds.map(|it| machine(it, Phase::Idle)).to_vec();
    let offer = machines[2].fields().offer.known().unwrap().clone();
    let reserved = Offering::Read(Offer { capacity: CapacityType::Reserved, ..offer });
    machines[2] = machines[2].changed(|it| it.offer = reserved);
    let mut rows = Rows::new(machines);
    let at = |seconds| {
        let now = NOW.after(Duration::from_secs(seconds));
        slots(&plan(&rows.fleet, &Circumstances { now, ..RUN }), Cause::Release)
    };
    assert_eq!(at(59), [0_u32; 0]);
    assert_eq!(at(60), [1, 3]);
    assert_eq!(at(600), [1, 3, 0], "and what is reserved is kept");
    rows.hear("a", vec![need_of(1, 4, &["spot"], 0)]);
    let now = NOW.after(Duration::from_mins(10));
    let plan = plan(&rows.fleet, &Circumstances { now, ..RUN });
    assert_eq!(slots(&plan, Cause::Assign).len(), 1);
    assert_eq!(slots(&plan, Cause::Release).len(), 2, "what is needed is not given back");
}

// Requirement: F-46
#[test]
fn a_machine_whose_offer_cannot_be_read_is_given_back() {
    let one = need(1, 4);
    let kept = |it: &Machine| it.changed(|it| it.offer = it.offer.after(None));
    let unread = |it: &Machine| it.changed(|it| it.offer = Offering::Unread);
    let idle = machine("small", Phase::Idle);
    let speculative = machine("small", Phase::Speculative);
    let mut rows = Rows::new(vec![kept(&idle), unread(&idle), kept(&speculative)]);
    rows.hear("a", vec![one.clone()]);
    assert_eq!(rows.plan().aims, []);
    let now = NOW.after(Duration::from_mins(10));
    let late = plan(&rows.fleet, &Circumstances { now, ..RUN });
    assert_eq!(slots(&late, Cause::Release), [0, 1]);
    rows.change(0, idle);
    assert_eq!(slots(&rows.plan(), Cause::Assign), [0], "it can be read again");
    let node = node("small", "a", &one);
    for bend in [kept, unread] {
        let mut rows = Rows::new(vec![bend(&node)]);
        rows.hear("a", vec![one.clone()]);
        rows.hear("b", vec![need(9, 4)]);
        assert_eq!(rows.plan().aims, [], "it stays while its need is there, and is no victim");
        rows.hear("a", vec![]);
        assert_eq!(slots(&rows.plan(), Cause::Reclaim), [0], "and is drained when it is not");
    }
    let mut rows = Rows::new(vec![kept(&node)]);
    rows.hear("a", vec![one]);
    assert_eq!(outcomes(&rows.plan()), [Outcome::Satisfied], "it counts as it was last read");
}

// Requirement: F-21, F-22
#[test]
fn a_machine_claimed_by_another_is_not_seen() {
    let low = need(1, 4);
    let held = node("small", "a", &low).changed(|it| it.holder = Some(resource(1)));
    let disputed = node("small", "a", &low).changed(|it| it.disputed = Some(dispute("x")));
    let foreign = node("small", "a", &low).changed(|it| it.owner = "shard-9".parse().unwrap());
    let failed = node("small", "a", &low).changed(|it| it.state = state(Phase::Failed));
    let mut rows = Rows::new(vec![held, disputed, foreign, failed]);
    rows.hear("a", vec![]);
    rows.hear("b", vec![need(9, 4)]);
    assert_eq!((rows.plan().aims, rows.fleet.machines()), (vec![], 0));
}

// Requirement: F-29
#[test]
fn a_need_that_no_machine_can_serve_is_reported() {
    let mut rows = Rows::new(vec![machine("small", Phase::Idle)]);
    rows.hear("a", vec![need_of(1, 4, &["huge"], 0)]);
    assert_eq!(outcomes(&rows.plan()), [Outcome::NoSuchMachine]);
}

// Requirement: F-29
#[test]
fn a_machine_without_the_resource_that_is_lacking_is_not_taken() {
    let mut rows = Rows::new(vec![machine("small", Phase::Idle)]);
    let aggregate = BTreeMap::from([("gpu".to_owned(), "1".to_owned())]);
    rows.hear("a", vec![Need::read(&RawNeed { aggregate, ..RawNeed::default() }).unwrap()]);
    assert_eq!((rows.plan().aims.len(), outcomes(&rows.plan())), (0, vec![Outcome::NoCapacity]));
}
