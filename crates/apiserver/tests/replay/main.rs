//! Replays recorded requests of a real API server and compares the responses.
//!
//! The recordings lie in `tests/corpus`. A scenario agrees when every step's answer equals the
//! recorded one, with uids, revisions and times as wildcards. Where this server differs on purpose
//! the scenario is named in [`deviations`].

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod compare;
mod deviations;
mod events;
mod hook;
mod player;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;

// Requirement: AK-1
#[test]
fn every_recorded_scenario_gets_the_recorded_responses() {
    let mut passed = 0;
    let mut deviating = Vec::new();
    let mut failed = Vec::new();
    let mut healed = Vec::new();
    for (name, differences) in played() {
        let known = deviations::reason(&name);
        match (differences.is_empty(), known) {
            (true, None) => passed += 1,
            (true, Some(_)) => healed.push(name),
            (false, Some(reason)) => deviating.push(format!("{name}: {reason}")),
            (false, None) => {
                println!("--- {name}");
                for difference in differences.iter().take(6) {
                    println!("{difference}");
                }
                failed.push(name);
            }
        }
    }
    println!("passed {passed}, deviating {}, failed {}", deviating.len(), failed.len());
    for line in &deviating {
        println!("deviates {line}");
    }
    assert!(failed.is_empty(), "these scenarios are answered otherwise: {failed:?}");
    assert!(healed.is_empty(), "these agree and need no reason any more: {healed:?}");
}

/// The differences of every scenario; several are replayed concurrently.
fn played() -> BTreeMap<String, Vec<String>> {
    const AT_ONCE: usize = 8;
    let left: Mutex<Vec<_>> =
        Mutex::new(scenarios().into_iter().filter(|(name, _)| name != "fixtures").collect());
    let played = Mutex::new(BTreeMap::new());
    let play = || {
        loop {
            let next = left.lock().expect("scenarios").pop();
            let Some((name, scenario)) = next else { return };
            let differences = player::play(&scenario);
            played.lock().expect("scenarios").insert(name, differences);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(play);
        }
    });
    played.into_inner().expect("scenarios")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn read(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).expect("a recording");
    serde_json::from_str(&text).expect("a recording in JSON")
}

fn scenarios() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(folder()).expect("the folder of recordings");
    let mut names: Vec<String> = files
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&name))).collect()
}
