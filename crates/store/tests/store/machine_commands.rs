//! Commands about a machine by other writers than its shard: its holder and its desired binding.

use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};
use usher_domain::fleet::aggregate::{Dispute, Fields, Host, Machine};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::event::EventType;
use usher_domain::fleet::phase::Phase;
use usher_domain::object::id::{MachineRecordId, ResourceId};
use usher_kernel::Version;
use usher_store::{
    About, Cursor, Cycle, Error, MachineCommand, MachineQuery, MachineWrite, Place, StoredMachine,
};
use uuid::Uuid;

use crate::declare::World;
use crate::fleet::{LONG, TIMEOUT, aim, bind, cluster, cycle, joined, lease, settle, shard};
use crate::test_store::{TestStore, on_both, read_events};

fn disputed(it: &StoredMachine) -> MachineWrite {
    let host = Host { provider: "p".to_owned(), reference: "elsewhere".to_owned() };
    let fields = Fields {
        disputed: Some(Dispute { cluster: cluster("x"), host }),
        ..it.record.state.fields().clone()
    };
    MachineWrite { next: Machine::hydrate(fields).unwrap(), ..aim(it, bind("a")) }
}

/// Red by: a command that its shard does not see, or a mark that is removed before it was read.
// Requirement: F-47, F-52
#[tokio::test]
async fn writes_of_others_to_a_machine_are_marked_until_its_shard_reads_them() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let [one, two] = settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let none = store.woken_machines(&shard("s"), 9).await.unwrap();
        assert_eq!(none.machines, [], "its own writes are known to it");
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let command = MachineCommand::Hold { holder, wanted: bind("a") };
        let first = store.command_machine(one.id, command.clone(), None).await.unwrap();
        assert_eq!(first.record.state.fields().holder, Some(holder));
        let again = store.command_machine(one.id, command, None).await.unwrap();
        assert_eq!(again, first, "a repeated command writes nothing");
        let held_by = MachineQuery { holder: Some(holder), ..MachineQuery::default() };
        let behind = store.machines(&held_by, None, 9).await.unwrap().machines;
        assert_eq!(behind, std::slice::from_ref(&first));
        let woken = store.woken_machines(&shard("s"), 9).await.unwrap().machines;
        assert_eq!(woken, std::slice::from_ref(&first));
        let late = Cycle { writes: vec![joined(&one, "b")], ..cycle(&held) };
        assert_eq!(store.commit_cycle(late).await.unwrap().moved, [one.id], "the command wins");
        store.heed_machines(held.clone(), vec![(one.id, Version(1))]).await.unwrap();
        assert_eq!(store.woken_machines(&shard("s"), 9).await.unwrap().machines.len(), 1);
        store.heed_machines(held.clone(), vec![(one.id, Version(2))]).await.unwrap();
        assert_eq!(store.woken_machines(&shard("s"), 9).await.unwrap().machines, []);
        let another = ResourceId::from_uuid(Uuid::now_v7());
        let other = MachineCommand::LetGo { holder: another, read: Version(2) };
        let refused = store.command_machine(one.id, other, None).await.unwrap_err();
        let code = |it: &Error| {
            let Error::FleetRefused(refusal) = it else { panic!("{it}") };
            refusal.code()
        };
        assert_eq!(code(&refused), "machine_not_held");
        store.commit_cycle(Cycle { writes: vec![disputed(&two)], ..cycle(&held) }).await.unwrap();
        let settle = MachineCommand::Settle(Settlement::Adopt);
        let settled = store.command_machine(two.id, settle.clone(), None).await.unwrap();
        assert_eq!(settled.record.state.phase(), Phase::Configured);
        let events = read_events(store, Cursor::START, 1).await;
        let about = About::Machine { id: two.id, event_type: EventType::Settled };
        assert_eq!((events[0].about, events[0].version), (about, settled.record.version));
        let refused = store.command_machine(two.id, settle, None).await.unwrap_err();
        assert_eq!(code(&refused), "not_disputed");
        let unknown = MachineRecordId::from_uuid(Uuid::now_v7());
        let command = MachineCommand::Settle(Settlement::Drain);
        let missing = store.command_machine(unknown, command, None).await.unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    })
    .await;
}

