//! The fleet's rows: leases that fence, machines written many at once, demand that is judged once.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use usher_domain::audit::{self, Action};
use usher_domain::fleet::accept::{Adopted, Raw, Report, adopt};
use usher_domain::fleet::aggregate::{Dispute, Fields, Host, Machine, State, Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::event::{Event, EventType};
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Judged, RawNeed, Switch};
use usher_domain::object::id::{AuditId, MachineLifeId, ResourceId};
use usher_kernel::{Answer, Book, Sighting, Timestamp, Uid, Version};
use usher_store::{
    About, Acquisition, Brake, Cursor, Cycle, Error, List, MachineOrder, MachineQuery,
    MachineWrite, Place, Retention, RollUp, ShardLease, Store, StoredMachine, Written,
};
use uuid::Uuid;

use crate::bed::{Bed, on_both, told};
use crate::declare::World;

/// Long enough for every test.
const LONG: Duration = Duration::from_mins(10);
/// Ended at once.
const OVER: Duration = Duration::ZERO;
const NOW: Timestamp = Timestamp::from_millis(1_000);

pub(crate) fn shard(name: &str) -> ShardId {
    name.parse().unwrap()
}

fn cluster(name: &str) -> ClusterId {
    name.parse().unwrap()
}

async fn lease(store: &Store, name: &str, span: Duration) -> ShardLease {
    match store.acquire_shard(shard(name), Uuid::now_v7(), span).await.unwrap() {
        Acquisition::Ours(lease) => lease,
        Acquisition::Theirs(state) => panic!("somebody has {name}: {state:?}"),
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A machine that its provider shows idle, with amounts that no small number holds.
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

fn cycle(lease: &ShardLease) -> Cycle {
    Cycle { lease: lease.clone(), writes: vec![], adopted: vec![], lists: vec![] }
}

/// Takes machines into the store.
async fn settle(store: &Store, lease: &ShardLease, ids: &[&str]) -> Vec<StoredMachine> {
    let adopted = ids.iter().map(|it| found(it, lease.shard.as_str())).collect();
    let written = store.commit_cycle(Cycle { adopted, ..cycle(lease) }).await.unwrap();
    let mut all = vec![];
    for id in written.adopted {
        all.push(store.machine(id.unwrap()).await.unwrap());
    }
    all
}

fn bind(name: &str) -> Wanted {
    let assignment = Assignment { priority: -3, ..Assignment::default() };
    Wanted::of(Target::Bind(Binding { cluster: cluster(name), assignment }))
}

/// The write of another aim.
fn aim(it: &StoredMachine, wanted: Wanted) -> MachineWrite {
    MachineWrite {
        id: it.id,
        version: it.record.version,
        next: it.record.state.aimed(wanted),
        book: it.record.book.clone(),
        event: None,
    }
}

/// The write of a machine that became a node of a cluster.
fn joined(it: &StoredMachine, name: &str) -> MachineWrite {
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
#[tokio::test]
async fn every_acquisition_raises_the_epoch_and_none_takes_a_lease_that_runs() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let first = lease(store, "s", LONG).await;
        assert_eq!(first.epoch, 1);
        assert_eq!(first.until, first.now.after(LONG));
        let taken = store.acquire_shard(shard("s"), Uuid::now_v7(), LONG).await.unwrap();
        let Acquisition::Theirs(state) = taken else { panic!("it was taken") };
        assert_eq!(state.lease, Some((first.holder, first.until)));
        assert!(state.is_held() && state.epoch == 1);
        assert!(store.release_shard(first.clone()).await.unwrap());
        assert!(!store.release_shard(first.clone()).await.unwrap(), "once");
        assert_eq!(store.renew_shard(first, LONG).await.unwrap(), None, "it was given back");
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
#[tokio::test]
async fn of_many_that_acquire_at_once_one_has_the_shard() {
    on_both(async |bed: Bed| {
        let mut tries = vec![];
        for _ in 0..8 {
            let store = std::sync::Arc::clone(&bed.store);
            tries.push(tokio::spawn(async move {
                store.acquire_shard(shard("s"), Uuid::now_v7(), LONG).await.unwrap()
            }));
        }
        let mut ours = 0;
        for it in tries {
            ours += u32::from(matches!(it.await.unwrap(), Acquisition::Ours(_)));
        }
        assert_eq!(ours, 1);
        assert_eq!(bed.store.shard(shard("s")).await.unwrap().unwrap().epoch, 1);
    })
    .await;
}

/// Red by: a commit that does not look at epoch, holder or time, or that writes before it looks.
#[tokio::test]
async fn whoever_lost_the_lease_writes_nothing() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
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
        assert_eq!((written.adopted.len(), written.moved.len()), (1, 0), "nobody was in between");
    })
    .await;
}

