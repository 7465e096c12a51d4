//! Measures the shard's memory: a plan after one change, lists decoded from the wire, and bytes per
//! machine. Quantiles are exact.
//!
//! `--machines N` sets the number of machines; `--quick` runs smaller sizes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that fails has no result, and one that succeeds prints it"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use prost::Message as _;
use usher_domain::fleet::accept::{Report, adopt};
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::binding::Assignment;
use usher_domain::fleet::plan::{
    Circumstances, Need, PlanConfig, RawNeed, RawRequirement, Switch, Trust, Windows, plan,
};
use usher_domain::object::authority::MassDeletionGuard;
use usher_domain::object::id::MachineRecordId;
use usher_fleet::lists::{Scope, read};
use usher_fleet::memory::Memory;
use usher_fleet::record;
use usher_kernel::{Timestamp, Version};
use usher_wire::fleet;
use uuid::Uuid;

const CLUSTERS: u32 = 50;
const NEEDS: u32 = 1_000;
/// Machines in a list of changes.
const CHANGES: u32 = 1_000;
const NOW: Timestamp = Timestamp::from_millis(10_000);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |word: &str| words.iter().skip_while(|it| *it != word).nth(1);
    let quick = words.iter().any(|it| it == "--quick");
    let usual = if quick { 50_000 } else { 500_000 };
    let machines = after("--machines").map_or(usual, |it| it.parse().unwrap());
    let cycles = if quick { 20 } else { 200 };
    println!(
        "{machines} machines of 5 types in 3 zones, half of them nodes; {CLUSTERS} clusters with \
         {NEEDS} needs each\n{:<44}{:>7}{:>11}{:>11}{:>11}",
        "what", "times", "p50 ms", "p99 ms", "max ms"
    );
    let before = resident();
    let mut memory = settled(machines);
    let bytes = resident().saturating_sub(before) / u64::from(machines);
    accept_demand(&mut memory);
    plans(&mut memory, machines, cycles);
    lists(&mut memory, machines, if quick { 5 } else { 20 });
    println!("{bytes} bytes per machine, resident, index and names included");
}

/// A plan after one machine changed, and after a thousand did.
fn plans(memory: &mut Memory, machines: u32, cycles: usize) {
    for (what, changes) in [("plan, one machine changed", 1), ("plan, 1000 changed", CHANGES)] {
        let took = (0..).take(cycles).map(|cycle: u32| {
            let changed: Vec<(u32, Machine)> = (0..changes)
                .map(|it| {
                    let number = machines - 1 - (cycle * changes + it) % (machines / 2);
                    (number, row(&wire(number, machines, cycle.is_multiple_of(2))))
                })
                .collect();
            let version = Version(2 + u64::from(cycle));
            let began = Instant::now();
            for (number, machine) in &changed {
                memory.note(record_id(*number), version, machine);
            }
            cycle_once(memory);
            began.elapsed()
        });
        let took = took.collect();
        say(what, took);
    }
}

fn cycle_once(memory: &mut Memory) {
    let at = Circumstances {
        now: NOW,
        store_up: true,
        list_believed: true,
        switch: Switch::Run,
        config: PlanConfig::default(),
    };
    let (fleet, _) = memory.fleet();
    let _ = black_box(plan(fleet, &at));
}

/// Lists from their bytes to the last notified machine.
fn lists(memory: &mut Memory, machines: u32, times: usize) {
    let all: Vec<Vec<u8>> =
        (0..machines).map(|it| wire(it, machines, false).encode_to_vec()).collect();
    let mut listed = |scope: Scope, records: &[Vec<u8>]| {
        let began = Instant::now();
        let readings = read(records.iter().map(|it| record::decode(it)).collect());
        let stamp = memory.stamp();
        black_box(memory.take_in(
            readings,
            (scope, stamp),
            Some(MassDeletionGuard::default()),
            NOW,
        ));
        began.elapsed()
    };
    let took = (0..times).map(|_| listed(Scope::Full, &all)).collect();
    say("full list, decoded and compared", took);
    let some = &all[..CHANGES as usize];
    let took = (0..times * 10).map(|_| listed(Scope::Delta, some)).collect();
    say("list of 1000 changes", took);
}

fn say(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let quantile = |percent: usize| {
        let at = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took[at].as_secs_f64() * 1e3
    };
    let (p50, p99, max) = (quantile(50), quantile(99), quantile(100));
    println!("{what:<44}{:>7}{p50:>11.3}{p99:>11.3}{max:>11.3}", took.len());
}

fn settled(machines: u32) -> Memory {
    let mut memory = Memory::new("shard-0".parse().unwrap(), Windows::default(), 1);
    for number in 0..machines {
        memory.note(record_id(number), Version(1), &row(&wire(number, machines, false)));
    }
    memory
}

fn accept_demand(memory: &mut Memory) {
    for cluster in 0..CLUSTERS {
        let rows: Vec<_> = (0..NEEDS).map(|it| Need::read(&need(it))).collect();
        let mut trust = Trust::default();
        trust.hear(rows.len());
        memory.fleet().0.believe(&format!("c{cluster}").parse().unwrap(), rows, trust);
    }
}

/// One of many needs: its priority between 1,000 and 10,000, for one type in one zone.
fn need(number: u32) -> RawNeed {
    let requirement = |key: &str, value: String| RawRequirement {
        key: key.to_owned(),
        operator: 1,
        values: vec![value],
    };
    RawNeed {
        requirements: vec![
            requirement("node.kubernetes.io/instance-type", format!("type-{}", number % 5)),
            requirement("topology.kubernetes.io/zone", format!("zone-{}", number % 15 / 5)),
        ],
        aggregate: [("cpu".to_owned(), "20".to_owned())].into(),
        priority: 1_000 + i32::try_from(number * 9).unwrap(),
        interruption_bucket: 16,
        reclamation_bucket: 16,
        ..RawNeed::default()
    }
}

fn record_id(number: u32) -> MachineRecordId {
    MachineRecordId::from_uuid(Uuid::from_u128(u128::from(number) + 1))
}

/// A machine on the wire: the first half are nodes, five to a need.
fn wire(number: u32, machines: u32, dear: bool) -> fleet::Machine {
    let serves = number < machines / 2;
    let need_number = number / CLUSTERS % NEEDS;
    let shape = if serves { need_number } else { number };
    let assignment: Assignment = Need::read(&need(need_number)).unwrap().assignment;
    let state = if serves { fleet::MachineState::Configured } else { fleet::MachineState::Idle };
    let amounts = BTreeMap::from([("cpu".to_owned(), "4".to_owned())]);
    fleet::Machine {
        id: format!("machine-{number:08}"),
        state: state as i32,
        host: Some(fleet::HostRef { provider: "p".to_owned(), r#ref: format!("h{number}") }),
        instance_type: format!("type-{}", shape % 5),
        zone: format!("zone-{}", shape % 15 / 5),
        capacity_type: fleet::CapacityType::OnDemand as i32,
        price_per_hour: 1.0 + f64::from(shape % 5) + if dear { 0.1 } else { 0.0 },
        resources: Some(fleet::Resources { resources: amounts }),
        cluster: if serves { format!("c{}", number % CLUSTERS) } else { String::new() },
        shard_metadata: if serves { assignment.encode() } else { BTreeMap::new() },
        ..fleet::Machine::default()
    }
}

fn row(machine: &fleet::Machine) -> Machine {
    let report = Report::read(&record::raw(machine.clone())).unwrap();
    adopt(&report, "p", &"shard-0".parse().unwrap(), NOW).unwrap().machine
}

/// The resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}
