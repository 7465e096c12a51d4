//! The fleet's rows: leases that fence, and machines written many at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use usher_domain::fleet::accept::{Adopted, Raw, Report, adopt};
use usher_domain::fleet::aggregate::{Fields, Machine, State, Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::event::{Event, EventType};
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_kernel::{Answer, NameLedger, Sighting, Timestamp, Uid, Version};
use usher_store::{
    About, Acquisition, Cursor, Cycle, Error, List, MachineQuery, MachineWrite, Retention,
    ShardLease, Store, StoredMachine, Written,
};
use uuid::Uuid;

use crate::test_store::{TestStore, on_both, read_events};

/// Long enough for every test.
pub(crate) const LONG: Duration = Duration::from_mins(10);
/// How long something may take that is waited for.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Ended at once.
const OVER: Duration = Duration::ZERO;
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000);

pub(crate) fn shard(name: &str) -> ShardId {
    name.parse().unwrap()
}

pub(crate) fn cluster(name: &str) -> ClusterId {
    name.parse().unwrap()
}

pub(crate) async fn lease(store: &Store, name: &str, span: Duration) -> ShardLease {
    match store.acquire_shard(shard(name), Uuid::now_v7(), span).await.unwrap() {
        Acquisition::Ours(lease) => lease,
        Acquisition::Theirs(state) => panic!("another holder has {name}: {state:?}"),
    }
}

pub(crate) fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A machine that its provider reports idle, with very large and very small amounts.
fn found(id: &str, owner: &str) -> Adopted {
    let raw = Raw {
        id: id.to_owned(),
        state: 3,
        host: Some(("p".to_owned(), format!("host-{id}"))),
        instance_type: "small".to_owned(),
        zone: "z1".to_owned(),
        capacity_type: 3,
        price_per_hour: 0.123_456_789,
        interruption_probability: 0.25,
        resources: texts(&[("cpu", "4"), ("memory", "8Ei"), ("odd", "1n")]),
        labels: texts(&[("rack", "r'1 ü")]),
        ..Raw::default()
    };
    adopt(&Report::read(&raw).unwrap(), "p", &shard(owner), NOW).unwrap()
}

pub(crate) fn cycle(lease: &ShardLease) -> Cycle {
    Cycle { lease: lease.clone(), writes: vec![], adopted: vec![], lists: vec![] }
}

/// Adopts machines.
pub(crate) async fn settle(store: &Store, lease: &ShardLease, ids: &[&str]) -> Vec<StoredMachine> {
    let adopted = ids.iter().map(|it| found(it, lease.shard.as_str())).collect();
    let written = store.commit_cycle(Cycle { adopted, ..cycle(lease) }).await.unwrap();
    let mut all = vec![];
    for id in written.adopted {
        all.push(store.machine(id.unwrap()).await.unwrap());
    }
    all
}

pub(crate) fn bind(name: &str) -> Wanted {
    let assignment = Assignment { priority: -3, ..Assignment::default() };
    Wanted::of(Target::Bind(Binding { cluster: cluster(name), assignment }))
}

/// The write of another aim.
pub(crate) fn aim(it: &StoredMachine, wanted: Wanted) -> MachineWrite {
    MachineWrite {
        id: it.id,
        version: it.record.version,
        next: it.record.state.aimed(wanted),
        name_ledger: it.record.name_ledger.clone(),
        event: None,
    }
}

/// The write of a machine that became a node of a cluster.
pub(crate) fn joined(it: &StoredMachine, name: &str) -> MachineWrite {
    let binding = Binding { cluster: cluster(name), assignment: Assignment::default() };
    let host = it.record.state.state().host().unwrap().clone();
    let fields = Fields {
        state: State::Configured { host, binding },
        wanted: bind(name),
        ..it.record.state.fields().clone()
    };
    let next = Machine::hydrate(fields).unwrap();
    let event = Event {
        kind: EventType::Moved,
        from: Phase::Configuring,
        to: Phase::Configured,
        cluster: Some(cluster(name)),
        error: None,
    };
    MachineWrite { next, event: Some(event), ..aim(it, bind(name)) }
}

