//! The deletion matrix of direct resources: generated, counted, and able to fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use usher_sim::direct::breakage::Breakage;
use usher_sim::direct::matrix::{
    Answer, CRASHES, Cell, Dependency, End, Order, POLICIES, Recorded,
};
use usher_sim::words::Words as _;

/// Runs cells on all cores; how they ended, by outcome, and what went wrong.
fn lived(cells: &[Cell], breakage: Option<Breakage>) -> (BTreeMap<String, usize>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let ends = Mutex::new((BTreeMap::new(), Vec::new()));
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let end = cell.run_seed(breakage);
                    let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
                    match end {
                        End::Ended(outcome, _) => {
                            *ends.0.entry(outcome.to_string()).or_default() += 1;
                        }
                        End::Wrong(wrong) => {
                            ends.1.push(format!("{cell:?}: {}: {}", wrong.checker, wrong.what));
                        }
                    }
                }
            });
        }
    });
    ends.into_inner().unwrap_or_else(PoisonError::into_inner)
}

// Requirement: I-2, I-28, I-31, I-37
#[test]
fn every_cell_of_the_deletion_matrix_ends_as_it_should() {
    let cells: Vec<Cell> = Cell::all().collect();
    let counts = [
        Order::ALL.len(),
        Recorded::ALL.len(),
        Dependency::ALL.len(),
        Answer::ALL.len(),
        POLICIES.len(),
        CRASHES.len(),
    ];
    assert_eq!(cells.len(), counts.iter().product::<usize>());
    assert!(cells.len() > 10_000, "thousands of cells");
    let (outcomes, wrong) = lived(&cells, None);
    let [order, recorded, dependency, answer, policy, crash] = counts;
    println!(
        "deletion matrix: {order} orders x {recorded} records x {dependency} dependencies x \
         {answer} answers x {policy} policies x {crash} crash points = {} cells, {} wrong",
        cells.len(),
        wrong.len(),
    );
    println!("outcomes: {outcomes:?}");
    let few: Vec<_> = wrong.iter().take(10).collect();
    assert!(wrong.is_empty(), "{few:#?}");
    assert_eq!(outcomes.len(), 5, "every outcome occurs");
}

// Requirement: I-28
#[test]
fn a_broken_rule_turns_cells_red() {
    let plain = |it: &Cell| it.crash.is_none() && it.order == Order::First;
    let cells: Vec<Cell> = Cell::all().filter(plain).collect();
    let breakages = [
        Breakage::ErrorIsAbsent,
        Breakage::ReleaseOnDependencyError,
        Breakage::ForeignIsOurs,
        Breakage::CopyIsBelieved,
        Breakage::StampIsProof,
        Breakage::ReleaseBeforeVerify,
        Breakage::OrphanUnderHold,
        Breakage::ForgetOperation,
        Breakage::ForgetHistory,
        Breakage::SkipSearch,
        Breakage::IgnoreAbandon,
    ];
    for breakage in breakages {
        let (_, wrong) = lived(&cells, Some(breakage));
        assert!(!wrong.is_empty(), "{} survives the matrix", breakage.as_str());
        println!("{:<32} {} of {} cells", breakage.as_str(), wrong.len(), cells.len());
    }
}