/// Red by: a field that is not stored, or stored in a type that rounds it.
#[tokio::test]
async fn machines_are_read_back_as_they_were_written() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let adopted = found("m1", "s");
        let [machine] = settle(store, &held, &["m1"]).await.try_into().unwrap();
        assert_eq!(machine.record.state, adopted.machine);
        assert_eq!(machine.record.book, Book::new([adopted.row]));
        assert_eq!(machine.record.version, Version(1));
        let sighting = Sighting {
            name: machine.record.state.name(),
            answer: Answer::Present { uid: Uid::new("m1"), ours: true },
            by: "p".to_owned(),
            at: NOW,
        };
        let rows = machine.record.book.absorb(&[sighting]);
        let book = machine.record.book.with(&rows);
        let write = MachineWrite { book: book.clone(), ..joined(&machine, "a") };
        let next = write.next.clone();
        let written = store.commit_cycle(Cycle { writes: vec![write], ..cycle(&held) }).await;
        assert_eq!(written.unwrap(), Written::default());
        let read = store.machine(machine.id).await.unwrap();
        assert_eq!((read.record.version, &read.record.state), (Version(2), &next));
        assert_eq!(read.record.book, book);
        let told = told(store, Cursor::START, 1).await;
        let about = About::Machine { id: machine.id, event_type: EventType::Moved };
        assert_eq!((told[0].about, told[0].version), (about, Version(2)));
        assert_eq!(told[0].data["cluster"], "a");
        assert_eq!(told[0].data["machine"], "m1");
    })
    .await;
}

/// Red by: a batch that fails as a whole, or that writes over somebody else's version.
#[tokio::test]
async fn a_machine_that_moved_hinders_no_other_of_its_cycle() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
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
        assert_eq!(told(store, Cursor::START, 1).await.len(), 1, "only what was written is told");
    })
    .await;
}

/// Red by: a name that two rows can have, or one that a machine which is gone keeps.
#[tokio::test]
async fn a_machine_has_one_owner_and_a_name_is_free_once_it_is_gone() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let other = lease(store, "t", LONG).await;
        let machine = settle(store, &held, &["m1"]).await.remove(0);
        let adopted = vec![found("m1", "t"), found("m2", "t"), found("m2", "t")];
        let written = store.commit_cycle(Cycle { adopted, ..cycle(&other) }).await.unwrap();
        let begun: Vec<bool> = written.adopted.iter().map(Option::is_some).collect();
        assert_eq!(begun, [false, true, false], "whoever was first has it");
        let fields = Fields { state: State::Gone, ..machine.record.state.fields().clone() };
        let gone = MachineWrite {
            next: Machine::hydrate(fields).unwrap(),
            ..aim(&machine, Wanted::of(Target::Release))
        };
        store.commit_cycle(Cycle { writes: vec![gone], ..cycle(&held) }).await.unwrap();
        let again = settle(store, &other, &["m1"]).await.remove(0);
        let newest = store.find_machines("m1", None).await.unwrap();
        assert_eq!(newest, [again], "whoever comes back is another");
        assert_eq!(store.machines_of(&shard("s"), None, 9).await.unwrap().machines, []);
        let gone = MachineQuery { phase: Some(Phase::Gone), ..MachineQuery::default() };
        assert_eq!(store.machines(&gone, None, 9).await.unwrap().machines.len(), 1);
    })
    .await;
}