/// Red by: an acquisition that keeps the epoch, or that takes a lease which has not ended.
// Requirement: F-43
#[tokio::test]
async fn every_acquisition_raises_the_epoch_and_none_takes_a_lease_that_runs() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let first = lease(store, "s", LONG).await;
        assert_eq!(first.epoch, 1);
        assert_eq!(first.until, first.now.after(LONG));
        let taken = store.acquire_shard(shard("s"), Uuid::now_v7(), LONG).await.unwrap();
        let Acquisition::Theirs(state) = taken else { panic!("it was taken") };
        assert_eq!(state.lease, Some((first.holder, first.until)));
        assert!(state.is_held() && state.epoch == 1);
        assert!(store.release_shard(first.clone()).await.unwrap());
        assert!(!store.release_shard(first.clone()).await.unwrap(), "once");
        assert_eq!(store.renew_shard(first, LONG).await.unwrap(), None, "it was released");
        let second = lease(store, "s", OVER).await;
        let third = lease(store, "s", LONG).await;
        assert_eq!((second.epoch, third.epoch), (2, 3));
        let other = lease(store, "t", LONG).await;
        assert_eq!(other.epoch, 1, "each shard counts by itself");
        let all = store.shards().await.unwrap();
        assert_eq!(all.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["s", "t"]);
    })
    .await;
}

/// Red by: a claim that reads before it writes, so that two see the lease ended.
// Requirement: F-43
#[tokio::test]
async fn of_many_that_acquire_at_once_one_has_the_shard() {
    on_both(async |test: TestStore| {
        let mut tries = vec![];
        for _ in 0..8 {
            let store = std::sync::Arc::clone(&test.store);
            tries.push(tokio::spawn(async move {
                store.acquire_shard(shard("s"), Uuid::now_v7(), LONG).await.unwrap()
            }));
        }
        let mut ours = 0;
        for it in tries {
            ours += u32::from(matches!(it.await.unwrap(), Acquisition::Ours(_)));
        }
        assert_eq!(ours, 1);
        assert_eq!(test.store.shard(shard("s")).await.unwrap().unwrap().epoch, 1);
    })
    .await;
}

/// Red by: a commit that ignores epoch, holder or time, or that writes before it checks them.
// Requirement: F-48
#[tokio::test]
async fn a_shard_that_lost_its_lease_writes_nothing() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let old = lease(store, "s", LONG).await;
        let machine = settle(store, &old, &["m1"]).await.remove(0);
        store.release_shard(old.clone()).await.unwrap();
        let late = Cycle {
            writes: vec![aim(&machine, bind("a"))],
            adopted: vec![found("m2", "s")],
            lists: vec![List {
                provider: "p".to_owned(),
                revision: vec![1],
                credence: Credence::Whole,
            }],
            ..cycle(&old)
        };
        let refused = store.commit_cycle(late.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::LeaseLost { .. }), "{refused}");
        let ended = lease(store, "s", OVER).await;
        let after_its_time = Cycle { lease: ended.clone(), ..late.clone() };
        let refused = store.commit_cycle(after_its_time.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::LeaseLost { .. }), "its time is over: {refused}");
        let refused = store.heed_machines(old, vec![]).await.unwrap_err();
        assert!(matches!(refused, Error::LeaseLost { .. }), "{refused}");
        assert_eq!(store.machine(machine.id).await.unwrap(), machine);
        assert_eq!(store.find_machines("m2", None).await.unwrap(), []);
        assert_eq!(store.lists(&shard("s")).await.unwrap(), []);
        let renewed = store.renew_shard(ended, LONG).await.unwrap().unwrap();
        let written = store.commit_cycle(Cycle { lease: renewed, ..late }).await.unwrap();
        assert_eq!((written.adopted.len(), written.moved.len()), (1, 0), "no holder in between");
    })
    .await;
}

