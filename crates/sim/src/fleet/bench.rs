//! How fast plans over a large fleet are, on this machine.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use usher_domain::fleet::accept::{Raw, Report, adopt};
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::binding::Assignment;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::plan::{
    Circumstances, Fleet, Need, Plan, PlanConfig, RawNeed, RawRequirement, Slot, Switch, Windows,
    plan,
};
use usher_kernel::Timestamp;

/// How many machines there are.
const MACHINES: u32 = 500_000;
/// How many clusters there are.
const CLUSTERS: u32 = 50;
/// How many needs each cluster has, where it has many.
const NEEDS: u32 = 1_000;
/// How many machines each of many needs asks for.
const EACH: u32 = 5;
/// How many cycles are measured; the second slowest of a hundred is the 99th percentile.
const CYCLES: usize = 200;
/// How many machines change between two cycles, where some do.
const CHANGES: u32 = 1_000;
/// The bucket of a penalty of 8,192 $.
const BUCKET: i32 = 16;
const NOW: Timestamp = Timestamp::from_millis(10_000);

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = format!(
        "plans over {MACHINES} machines; exact quantiles over so many cycles\n\
         bytes per machine: capacities of the index's tables and the texts they share, with nodes \
         of trees at two thirds full\n\
         {:<48}{:>8}{:>10}{:>10}{:>10}{:>10}{:>7}\n",
        "what", "cycles", "aims", "p50 ms", "p99 ms", "max ms", "bytes"
    );
    first(&mut text);
    steady(&mut text);
    inversions(&mut text);
    surplus(&mut text);
    text
}

/// All machines idle, and everybody asks for the first time.
fn first(text: &mut String) {
    let mut fleet = empty();
    for slot in 0..MACHINES {
        fleet.apply(Slot(slot), machine(slot, None).as_ref());
    }
    hear_many(&mut fleet);
    measure(text, "first: all idle, 50 x 1000 needs of 5 machines", &mut fleet, 20, |_, _| ());
}

/// Half of the machines serve, and nothing is lacking; then a little changes before every cycle.
fn steady(text: &mut String) {
    let mut fleet = empty();
    let serving = CLUSTERS * NEEDS * EACH;
    for slot in 0..serving {
        let (cluster, need) = (slot % CLUSTERS, slot / CLUSTERS % NEEDS);
        let served = Some((cluster, assignment(&many(need))));
        fleet.apply(Slot(slot), machine_at(slot, need, served, 1.0).as_ref());
    }
    for slot in serving..MACHINES {
        fleet.apply(Slot(slot), machine(slot, None).as_ref());
    }
    hear_many(&mut fleet);
    measure(text, "steady: 50 x 1000 needs, met", &mut fleet, CYCLES, |_, _| ());
    let change = |fleet: &mut Fleet, cycle: u32| {
        for it in 0..CHANGES {
            let slot = serving + (cycle * CHANGES + it) % (MACHINES - serving);
            let price = 1.0 + f64::from(cycle % 2) / 10.0;
            fleet.apply(Slot(slot), machine_at(slot, slot, None, price).as_ref());
        }
    };
    measure(text, "steady, 1000 machines changed per cycle", &mut fleet, CYCLES, change);
}

/// Every machine serves a need of low priority; a hundred of high priority lack five machines each.
fn inversions(text: &mut String) {
    let mut fleet = empty();
    let low = assignment(&raw_need(100, 1, vec![]));
    for slot in 0..MACHINES {
        let served = Some((slot % CLUSTERS, low.clone()));
        fleet.apply(Slot(slot), machine(slot, served).as_ref());
    }
    let needs = MACHINES / CLUSTERS;
    for cluster in 0..CLUSTERS {
        let mut rows = vec![Need::read(&raw_need(100, needs, vec![]))];
        rows.extend((0..2).map(|it| Need::read(&raw_need(1_000_000 + it, EACH, vec![]))));
        fleet.hear(&name(cluster), rows);
    }
    measure(text, "inversions: prio 100 vs 100 needs of 1M", &mut fleet, CYCLES, |_, _| ());
}

/// Every machine serves one of three profiles, and half of the demand is gone.
fn surplus(text: &mut String) {
    let mut fleet = empty();
    for slot in 0..MACHINES {
        let profile = i32::try_from(slot / CLUSTERS % 3).unwrap_or(0);
        let served = Some((slot % CLUSTERS, assignment(&raw_need(1_000 + profile, 1, vec![]))));
        fleet.apply(Slot(slot), machine(slot, served).as_ref());
    }
    for cluster in 0..CLUSTERS {
        let half = MACHINES / CLUSTERS / 6;
        let rows = (0..3).map(|it| Need::read(&raw_need(1_000 + it, half, vec![])));
        fleet.hear(&name(cluster), rows.collect());
    }
    measure(text, "surplus: 3 profiles, half of them unneeded", &mut fleet, CYCLES, |_, _| ());
}

