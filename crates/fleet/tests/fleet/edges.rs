//! Every edge, with a synchronous and an asynchronous provider, and every fault.

use tokio::task::JoinSet;
use usher_domain::fleet::aggregate::{Target, Wanted};
use usher_domain::fleet::binding::Assignment;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::Need;
use usher_domain::object::id::ResourceId;
use usher_store::MachineCommand;
use usher_wire::fleet::{HostRef, Machine, MachineState};
use uuid::Uuid;

use crate::fake_provider::machine;
use crate::shard_harness::{ShardHarness, need};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Create,
    Configure,
    Drain,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    AnswerLost,
    StaleList,
    Restart,
}

const EDGES: [Edge; 4] = [Edge::Create, Edge::Configure, Edge::Drain, Edge::Delete];
const MISHAPS: [Mishap; 3] = [Mishap::AnswerLost, Mishap::StaleList, Mishap::Restart];

// Requirement: F-44, F-61
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_edge_completes_whatever_fault_is_injected() {
    let mut cases = JoinSet::new();
    for edge in EDGES {
        for mishap in MISHAPS {
            for is_staged in [false, true] {
                cases.spawn(play(edge, mishap, is_staged));
            }
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

async fn play(edge: Edge, mishap: Mishap, is_staged: bool) {
    let case = format!("{edge:?}, {mishap:?}, staged {is_staged}");
    let mut harness = ShardHarness::closed(0).await;
    harness.fake.add(edge.origin());
    harness.fake.behave(|it| it.is_staged = is_staged);
    if edge == Edge::Drain {
        harness.need("a", 1, 100).await;
    }
    harness.start();
    harness.until(edge.begins(), 1).await;
    harness.eventually("a list", || harness.fake.traffic().0 > 1).await;
    match mishap {
        Mishap::AnswerLost => harness.fake.behave(|it| it.lost_answers = 1),
        Mishap::StaleList => {
            harness.fake.behave(|it| it.holds_lists = true);
            harness.eventually("a list that is held", || harness.fake.traffic().1 > 0).await;
        }
        Mishap::Restart => {}
    }
    edge.trigger(&harness).await;
    let done = || harness.fake.deeds().iter().any(|it| it.verb == edge.verb());
    harness.eventually(&format!("begun: {case}"), done).await;
    if mishap == Mishap::Restart {
        harness.crash().await;
        harness.fake.let_go();
        harness.start();
    }
    harness.until_ended(&case, edge.ends()).await;
    if mishap == Mishap::StaleList {
        let before = harness.fake.traffic().0;
        harness.fake.release();
        harness.eventually("lists continue", || harness.fake.traffic().0 > before + 1).await;
        harness.until_ended(&case, edge.ends()).await;
    }
    harness.stop().await;
    let events = harness.events().await;
    let path: Vec<&str> = events.iter().map(|it| it.data["to"].as_str().unwrap()).collect();
    assert_eq!(path, edge.path(), "{case}");
    let begun = harness.fake.deeds().into_iter().filter(|it| it.verb == edge.verb()).count();
    assert_eq!(begun, 1, "{case}");
    harness.fake.nothing_was_done_twice();
    harness.no_transition_error();
}

impl Edge {
    /// The machine where the edge begins.
    fn origin(self) -> Machine {
        let mut it = machine("m0");
        let host = HostRef { provider: "plant".to_owned(), r#ref: "host-of-m0".to_owned() };
        match self {
            Self::Create => {}
            Self::Configure | Self::Delete => {
                it.set_state(MachineState::Idle);
                it.host = Some(host);
            }
            Self::Drain => {
                let assignment: Assignment = Need::read(&need(1, 100)).unwrap().assignment;
                it.set_state(MachineState::Configured);
                it.host = Some(host);
                "a".clone_into(&mut it.cluster);
                it.shard_metadata = assignment.encode();
            }
        }
        it
    }

    async fn trigger(self, harness: &ShardHarness) {
        match self {
            Self::Create | Self::Configure => harness.need("a", 1, 100).await,
            Self::Drain => harness.need("a", 0, 100).await,
            Self::Delete => {
                let holder = ResourceId::from_uuid(Uuid::from_u128(7));
                let wanted = Wanted::of(Target::Release);
                let command = MachineCommand::Hold { holder, wanted };
                let id = harness.row("m0").await.id;
                harness.store.command_machine(id, command, None).await.unwrap();
            }
        }
    }

    const fn verb(self) -> MachineState {
        match self {
            Self::Create => MachineState::Creating,
            Self::Configure => MachineState::Configuring,
            Self::Drain => MachineState::Draining,
            Self::Delete => MachineState::Deleting,
        }
    }

    const fn begins(self) -> Phase {
        match self {
            Self::Create => Phase::Speculative,
            Self::Configure | Self::Delete => Phase::Idle,
            Self::Drain => Phase::Configured,
        }
    }

    const fn ends(self) -> Phase {
        match self {
            Self::Create | Self::Configure => Phase::Configured,
            Self::Drain => Phase::Idle,
            Self::Delete => Phase::Speculative,
        }
    }

    const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Create => &["Creating", "Idle", "Configuring", "Configured"],
            Self::Configure => &["Configuring", "Configured"],
            Self::Drain => &["Draining", "Idle"],
            Self::Delete => &["Deleting", "Speculative"],
        }
    }
}