/// Red by: pages that skip, repeat or never end, or a broken row that stops the whole shard.
#[tokio::test]
async fn a_shard_is_read_page_by_page_and_a_broken_row_stops_nobody() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let names: Vec<String> = (0..1_203).map(|it| format!("m{it:04}")).collect();
        let adopted = names.iter().map(|it| found(it, "s")).collect();
        store.commit_cycle(Cycle { adopted, ..cycle(&held) }).await.unwrap();
        bed.ground.execute("UPDATE machines SET phase = 'Failed' WHERE name = 'm0007'").await;
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

fn disputed(it: &StoredMachine) -> MachineWrite {
    let host = Host { provider: "p".to_owned(), reference: "elsewhere".to_owned() };
    let fields = Fields {
        disputed: Some(Dispute { cluster: cluster("x"), host }),
        ..it.record.state.fields().clone()
    };
    MachineWrite { next: Machine::hydrate(fields).unwrap(), ..aim(it, bind("a")) }
}

/// Red by: an order that its shard does not hear of, or a mark that goes before it was read.
#[tokio::test]
async fn what_others_write_of_a_machine_is_shown_to_its_shard_until_it_has_read_it() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let [one, two] = settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let none = store.woken_machines(&shard("s"), 9).await.unwrap();
        assert_eq!(none.machines, [], "its own writes are known to it");
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let order = MachineOrder::Hold { holder, wanted: bind("a") };
        let first = store.order_machine(one.id, order.clone(), None).await.unwrap();
        assert_eq!(first.record.state.fields().holder, Some(holder));
        let again = store.order_machine(one.id, order, None).await.unwrap();
        assert_eq!(again, first, "asking again writes nothing");
        let held_by = MachineQuery { holder: Some(holder), ..MachineQuery::default() };
        let behind = store.machines(&held_by, None, 9).await.unwrap().machines;
        assert_eq!(behind, std::slice::from_ref(&first));
        let woken = store.woken_machines(&shard("s"), 9).await.unwrap().machines;
        assert_eq!(woken, std::slice::from_ref(&first));
        let late = Cycle { writes: vec![joined(&one, "b")], ..cycle(&held) };
        assert_eq!(store.commit_cycle(late).await.unwrap().moved, [one.id], "the order counts");
        store.heed_machines(held.clone(), vec![(one.id, Version(1))]).await.unwrap();
        assert_eq!(store.woken_machines(&shard("s"), 9).await.unwrap().machines.len(), 1);
        store.heed_machines(held.clone(), vec![(one.id, Version(2))]).await.unwrap();
        assert_eq!(store.woken_machines(&shard("s"), 9).await.unwrap().machines, []);
        let stranger = ResourceId::from_uuid(Uuid::now_v7());
        let other = MachineOrder::LetGo { holder: stranger, read: Version(2) };
        let refused = store.order_machine(one.id, other, None).await.unwrap_err();
        let code = |it: &Error| {
            let Error::FleetRefused(refusal) = it else { panic!("{it}") };
            refusal.code()
        };
        assert_eq!(code(&refused), "machine_not_held");
        store.commit_cycle(Cycle { writes: vec![disputed(&two)], ..cycle(&held) }).await.unwrap();
        let settle = MachineOrder::Settle(Settlement::Adopt);
        let settled = store.order_machine(two.id, settle.clone(), None).await.unwrap();
        assert_eq!(settled.record.state.phase(), Phase::Configured);
        let told = told(store, Cursor::START, 1).await;
        let about = About::Machine { id: two.id, event_type: EventType::Settled };
        assert_eq!((told[0].about, told[0].version), (about, settled.record.version));
        let refused = store.order_machine(two.id, settle, None).await.unwrap_err();
        assert_eq!(code(&refused), "not_disputed");
        let nobody = MachineLifeId::from_uuid(Uuid::now_v7());
        let order = MachineOrder::Settle(Settlement::Drain);
        let missing = store.order_machine(nobody, order, None).await.unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    })
    .await;
}

