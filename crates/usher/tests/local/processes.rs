//! Agents as real processes, and keepers that are killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use usher_domain::broker::event::Event;
use usher_domain::broker::phase::Phase;
use usher_failpoint::Failpoint;
use usher_sim::contract::memory::Wish;
use usher_sim::contract::substrate::TestWorld as _;

use crate::plane::NODE_SECRET;
use crate::stage::clear;
use crate::yard::{Yard, script, signal};

// Requirement: AG-1
#[tokio::test]
async fn a_node_really_enrols_and_really_leaves() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep_patiently("60000", &[]);
    yard.the_agent().await;
    assert_eq!(yard.plane.state().registrations.len(), 1);
    yard.plane.until_listened_to().await;
    yard.stage.wait_for_goodbye(&yard.plane);
    yard.until_deleted().await;
    assert_eq!(yard.plane.state().leaves.len(), 1, "it said goodbye");
}

/// Every file below a folder that holds a text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path);
        }
    }
    found
}

// Requirement: LW-16
#[tokio::test]
async fn secrets_lie_where_they_must_and_nowhere_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    let token = yard.stage.memory.token(yard.resource().generation());
    let root = yard.stage.root();
    let xr = yard.resource().pinned().xr_name.clone();
    let own = root.join("substrate").join(format!("{xr}.json"));
    assert_eq!(holding(&root, token.expose()), std::slice::from_ref(&own));
    let identity = yard.machine().1.join("identity.json");
    assert_eq!(holding(&root, NODE_SECRET), std::slice::from_ref(&identity));
    for path in [own, identity] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{agent}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("ubt_"), "{file}");
    }
    yard.until_deleted().await;
    assert_eq!(holding(&root, token.expose()), Vec::<PathBuf>::new());
}

// Requirement: LW-11
#[tokio::test]
async fn an_agent_outlives_its_keeper_and_is_found_by_its_lock() {
    let mut yard = Yard::new(Wish::default()).await;
    let first = yard.keep(&[]);
    let agent = yard.the_agent().await;
    yard.kill(first);
    let before = yard.plane.state().heartbeats.len();
    yard.until("it goes on", |it| it.plane.state().heartbeats.len() > before + 5).await;
    yard.keep(&[]);
    let before = yard.plane.state().heartbeats.len();
    yard.until("it still goes on", |it| it.plane.state().heartbeats.len() > before + 20).await;
    assert_eq!(yard.processes(), [agent], "adopted, and not doubled");
    // The new keeper really supervises it.
    signal(agent, Signal::KILL);
    yard.until("another one runs", |it| {
        let processes = it.processes();
        processes.len() == 1 && processes[0] != agent
    })
    .await;
    yard.until_deleted().await;
}

// Requirement: LW-14
#[tokio::test]
async fn an_agent_that_was_killed_comes_back_as_the_same_node() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    signal(agent, Signal::KILL);
    let before = yard.plane.state().heartbeats.len();
    yard.until("it is back", |it| it.plane.state().heartbeats.len() > before + 3).await;
    assert_eq!(yard.plane.state().nodes.len(), 1);
    assert_eq!(yard.plane.state().registrations.len(), 1, "it enrolled once");
    yard.until_deleted().await;
}

// Requirement: LW-13
#[tokio::test]
async fn an_agent_that_hangs_is_killed_after_its_grace() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    signal(agent, Signal::STOP);
    yard.until_deleted().await;
    assert_eq!(yard.plane.state().leaves.len(), 0, "it said nothing");
}

// Requirement: LW-13
#[tokio::test]
async fn an_agent_that_hangs_is_killed_by_a_keeper_that_did_not_start_it() {
    let mut yard = Yard::new(Wish::default()).await;
    let first = yard.keep(&[]);
    let agent = yard.the_agent().await;
    signal(agent, Signal::STOP);
    yard.kill(first);
    yard.keep(&[]);
    yard.until_deleted().await;
}