/// Red by: a field that is not stored, or stored in a type that rounds it.
// Requirement: F-49, F-58
#[tokio::test]
async fn machines_are_read_back_as_they_were_written() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let adopted = found("m1", "s");
        let [machine] = settle(store, &held, &["m1"]).await.try_into().unwrap();
        assert_eq!(machine.record.state, adopted.machine);
        assert_eq!(machine.record.name_ledger, NameLedger::new([adopted.row]));
        assert_eq!(machine.record.version, Version(1));
        let sighting = Sighting {
            plural: None,
            name: machine.record.state.name(),
            answer: Answer::Present { uid: Uid::new("m1"), ours: true },
            by: "p".to_owned(),
            at: NOW,
        };
        let rows = machine.record.name_ledger.absorb(&[sighting]);
        let name_ledger = machine.record.name_ledger.with(&rows);
        let write = MachineWrite { name_ledger: name_ledger.clone(), ..joined(&machine, "a") };
        let next = write.next.clone();
        let written = store.commit_cycle(Cycle { writes: vec![write], ..cycle(&held) }).await;
        assert_eq!(written.unwrap(), Written::default());
        let read = store.machine(machine.id).await.unwrap();
        assert_eq!((read.record.version, &read.record.state), (Version(2), &next));
        assert_eq!(read.record.name_ledger, name_ledger);
        let events = read_events(store, Cursor::START, 1).await;
        let about = About::Machine { id: machine.id, event_type: EventType::Moved };
        assert_eq!((events[0].about, events[0].version), (about, Version(2)));
        assert_eq!(events[0].data["cluster"], "a");
        assert_eq!(events[0].data["machine"], "m1");
    })
    .await;
}

/// Red by: a batch that fails as a whole, or that overwrites a newer version.
// Requirement: F-49
#[tokio::test]
async fn a_machine_that_moved_blocks_no_other_of_its_cycle() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let other = lease(store, "t", LONG).await;
        let mine = settle(store, &held, &["m1", "m2"]).await;
        let theirs = settle(store, &other, &["m3"]).await.remove(0);
        let stale = MachineWrite { version: Version(7), ..joined(&mine[0], "a") };
        let foreign = joined(&theirs, "a");
        let writes = vec![stale, joined(&mine[1], "a"), foreign];
        let written = store.commit_cycle(Cycle { writes, ..cycle(&held) }).await.unwrap();
        assert_eq!(written.moved, [mine[0].id, theirs.id]);
        assert_eq!(store.machine(mine[0].id).await.unwrap(), mine[0]);
        assert_eq!(store.machine(theirs.id).await.unwrap(), theirs, "another shard's");
        assert_eq!(store.machine(mine[1].id).await.unwrap().record.version, Version(2));
        assert_eq!(
            read_events(store, Cursor::START, 1).await.len(),
            1,
            "only what was written has an event"
        );
    })
    .await;
}

/// Red by: a name that two rows can have, or one that a machine which is gone keeps.
// Requirement: F-50
#[tokio::test]
async fn a_machine_has_one_owner_and_a_name_is_free_once_it_is_gone() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let other = lease(store, "t", LONG).await;
        let machine = settle(store, &held, &["m1"]).await.remove(0);
        let adopted = vec![found("m1", "t"), found("m2", "t"), found("m2", "t")];
        let written = store.commit_cycle(Cycle { adopted, ..cycle(&other) }).await.unwrap();
        let begun: Vec<bool> = written.adopted.iter().map(Option::is_some).collect();
        assert_eq!(begun, [false, true, false], "the first shard keeps it");
        let fields = Fields { state: State::Gone, ..machine.record.state.fields().clone() };
        let gone = MachineWrite {
            next: Machine::hydrate(fields).unwrap(),
            ..aim(&machine, Wanted::of(Target::Release))
        };
        store.commit_cycle(Cycle { writes: vec![gone], ..cycle(&held) }).await.unwrap();
        let again = settle(store, &other, &["m1"]).await.remove(0);
        let newest = store.find_machines("m1", None).await.unwrap();
        assert_eq!(newest, [again], "a machine that reappears gets a new record");
        assert_eq!(store.machines_of(&shard("s"), None, 9).await.unwrap().machines, []);
        let gone = MachineQuery { phase: Some(Phase::Gone), ..MachineQuery::default() };
        assert_eq!(store.machines(&gone, None, 9).await.unwrap().machines.len(), 1);
    })
    .await;
}