/// Two who take a machine each for one resource at the same time. On PostgreSQL neither gets at its
/// machine before both have asked, so that each could have found that the resource holds none.
async fn hold_at_once(
    bed: &Bed,
    machines: [MachineLifeId; 2],
    order: &MachineOrder,
) -> [Result<StoredMachine, Error>; 2] {
    let both = async {
        let taken = machines.map(|it| bed.store.order_machine(it, order.clone(), None));
        let [one, two] = taken;
        tokio::join!(one, two)
    };
    let Place::Postgres(url) = &bed.ground.place else { return both.await.into() };
    let mut held = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1 FROM machines FOR UPDATE").execute(&mut held).await.unwrap();
    let let_go = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let mut aside = PgConnection::connect(url).await.unwrap();
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut aside).await.unwrap() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sqlx::raw_sql("COMMIT").execute(&mut held).await.unwrap();
    };
    let (both, ()) = tokio::join!(both, let_go);
    both.into()
}

/// Red by: a resource whose row is not locked while it is looked up what it holds.
#[tokio::test]
async fn of_two_who_take_a_machine_for_one_resource_at_once_one_gets_it() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let machines: [StoredMachine; 2] =
            settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let holder = World::new(store).await.declare("n").await.id();
        let order = MachineOrder::Hold { holder, wanted: bind("a") };
        let taken = Box::pin(hold_at_once(&bed, machines.map(|it| it.id), &order)).await;
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
async fn only_machines_that_nobody_holds_and_nobody_disputes_are_free() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let [one, two, three] = settle(store, &held, &["m1", "m2", "m3"]).await.try_into().unwrap();
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let order = MachineOrder::Hold { holder, wanted: bind("a") };
        store.order_machine(one.id, order, None).await.unwrap();
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
#[tokio::test]
async fn a_resource_holds_one_machine_and_an_aim_takes_none() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let held = lease(store, "s", LONG).await;
        let [one, two] = settle(store, &held, &["m1", "m2"]).await.try_into().unwrap();
        let holder = ResourceId::from_uuid(Uuid::now_v7());
        let code = |it: Error| {
            let Error::FleetRefused(refusal) = &it else { panic!("{it}") };
            refusal.code()
        };
        let take = MachineOrder::Hold { holder, wanted: bind("a") };
        let taken = store.order_machine(one.id, take.clone(), None).await.unwrap().record.version;
        let second = store.order_machine(two.id, take, None).await.unwrap_err();
        assert_eq!(code(second), "machine_held");
        assert_eq!(store.machine_holders(&shard("s")).await.unwrap(), [holder]);
        let aim = |read| MachineOrder::Aim { holder, wanted: bind("b"), read };
        let let_go = |read| MachineOrder::LetGo { holder, read };
        let aimed = store.order_machine(one.id, aim(taken), None).await.unwrap().record;
        assert_eq!(*aimed.state.wanted(), bind("b"));
        for late in [aim(taken), let_go(taken)] {
            let moved = store.order_machine(one.id, late, None).await.unwrap_err();
            assert!(matches!(moved, Error::Conflict), "{moved}");
        }
        let gone = store.order_machine(one.id, let_go(aimed.version), None).await.unwrap().record;
        let late = store.order_machine(one.id, aim(gone.version), None).await.unwrap_err();
        assert_eq!(code(late), "machine_not_held");
        assert_eq!(store.machine_holders(&shard("s")).await.unwrap(), []);
    })
    .await;
}

/// Red by: rows of machines that nobody can have any more, kept for ever.
#[tokio::test]
async fn a_machine_that_is_gone_is_forgotten_with_the_log() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
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
        assert_eq!(store.sweep(kept).await.unwrap().machines, 0, "the log speaks of it");
        let all = MachineQuery { gone: true, ..MachineQuery::default() };
        assert_eq!(store.machines(&all, None, 9).await.unwrap().machines.len(), 2);
        let now = Retention { events: Duration::ZERO, ..Retention::default() };
        let mut forgotten = 0;
        while forgotten == 0 {
            // What was told a moment ago is old only later.
            forgotten = store.sweep(now).await.unwrap().machines;
        }
        let left = store.machines(&all, None, 9).await.unwrap().machines;
        assert_eq!(left.iter().map(|it| it.record.state.id().as_str()).collect::<Vec<_>>(), ["m2"]);
    })
    .await;
}