// Requirement: LW-14
#[tokio::test]
async fn an_agent_that_never_boots_holds_nothing_up() {
    let mut yard = Yard::new(Wish::default()).await;
    let program = script(yard.stage.dir.path(), "echo x >> tried; exit 1");
    yard.keep(&["--agent", program.to_str().unwrap()]);
    yard.until_phase(Phase::Enrolling).await;
    let (_, record) = yard.machine();
    let tries = |record: &Path| {
        fs::read_to_string(record.join("tried")).unwrap_or_default().lines().count()
    };
    yard.until("it is tried again", |_| tries(&record) > 2).await;
    assert_eq!(yard.resource().phase(), Phase::Enrolling);
    yard.until_deleted().await;
}

// Requirement: LW-13
#[tokio::test]
async fn an_agent_that_boots_and_does_nothing_is_ended_with_its_substrate() {
    let mut yard = Yard::new(Wish::default()).await;
    let program = script(yard.stage.dir.path(), "trap '' TERM; exec sleep 1000");
    yard.keep(&["--agent", program.to_str().unwrap()]);
    yard.until_phase(Phase::Enrolling).await;
    yard.until("it runs", |it| !it.processes().is_empty()).await;
    yard.until_deleted().await;
}

// Requirement: LW-9
#[tokio::test]
async fn a_program_that_is_not_there_fails_the_substrate() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&["--agent", "/nowhere/usher"]);
    yard.until_phase(Phase::Failed).await;
    let events = yard.stage.events();
    let Some(Event::Failed { message }) = events.last() else { panic!("{events:?}") };
    assert!(message.starts_with("cannot start \"/nowhere/usher\""), "{message}");
    yard.until_deleted().await;
}

// Requirement: LW-9
#[tokio::test]
async fn a_substrate_that_shall_fail_fails_and_can_be_deleted() {
    let fail_with = Some("no quota".to_owned());
    let mut yard = Yard::new(Wish { fail_with, ..Wish::default() }).await;
    yard.keep(&[]);
    yard.until_phase(Phase::Failed).await;
    let events = yard.stage.events();
    assert_eq!(events.last(), Some(&Event::Failed { message: "no quota".to_owned() }));
    yard.until_deleted().await;
}

// Requirement: LW-9
#[tokio::test]
async fn a_slow_substrate_is_waited_for() {
    let ready_after = Duration::from_millis(700);
    let mut yard = Yard::new(Wish { ready_after, ..Wish::default() }).await;
    yard.keep(&[]);
    yard.until_phase(Phase::Provisioning).await;
    yard.until_phase(Phase::Ready).await;
    yard.until_deleted().await;
}

// Requirement: LW-10
#[tokio::test]
async fn a_machine_that_was_removed_by_hand_is_not_absent_before_its_process_ended() {
    let mut yard = Yard::new(Wish::default()).await;
    let keeper = yard.keep(&[]);
    let agent = yard.the_agent().await;
    let (part, _) = yard.machine();
    yard.kill(keeper);
    clear(&part);
    let seen = look(&yard).await;
    let name = part.file_stem().unwrap().to_str().unwrap();
    assert!(is_present(&seen, name), "{seen:?}");
    signal(agent, Signal::KILL);
    yard.until("it ended", |it| it.processes().is_empty()).await;
    assert!(!is_present(&look(&yard).await, name));
    yard.keep(&[]);
    yard.until_deleted().await;
}

// Requirement: LW-15
#[tokio::test]
async fn a_record_that_was_removed_by_hand_ends_its_process_and_another_begins() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    let (_, record) = yard.machine();
    clear(&record);
    yard.until("it ended", |it| !it.processes().contains(&agent)).await;
    yard.until("another one began", |it| it.machine().1.exists()).await;
    yard.until_deleted().await;
}

// Requirement: LW-15
#[tokio::test]
async fn a_process_whose_record_was_removed_ends_although_nobody_supervises_it() {
    let mut yard = Yard::new(Wish::default()).await;
    let keeper = yard.keep(&[]);
    let agent = yard.the_agent().await;
    yard.kill(keeper);
    let (_, record) = yard.machine();
    clear(&record);
    yard.until("it ended", |it| !it.processes().contains(&agent)).await;
    yard.keep(&[]);
    yard.until_deleted().await;
}

