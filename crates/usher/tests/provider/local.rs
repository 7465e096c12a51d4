//! Hosts of the local provider.

use std::process::Command;

use usher_wire::fleet::MachineState as State;

use super::test_provider::{TestProvider, USHER, all, settle};

const SLOT: &str = "local-slot-0000";

// Requirement: PM-15
#[tokio::test]
async fn a_node_outlives_its_provider_and_leaves_when_drained() {
    let mut provider = TestProvider::new();
    let mut first = provider.start(2, None).await.unwrap();
    provider.create(&mut first.client, SLOT).await.unwrap();
    let idle = settle(&mut first.client, SLOT, State::Idle).await;
    let host = idle.host.unwrap().r#ref;
    assert_eq!(provider.names("hosts"), [host.as_str()]);
    provider.configure(&mut first.client, SLOT, "anything").await.unwrap();
    settle(&mut first.client, SLOT, State::Configured).await;
    let node = provider.holder(&host).expect("a node is ready when it holds its lock");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(provider.holder(&host), Some(node), "it kept running");
    let mut second = provider.start(2, None).await.unwrap();
    let again = settle(&mut second.client, SLOT, State::Configured).await;
    assert_eq!(again.cluster, "c");
    assert_eq!(provider.holder(&host), Some(node), "no second process was started");
    provider.drain(&mut second.client, SLOT, 600).await.unwrap();
    settle(&mut second.client, SLOT, State::Idle).await;
    assert_eq!(provider.holder(&host), None);
    assert_eq!(provider.names("process"), Vec::<String>::new());
    provider.delete(&mut second.client, SLOT).await.unwrap();
    settle(&mut second.client, SLOT, State::Speculative).await;
    assert_eq!(provider.names("hosts"), Vec::<String>::new());
}

/// Every failpoint of the local provider.
const PLACES: [&str; 14] = [
    "unit-recorded",
    "before-spawn",
    "after-spawn",
    "before-signal",
    "after-signal",
    "unit-unnamed",
    "provider-before-append",
    "provider-before-sync",
    "provider-after-sync",
    "provider-before-verb",
    "provider-after-verb",
    "provider-verb-ended",
    "provider-after-sync:4",
    "provider-before-verb:3",
];

// Requirement: PM-15
#[tokio::test]
async fn a_provider_killed_at_any_failpoint_finishes_and_leaves_nothing() {
    let mut provider = TestProvider::new();
    for place in PLACES {
        let armed = provider.start(1, Some(place)).await;
        if let Some(mut running) = armed {
            let died = walk(&mut provider, &mut running.client).await.is_err();
            assert!(died, "{place} was never passed");
            running.child.wait().unwrap();
        }
        let mut healed = provider.start(1, None).await.unwrap();
        // Pending operations finish first; then the rest of the lifecycle follows.
        for _ in 0..8 {
            walk(&mut provider, &mut healed.client).await.unwrap();
            let [machine] = &all(&mut healed.client).await.unwrap()[..] else { panic!("{place}") };
            if machine.state() == State::Speculative {
                break;
            }
        }
        let [machine] = &all(&mut healed.client).await.unwrap()[..] else { panic!("{place}") };
        assert_eq!(machine.state(), State::Speculative, "{place}");
        for below in ["hosts", "process"] {
            assert_eq!(provider.names(below), Vec::<String>::new(), "{place}: {below}");
        }
    }
}

/// Continues with the only machine until it was released once.
async fn walk(
    provider: &mut TestProvider,
    client: &mut usher_wire::fleet::Client,
) -> Result<(), tonic::Status> {
    let mut configured = false;
    for _ in 0..12_000 {
        let machine = all(client).await?.remove(0);
        let id = machine.id.clone();
        match machine.state() {
            State::Speculative if configured => return Ok(()),
            State::Speculative => drop(provider.create(client, &id).await?),
            State::Idle if configured => drop(provider.delete(client, &id).await?),
            State::Idle => drop(provider.configure(client, &id, "blob").await?),
            State::Configured => {
                configured = true;
                provider.drain(client, &id, 5).await?;
            }
            State::Creating | State::Configuring | State::Draining | State::Deleting => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            State::Failed | State::Unspecified => panic!("{}", machine.last_error),
        }
    }
    panic!("the lifecycle did not end");
}

// Requirement: PM-13
#[tokio::test]
async fn the_conformance_suite_runs_as_one_command() {
    let provider = TestProvider::new();
    let running = provider.start(40, None).await.unwrap();
    let asked = |words: &[&str]| {
        let output = Command::new(USHER).args(["provider", "conformance"]).args(words).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let target = ["--target", running.address.as_str()];
    let (code, table) = asked(&[&target[..], &["--only", "B107"]].concat());
    assert_eq!(code, Some(0), "{table}");
    assert!(table.ends_with("CERTIFIED: 1 passed, 0 failed, 0 skipped\n"), "{table}");
    let (code, text) = asked(&[&target[..], &["--profile", "durable", "-o", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, document["verdict"].as_str()), (Some(1), Some("INCOMPLETE")));
    assert_eq!(document["behaviours"][0]["result"], "skipped");
    assert_eq!(asked(&[]).0, Some(2), "no provider is given");
    let program = ["--only", "B702", "--profile", "fault", "--", USHER, "provider", "local"];
    let (code, table) = asked(&program);
    assert_eq!(code, Some(0), "{table}");
}