fn need(cpu: usize) -> RawNeed {
    RawNeed { aggregate: texts(&[("cpu", &cpu.to_string())]), ..RawNeed::default() }
}

fn roll_up(name: &str, by: &str, rows: usize) -> RollUp {
    RollUp { cluster: cluster(name), shard: shard(by), needs: (0..rows).map(need).collect() }
}

/// Red by: a judgement that is not kept, or a roll-up that replaces the demand without one.
#[tokio::test]
async fn a_roll_up_replaces_the_demand_unless_it_falls_too_suddenly() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        assert_eq!(store.demand(&cluster("a")).await.unwrap(), None);
        let heard = store.hear_demand(roll_up("a", "s", 20), None).await.unwrap();
        assert_eq!((heard.judged, heard.demand.version), (Judged::Accepted, Version(1)));
        for (times, judged, rows) in
            [(2, Judged::Held, 20), (3, Judged::Held, 20), (4, Judged::Accepted, 1)]
        {
            let heard = store.hear_demand(roll_up("a", "s", 1), None).await.unwrap();
            assert_eq!((heard.judged, heard.demand.needs.len()), (judged, rows));
            assert_eq!(heard.demand.version, Version(times));
            assert_eq!(heard.demand.trust.is_held(), judged == Judged::Held);
            assert_eq!(store.demand(&cluster("a")).await.unwrap(), Some(heard.demand));
        }
        let refused = store.hear_demand(roll_up("a", "t", 1), None).await.unwrap_err();
        assert!(matches!(refused, Error::Served { .. }), "{refused}");
        store.hear_demand(roll_up("b", "s", 2), None).await.unwrap();
        store.hear_demand(roll_up("c", "t", 0), None).await.unwrap();
        let versions = store.demand_versions(&shard("s")).await.unwrap();
        assert_eq!(versions, [(cluster("a"), Version(4)), (cluster("b"), Version(1))]);
        let page = |it: Vec<usher_store::Demand>| -> Vec<String> {
            it.into_iter().map(|it| it.cluster.to_string()).collect()
        };
        assert_eq!(page(store.demands(None, 2).await.unwrap()), ["a", "b"]);
        assert_eq!(page(store.demands(Some(&cluster("b")), 2).await.unwrap()), ["c"]);
    })
    .await;
}

/// Red by: a brake that forgets the other one, or an order without its row in the audit log.
#[tokio::test]
async fn brakes_are_kept_for_every_replica_with_who_pulled_them() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let entry = |action| audit::Entry {
            id: AuditId::from_uuid(Uuid::now_v7()),
            at: NOW,
            actor: "ann".to_owned(),
            action,
            project: None,
            subject: "s".to_owned(),
            detail: serde_json::Map::new(),
        };
        let missing = store.brake_shard(shard("s"), Brake::Pause, true, None).await.unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        lease(store, "s", LONG).await;
        let switch = async |brake, on, action| {
            let noted = Some(entry(action));
            store.brake_shard(shard("s"), brake, on, noted).await.unwrap()
        };
        let paused = switch(Brake::Pause, true, Action::FleetPause).await;
        assert_eq!(paused.switch(), Switch::Paused);
        let again = switch(Brake::Pause, true, Action::FleetPause).await;
        assert_eq!(again.paused_at, paused.paused_at, "the first time counts");
        switch(Brake::DryRun, true, Action::FleetDryRun).await;
        let resumed = switch(Brake::Pause, false, Action::FleetResume).await;
        assert_eq!(resumed.switch(), Switch::DryRun, "it was in a dry run, too");
        let running = switch(Brake::DryRun, false, Action::FleetDryRun).await;
        assert_eq!(running.switch(), Switch::Run);
        let audit = store.audit(None, 9).await.unwrap();
        let actions: Vec<_> = audit.iter().map(|it| it.action.as_str()).collect();
        let expected =
            ["fleet.pause", "fleet.pause", "fleet.dry_run", "fleet.resume", "fleet.dry_run"];
        assert_eq!(actions, expected);
    })
    .await;
}

/// Red by: a cursor that is written beside the machines instead of with them.
#[tokio::test]
async fn how_far_a_list_was_read_is_written_with_what_was_read() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
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
