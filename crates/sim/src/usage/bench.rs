//! How fast admission and the graph of Usages are, on this machine.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use usher_domain::usage::admit::{Admission, Deletion, Freshness, Request};
use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::graph::{Entry, Family, Graph};
use usher_domain::usage::reference::{ObjectKey, UsageKey, UsageKind};

use crate::bench::{header, line};
use crate::clock::timestamp;
use crate::rng::Rng;
use crate::usage::outside::uid;

/// How many Usages admission is measured with.
const USAGES: u64 = 10_000;
/// How many requests are measured.
const REQUESTS: u64 = 200_000;
/// The sizes at which a change of one Usage is measured.
const SIZES: [u64; 4] = [100, 1_000, 10_000, 100_000];
/// How many changes are measured at each size.
const CHANGES: u64 = 20_000;

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = header();
    admissions(&mut text);
    changes(&mut text);
    text
}

/// Half of the requests ask for what is in use, the other half for what is not.
fn admissions(text: &mut String) {
    let index = graph(USAGES);
    let mut rng = Rng::new(1);
    let requests: Vec<Request> = (0..1_024).map(|_| deletion(rng.below(2 * USAGES))).collect();
    let admission = Admission::default();
    let mut took: Vec<Duration> = Vec::new();
    let began = Instant::now();
    for request in requests.iter().cycle().take(usize::try_from(REQUESTS).unwrap_or(0)) {
        let each = Instant::now();
        let answer = admission.admit(black_box(request), &index, (Freshness::Live, timestamp(0)));
        black_box(answer);
        took.push(each.elapsed());
    }
    line(text, "admissions among 10,000 usages", REQUESTS, began.elapsed());
    took.sort_unstable();
    let share = |part: usize| took.get(took.len() * part / 100).map_or(0, Duration::as_nanos);
    let _ = writeln!(text, "  of one admission: p50 {} ns, p99 {} ns", share(50), share(99));
}

/// One Usage is added to many and removed, changed, or made to refer to something else. At every
/// size the same number of Usages takes turns, so that the graph is measured and not the memory.
fn changes(text: &mut String) {
    let mut first = None;
    for size in SIZES {
        let mut index = graph(size);
        let new: Vec<Entry> = (size..size + CHANGES).map(entry_of).collect();
        let mut rng = Rng::new(2);
        let turns: Vec<u64> = (0..SIZES[0]).map(|_| rng.below(size)).collect();
        let turns = || turns.iter().cycle().zip(0..CHANGES);
        let flipped: Vec<Entry> =
            turns().map(|(it, turn)| Entry { holds: turn % 2 == 0, ..entry_of(*it) }).collect();
        let moved: Vec<Entry> = turns().map(|(it, turn)| elsewhere(*it, size + turn)).collect();
        let put = |index: &mut Graph, entries: Vec<Entry>| {
            let began = Instant::now();
            for entry in entries {
                index.put(entry);
            }
            began.elapsed()
        };
        // One at a time comes and goes, so that the size stays what it says.
        let began = Instant::now();
        for entry in new {
            let uid = entry.uid.clone();
            index.put(entry);
            black_box(index.remove(&uid));
        }
        let came = began.elapsed();
        let took = [
            ("came and went", came),
            ("changed", put(&mut index, flipped)),
            ("moved", put(&mut index, moved)),
        ];
        let base = *first.get_or_insert(took.map(|it| it.1));
        for ((what, took), base) in took.into_iter().zip(base) {
            line(text, &format!("one {what} among {size} usages"), CHANGES, took);
            let ratio = took.as_nanos() * 100 / base.as_nanos().max(1);
            let (whole, part) = (ratio / 100, ratio % 100);
            let _ = writeln!(text, "  against {}: {whole}.{part:02} times", SIZES[0]);
        }
    }
}

/// The same Usage, of another object.
fn elsewhere(number: u64, other: u64) -> Entry {
    Entry { of: vec![object("Database", other)], ..entry_of(number) }
}

fn graph(size: u64) -> Graph {
    let mut graph = Graph::default();
    for number in 0..size {
        graph.put(entry_of(number));
    }
    graph
}

/// Each object is used by one app; ten objects live in one namespace.
fn entry_of(number: u64) -> Entry {
    Entry {
        family: Family::Usher,
        usage: UsageKey {
            kind: UsageKind::Usage,
            namespace: namespace(number),
            name: format!("u{number}"),
        },
        uid: uid(number + 1),
        created_at: timestamp(0),
        holds: true,
        of: vec![object("Database", number)],
        by: vec![object("App", number)],
        reason: None,
        attempts: BTreeSet::new(),
    }
}

fn namespace(number: u64) -> String {
    format!("ns-{}", number / 10)
}

fn object(kind: &str, number: u64) -> ObjectKey {
    ObjectKey {
        group: "example.org".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace(number),
        name: format!("it-{number}"),
    }
}

fn deletion(number: u64) -> Request {
    Request::Delete(Deletion {
        object: object("Database", number),
        uid: uid(number),
        deleting: false,
        break_glass: None,
        owners: vec![],
        propagation: Propagation::Background,
        requester: "jane".to_owned(),
        dry_run: false,
        rows_live: false,
    })
}