/// Red by: pages that skip, repeat or never end, or a broken row that stops the whole shard.
// Requirement: F-51
#[tokio::test]
async fn a_shard_is_read_page_by_page_and_a_broken_row_blocks_no_other() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let names: Vec<String> = (0..1_203).map(|it| format!("m{it:04}")).collect();
        let adopted = names.iter().map(|it| found(it, "s")).collect();
        store.commit_cycle(Cycle { adopted, ..cycle(&held) }).await.unwrap();
        test.database.execute("UPDATE machines SET phase = 'Failed' WHERE name = 'm0007'").await;
        let (mut read, mut broken, mut after) = (vec![], vec![], None);
        for _ in 0..100 {
            let roll = store.machines_of(&shard("s"), after, 100).await.unwrap();
            assert!(roll.machines.len() + roll.broken.len() <= 100);
            read.extend(roll.machines.iter().map(|it| it.record.state.id().to_string()));
            broken.extend(roll.broken);
            after = roll.next;
            if after.is_none() {
                break;
            }
        }
        read.sort();
        assert_eq!((read.len(), broken.len()), (1_202, 1));
        assert!(read.iter().eq(names.iter().filter(|it| *it != "m0007")));
        assert!(broken[0].1.contains("phase"), "{broken:?}");
    })
    .await;
}

/// Red by: rows of machines that are gone, kept for ever.
// Requirement: F-83
#[tokio::test]
async fn a_gone_machine_is_deleted_with_its_last_event() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let [one, _] = settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let fields = Fields { state: State::Gone, ..one.record.state.fields().clone() };
        let gone = MachineWrite {
            next: Machine::hydrate(fields).unwrap(),
            event: Some(Event {
                kind: EventType::Gone,
                from: one.record.state.phase(),
                to: Phase::Gone,
                cluster: None,
                error: None,
            }),
            ..joined(&one, "a")
        };
        store.commit_cycle(Cycle { writes: vec![gone], ..cycle(&held) }).await.unwrap();
        let kept = Retention { events: LONG, ..Retention::default() };
        assert_eq!(store.sweep(kept).await.unwrap().machines, 0, "an event still names it");
        let all = MachineQuery { gone: true, ..MachineQuery::default() };
        assert_eq!(store.machines(&all, None, 9).await.unwrap().machines.len(), 2);
        let now = Retention { events: Duration::ZERO, ..Retention::default() };
        let begun = Instant::now();
        // A recent event becomes old only later.
        while store.sweep(now).await.unwrap().machines == 0 {
            assert!(begun.elapsed() < TIMEOUT, "it is never deleted");
        }
        let left = store.machines(&all, None, 9).await.unwrap().machines;
        assert_eq!(left.iter().map(|it| it.record.state.id().as_str()).collect::<Vec<_>>(), ["m2"]);
    })
    .await;
}

/// Red by: a cursor that is written beside the machines instead of with them.
// Requirement: F-49
#[tokio::test]
async fn how_far_a_list_was_read_is_written_with_what_was_read() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let held = lease(store, "s", LONG).await;
        let list = |revision: &[u8], credence| List {
            provider: "p".to_owned(),
            revision: revision.to_vec(),
            credence,
        };
        for (revision, credence) in [(&b"41"[..], Credence::TooSmall), (b"42", Credence::Whole)] {
            let lists = vec![list(revision, credence)];
            store.commit_cycle(Cycle { lists, ..cycle(&held) }).await.unwrap();
        }
        let read = store.lists(&shard("s")).await.unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].list, list(b"42", Credence::Whole));
        assert!(read[0].at >= held.now);
    })
    .await;
}