/// Plans again and again over the same index; `change` happens before each and is counted.
fn measure(
    text: &mut String,
    what: &str,
    fleet: &mut Fleet,
    cycles: usize,
    change: impl Fn(&mut Fleet, u32),
) {
    let at = Circumstances {
        now: NOW,
        store_up: true,
        list_believed: true,
        switch: Switch::Run,
        config: PlanConfig::default(),
    };
    let mut took: Vec<Duration> = Vec::with_capacity(cycles);
    let mut aims = 0;
    for cycle in (0..).take(cycles) {
        let began = Instant::now();
        change(fleet, cycle);
        let made: Plan = plan(black_box(fleet), &at);
        took.push(began.elapsed());
        aims = black_box(made).aims.len();
    }
    took.sort_unstable();
    let quantile = |percent: usize| {
        let at = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(at).map_or(0.0, |it| it.as_secs_f64() * 1e3)
    };
    let bytes = fleet.bytes() / fleet.machines().max(1);
    let (p50, p99, max) = (quantile(50), quantile(99), quantile(100));
    let _ = writeln!(
        text,
        "{what:<48}{cycles:>8}{aims:>10}{p50:>10.3}{p99:>10.3}{max:>10.3}{bytes:>7}"
    );
}

fn empty() -> Fleet {
    let owner: ShardId =
        "shard-0".parse().unwrap_or_else(|_| unreachable!("a fixed and valid name"));
    Fleet::new(owner, Windows::default())
}

fn name(cluster: u32) -> ClusterId {
    format!("c{cluster}").parse().unwrap_or_else(|_| unreachable!("a fixed and valid name"))
}

fn hear_many(fleet: &mut Fleet) {
    for cluster in 0..CLUSTERS {
        let rows = (0..NEEDS).map(|it| Need::read(&many(it)));
        fleet.hear(&name(cluster), rows.collect());
    }
}

/// One of many needs: its priority between 1,000 and 10,000, for one type in one zone.
fn many(need: u32) -> RawNeed {
    let requirement = |key: &str, value: String| RawRequirement {
        key: key.to_owned(),
        operator: 1,
        values: vec![value],
    };
    let requirements = vec![
        requirement("node.kubernetes.io/instance-type", format!("type-{}", need % 5)),
        requirement("topology.kubernetes.io/zone", format!("zone-{}", need % 15 / 5)),
    ];
    let priority = 1_000 + i32::try_from(need * 9).unwrap_or(0);
    raw_need(priority, EACH, requirements)
}

fn raw_need(priority: i32, machines: u32, requirements: Vec<RawRequirement>) -> RawNeed {
    RawNeed {
        requirements,
        aggregate: [("cpu".to_owned(), (machines * 4).to_string())].into(),
        min_unit: [("cpu".to_owned(), "1".to_owned())].into(),
        priority,
        interruption_bucket: BUCKET,
        reclamation_bucket: BUCKET,
        ..RawNeed::default()
    }
}

fn assignment(raw: &RawNeed) -> Assignment {
    Need::read(raw).map(|it| it.assignment).unwrap_or_default()
}

fn machine(slot: u32, served: Option<(u32, Assignment)>) -> Option<Machine> {
    machine_at(slot, slot, served, 1.0)
}

/// A machine of one of five types in one of three zones, idle or a node.
fn machine_at(
    slot: u32,
    shape: u32,
    served: Option<(u32, Assignment)>,
    price: f64,
) -> Option<Machine> {
    let metadata = served.as_ref().map(|it| it.1.encode()).unwrap_or_default();
    let raw = Raw {
        id: format!("m{slot}"),
        state: if served.is_some() { 5 } else { 3 },
        host: Some(("p".to_owned(), format!("h{slot}"))),
        instance_type: format!("type-{}", shape % 5),
        zone: format!("zone-{}", shape % 15 / 5),
        capacity_type: 3,
        price_per_hour: price + f64::from(shape % 5),
        resources: [("cpu".to_owned(), "4".to_owned())].into(),
        cluster: served.map_or(String::new(), |it| name(it.0).to_string()),
        shard_metadata: metadata,
        ..Raw::default()
    };
    let owner: ShardId = "shard-0".parse().ok()?;
    Some(adopt(&Report::read(&raw).ok()?, "p", &owner, NOW).ok()?.machine)
}