// Requirement: LW-9
#[tokio::test]
async fn a_substrate_that_was_removed_by_hand_is_replaced_by_a_new_generation() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    let xr = yard.resource().pinned().xr_name.clone();
    let folder = usher_local::object::Kind::Substrate;
    clear(&yard.stage.world.registry().path(folder, &xr));
    yard.until("a new generation is ready", |it| {
        it.resource().phase() == Phase::Ready && it.resource().generation().0 == 2
    })
    .await;
    assert!(!yard.processes().contains(&agent));
    assert_eq!(yard.processes().len(), 1);
    assert_eq!(yard.plane.state().nodes.len(), 2, "another machine, another node");
    yard.until_deleted().await;
}

// Requirement: LW-11
#[tokio::test]
async fn two_keepers_run_one_agent_and_the_second_takes_over() {
    let mut yard = Yard::new(Wish::default()).await;
    let first = yard.keep(&[]);
    let agent = yard.the_agent().await;
    yard.keep(&[]);
    let before = yard.plane.state().heartbeats.len();
    yard.until("both keep it", |it| it.plane.state().heartbeats.len() > before + 20).await;
    assert_eq!(yard.processes(), [agent]);
    yard.kill(first);
    signal(agent, Signal::KILL);
    yard.until("the second starts another", |it| {
        let processes = it.processes();
        processes.len() == 1 && processes[0] != agent
    })
    .await;
    yard.until_deleted().await;
}

// Requirement: LW-11
#[tokio::test]
async fn while_a_keeper_is_stopped_nobody_takes_its_place_and_nothing_is_called_gone() {
    let mut yard = Yard::new(Wish::default()).await;
    let first = yard.keep(&[]);
    yard.the_agent().await;
    let (part, record) = yard.machine();
    yard.keep(&[]);
    yard.pause(first);
    yard.stage.retire().await;
    yard.until("its agent has left", |it| it.processes().is_empty()).await;
    yard.until_phase(Phase::Deprovisioning).await;
    let mut turns = 0;
    yard.until("some time has passed", |_| {
        turns += 1;
        turns > 100
    })
    .await;
    assert!(part.exists() && record.exists());
    assert_eq!(yard.resource().phase(), Phase::Deprovisioning);
    yard.kill(first);
    yard.until_phase(Phase::Deleted).await;
    yard.until_nothing_is_left().await;
}

// Requirement: LW-15
#[tokio::test]
async fn a_record_that_was_damaged_by_hand_is_made_again() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    let agent = yard.the_agent().await;
    let (_, record) = yard.machine();
    fs::write(record.join("unit.json"), "{").unwrap();
    yard.until("it ended", |it| !it.processes().contains(&agent)).await;
    let whole = |text: String| serde_json::from_str::<serde_json::Value>(&text).is_ok();
    yard.until("it is recorded again", |_| {
        fs::read_to_string(record.join("unit.json")).is_ok_and(whole)
    })
    .await;
    yard.until_deleted().await;
}

// Requirement: LW-18
#[tokio::test]
async fn a_keeper_waits_for_a_world_that_is_damaged() {
    let mut yard = Yard::new(Wish::default()).await;
    yard.keep(&[]);
    yard.the_agent().await;
    let (part, aside) = (yard.stage.root().join("part"), yard.stage.root().join("elsewhere"));
    fs::rename(&part, &aside).unwrap();
    let before = yard.plane.state().heartbeats.len();
    yard.until("its agent goes on", |it| it.plane.state().heartbeats.len() > before + 30).await;
    fs::rename(&aside, &part).unwrap();
    yard.until_deleted().await;
}

/// One life with a keeper that dies at a failpoint and is started again; whether it died.
async fn dies_at(point: Failpoint, passing: u32) -> bool {
    let mut yard = Yard::new(Wish::default()).await;
    let order = format!("{point}:{passing}");
    let mut keeper = yard.keep(&["--failpoint", &order]);
    let mut deaths = 0;
    let mut revive = |yard: &mut Yard| {
        if yard.has_died(keeper) {
            deaths += 1;
            keeper = yard.keep(&[]);
        }
    };
    yard.until("ready", |it| {
        revive(it);
        it.resource().phase() == Phase::Ready
    })
    .await;
    assert_eq!(yard.processes().len(), 1, "{order}: one agent, and not two");
    assert_eq!(yard.plane.state().nodes.len(), 1, "{order}: one node");
    // Only one that hangs has to be asked.
    if matches!(point, Failpoint::BeforeSignal | Failpoint::AfterSignal) {
        yard.processes().into_iter().for_each(|it| signal(it, Signal::STOP));
    }
    yard.stage.retire().await;
    yard.until("deleted", |it| {
        revive(it);
        it.resource().phase() == Phase::Deleted
    })
    .await;
    yard.until_nothing_is_left().await;
    deaths > 0
}

