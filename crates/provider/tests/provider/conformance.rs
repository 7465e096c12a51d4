//! The conformance suite against the fake, the smallest example and broken providers.

use std::collections::BTreeSet;
use std::time::Duration;

use tempfile::TempDir;
use usher_provider::conformance::{
    Certificate, Exercised, Finding, Launcher, Profile, Suite, Target, list, run,
};

#[expect(dead_code, unreachable_pub, reason = "it is also a program")]
#[path = "../../examples/smallest.rs"]
mod smallest;

fn suite(target: Target, profiles: &[Profile], scratch: &TempDir) -> Suite {
    Suite {
        target,
        profiles: profiles.iter().copied().collect(),
        seed: 1,
        seed_count: 256,
        scale_seed_count: 2_000,
        soak: Duration::from_millis(500),
        scratch: scratch.path().to_owned(),
        only: None,
    }
}

fn program(args: &[&str]) -> Target {
    let args = args.iter().map(|it| (*it).to_owned()).collect();
    Target::Program(Launcher {
        program: env!("CARGO_BIN_EXE_usher-provider-fake").to_owned(),
        args,
    })
}

/// Behaviours with a latency limit: a busy machine fails them, so a test does not judge them.
const TIMED: [u16; 2] = [1106, 1107];

fn failures(findings: &[Finding]) -> Vec<String> {
    let bad = findings.iter().filter(|it| it.result != Exercised::Passed);
    bad.map(|it| format!("B{} {}: {:?}", it.behaviour.id, it.behaviour.title, it.result)).collect()
}

// Requirement: PM-13, PM-17
#[tokio::test]
async fn the_fake_passes_every_behaviour() {
    let scratch = tempfile::tempdir().unwrap();
    let all = [
        Profile::Core,
        Profile::Cloud,
        Profile::Spot,
        Profile::Durable,
        Profile::Fault,
        Profile::Salvage,
        Profile::Scale,
    ];
    // Slow verbs, so that transient states are seen.
    let suite = suite(program(&["--fake-latency=1ms:20ms"]), &all, &scratch);
    let mut findings = run(&suite, |_| ()).await;
    let ids: BTreeSet<u16> = findings.iter().map(|it| it.behaviour.id).collect();
    assert_eq!(ids, list().map(|it| it.id).collect());
    findings.retain(|it| !TIMED.contains(&it.behaviour.id));
    assert_eq!(failures(&findings), Vec::<String>::new());
    assert_eq!(Certificate::of(&findings), Certificate::Certified);
}

/// Waits until the address accepts connections.
async fn wait_until_listening(address: &str) {
    let connects = async {
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), connects).await.unwrap();
}

// Requirement: PM-14
#[tokio::test]
async fn the_smallest_example_passes() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    tokio::spawn(smallest::provide(address));
    let address = address.to_string();
    wait_until_listening(&address).await;
    let scratch = tempfile::tempdir().unwrap();
    let profiles = [Profile::Core, Profile::Cloud, Profile::Spot];
    let suite = suite(Target::Address(address, None), &profiles, &scratch);
    let findings = run(&suite, |_| ()).await;
    assert_eq!(failures(&findings), Vec::<String>::new());
    assert_eq!(findings.len(), 69);
    assert_eq!(Certificate::of(&findings), Certificate::Certified);
}

// Requirement: PM-13
#[tokio::test]
async fn lanes_that_need_a_program_are_skipped_without_one() {
    let scratch = tempfile::tempdir().unwrap();
    let closed = Target::Address("127.0.0.1:1".to_owned(), None);
    let suite = suite(closed, &[Profile::Durable, Profile::Fault], &scratch);
    let findings = run(&suite, |_| ()).await;
    assert_eq!(findings.len(), 15);
    assert!(findings.iter().all(|it| matches!(it.result, Exercised::Skipped(_))));
    assert_eq!(Certificate::of(&findings), Certificate::Incomplete);
}

// Requirement: PM-13
#[tokio::test]
async fn no_slots_is_incomplete_and_lost_responses_fail() {
    let scratch = tempfile::tempdir().unwrap();
    let mut empty = suite(program(&[]), &[Profile::Core], &scratch);
    (empty.seed_count, empty.only) = (0, Some(101));
    let findings = run(&empty, |_| ()).await;
    assert_eq!(Certificate::of(&findings), Certificate::Incomplete, "{:?}", failures(&findings));
    let mut lossy = suite(program(&["--fake-lost=1"]), &[Profile::Core], &scratch);
    lossy.only = Some(101);
    assert_eq!(Certificate::of(&run(&lossy, |_| ()).await), Certificate::Failed);
}