/// Two callers take a machine each for one resource at the same time. On PostgreSQL neither gets
/// its machine's lock before both have read, so that each could have found that the resource holds
/// none.
async fn hold_at_once(
    test: &TestStore,
    machines: [MachineRecordId; 2],
    command: &MachineCommand,
) -> [Result<StoredMachine, Error>; 2] {
    let both = async {
        let taken = machines.map(|it| test.store.command_machine(it, command.clone(), None));
        let [one, two] = taken;
        tokio::join!(one, two)
    };
    let Place::Postgres(url) = &test.database.place else { return both.await.into() };
    let mut held = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1 FROM machines FOR UPDATE").execute(&mut held).await.unwrap();
    let let_go = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let mut aside = PgConnection::connect(url).await.unwrap();
        let begun = Instant::now();
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut aside).await.unwrap() < 2 {
            assert!(begun.elapsed() < TIMEOUT, "they do not wait for their machines");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sqlx::raw_sql("COMMIT").execute(&mut held).await.unwrap();
    };
    let (both, ()) = tokio::join!(both, let_go);
    both.into()
}

/// Red by: a resource whose row is not locked while its machines are read.
// Requirement: F-82
#[tokio::test]
async fn of_two_who_take_a_machine_for_one_resource_at_once_one_gets_it() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let machines: [StoredMachine; 2] =
            settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let holder = World::new(store).await.declare("n").await.id();
        let command = MachineCommand::Hold { holder, wanted: bind("a") };
        let taken = Box::pin(hold_at_once(&test, machines.map(|it| it.id), &command)).await;
        let mut codes = taken.map(|it| match it {
            Ok(_) => "taken",
            Err(Error::FleetRefused(refusal)) => refusal.code(),
            Err(other) => panic!("{other}"),
        });
        codes.sort_unstable();
        assert_eq!(codes, ["machine_held", "taken"]);
    })
    .await;
}

/// Red by: a machine that is held or disputed and is offered as a free one.
#[tokio::test]
async fn only_machines_neither_held_nor_disputed_are_free() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let [one, two, three] = settle(store, &held, &["m1", "m2", "m3"]).await.try_into().unwrap();
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let command = MachineCommand::Hold { holder, wanted: bind("a") };
        store.command_machine(one.id, command, None).await.unwrap();
        let written = Cycle { writes: vec![disputed(&two)], ..cycle(&held) };
        store.commit_cycle(written).await.unwrap();
        let free = MachineQuery { phase: Some(Phase::Idle), free: true, ..Default::default() };
        let roll = store.machines(&free, None, 10).await.unwrap();
        assert_eq!(roll.machines.iter().map(|it| it.id).collect::<Vec<_>>(), [three.id]);
    })
    .await;
}

/// Red by: two servers that take a machine each for one resource, or an aim that comes late and
/// takes a machine again.
// Requirement: F-82
#[tokio::test]
async fn a_resource_holds_one_machine_and_an_aim_takes_none() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let [one, two] = settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let code = |it: Error| {
            let Error::FleetRefused(refusal) = &it else { panic!("{it}") };
            refusal.code()
        };
        let take = MachineCommand::Hold { holder, wanted: bind("a") };
        let taken = store.command_machine(one.id, take.clone(), None).await.unwrap().record.version;
        let second = store.command_machine(two.id, take, None).await.unwrap_err();
        assert_eq!(code(second), "machine_held");
        assert_eq!(store.machine_holders(&shard("s")).await.unwrap(), [holder]);
        let aim = |read| MachineCommand::Aim { holder, wanted: bind("b"), read };
        let let_go = |read| MachineCommand::LetGo { holder, read };
        let aimed = store.command_machine(one.id, aim(taken), None).await.unwrap().record;
        assert_eq!(*aimed.state.wanted(), bind("b"));
        for late in [aim(taken), let_go(taken)] {
            let moved = store.command_machine(one.id, late, None).await.unwrap_err();
            assert!(matches!(moved, Error::Conflict), "{moved}");
        }
        let gone = store.command_machine(one.id, let_go(aimed.version), None).await.unwrap().record;
        let late = store.command_machine(one.id, aim(gone.version), None).await.unwrap_err();
        assert_eq!(code(late), "machine_not_held");
        assert_eq!(store.machine_holders(&shard("s")).await.unwrap(), []);
    })
    .await;
}