/// Whether a keeper passes a place; the others are a server's.
const fn is_keepers(point: Failpoint) -> bool {
    match point {
        Failpoint::WorldCounted
        | Failpoint::ObjectStaged
        | Failpoint::ObjectCreated
        | Failpoint::ObjectWritten
        | Failpoint::ObjectUnnamed
        | Failpoint::ObjectErased
        | Failpoint::UnitRecorded
        | Failpoint::BeforeSpawn
        | Failpoint::AfterSpawn
        | Failpoint::BeforeSignal
        | Failpoint::AfterSignal
        | Failpoint::UnitUnnamed => true,
        Failpoint::BeforeEffect
        | Failpoint::AfterEffect
        | Failpoint::BeforeCommit
        | Failpoint::AfterCommit
        | Failpoint::BeforeRelease
        | Failpoint::BeforeAccept
        | Failpoint::AfterAccept
        | Failpoint::BeforeOrder
        | Failpoint::AfterOrder
        | Failpoint::BeforeRedeem
        | Failpoint::AfterRedeem
        | Failpoint::BeforeDrain
        | Failpoint::AfterDrain
        | Failpoint::KeyWritten
        | Failpoint::KeyRecorded
        | Failpoint::BeforeAppend
        | Failpoint::BeforeSync
        | Failpoint::AfterSync
        | Failpoint::SnapshotStaged
        | Failpoint::SnapshotNamed
        | Failpoint::BeforeVerb
        | Failpoint::AfterVerb
        | Failpoint::VerbEnded => false,
    }
}

// Requirement: LW-12
#[tokio::test]
async fn a_keeper_may_die_at_every_failpoint() {
    for point in Failpoint::ALL.iter().copied().filter(|it| is_keepers(*it)) {
        assert!(dies_at(point, 1).await, "{point} was never passed");
    }
    dies_at(Failpoint::WorldCounted, 3).await;
    dies_at(Failpoint::ObjectCreated, 2).await;
    dies_at(Failpoint::ObjectUnnamed, 2).await;
}

// Requirement: LW-12
#[tokio::test]
async fn a_keeper_may_be_killed_at_any_moment() {
    for life in 1..4_u32 {
        let mut yard = Yard::new(Wish::default()).await;
        let mut keeper = yard.keep(&[]);
        let (mut turns, mut kills) = (0_u32, 0_u32);
        let mut strike = |yard: &mut Yard| {
            turns += 1;
            // Between 25 and 250 ms apart, never in step with anything.
            if turns.is_multiple_of(5 + (kills * 7 + life * 13) % 45) {
                kills += 1;
                yard.kill(keeper);
                keeper = yard.keep(&[]);
            }
        };
        yard.until("ready", |it| {
            strike(it);
            it.resource().phase() == Phase::Ready
        })
        .await;
        assert!(yard.processes().len() <= 1, "life {life}: never two");
        yard.stage.retire().await;
        yard.until("deleted", |it| {
            strike(it);
            it.resource().phase() == Phase::Deleted
        })
        .await;
        yard.until_nothing_is_left().await;
    }
}

async fn look(yard: &Yard) -> usher_domain::broker::observe::Observed {
    use usher_domain::broker::reconciler::Broker;
    use usher_kernel::World;
    World::<Broker>::observe(&yard.stage, &yard.stage.resource()).await.unwrap()
}

fn is_present(seen: &usher_domain::broker::observe::Observed, name: &str) -> bool {
    let present = |it: &usher_kernel::Answer| matches!(it, usher_kernel::Answer::Present { .. });
    seen.sightings.iter().any(|it| it.name.name == name && present(&it.answer))
}
