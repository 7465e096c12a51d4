//! A write that wakes a life takes its lease as well, for whoever steps lives in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use usher_domain::broker::life::Broker;
use usher_domain::broker::reason::Reason;
use usher_domain::object::id::ResourceId;
use usher_domain::peers::DrainStep;
use usher_domain::tokens::Outcome;
use usher_kernel::{Decision, Ledger, Report, Wake};
use usher_store::{
    Handed, Handing, Leased, LeasedLedger, Life, Order, Release, ResourceWrite, Settings, Store,
};

use crate::bed::{Bed, on_both, on_both_with};
use crate::declare::{World, ending, record};
use crate::enrolment::{issue, request};

const SEATS: usize = 4;

fn take_over(store: &Store) -> (Handing, Arc<Semaphore>) {
    let seats = Arc::new(Semaphore::new(SEATS));
    (store.take_over(Arc::clone(&seats), Instant::now), seats)
}

async fn next(handing: &mut Handing) -> Handed {
    timeout(Duration::from_mins(1), handing.next()).await.expect("nobody is handed over").unwrap()
}

/// A resource that was handed over when it was declared.
async fn declared(store: &Arc<Store>) -> (World, Handing, Leased) {
    let world = World::new(store).await;
    let (mut handing, _) = take_over(store);
    world.declare("web").await;
    let Handed { leased, .. } = next(&mut handing).await;
    (world, handing, leased)
}

/// Gives a lease back; whether the life is due then.
async fn rest(store: &Store, Leased { life, claim, .. }: &Leased) -> bool {
    let (life, claim) = (*life, *claim);
    let reason = if matches!(life, Life::Tombstone(_)) { "AtRest" } else { "Steady" };
    let release = Release { life, claim, wake: Wake::OnChange, reason };
    assert!(store.release(release).await.unwrap(), "it is its own");
    store.entry(life).await.unwrap().unwrap().due.is_some()
}

/// Whoever is handed over is leased as one who was claimed, and as the row is.
async fn agrees(store: &Store, id: ResourceId, leased: &Leased) {
    let entry = store.entry(Life::Resource(id)).await.unwrap().unwrap();
    assert_eq!(leased.life, Life::Resource(id));
    assert_eq!(entry.lease_until, Some(leased.claim.until));
    assert_eq!(
        (entry.fence, entry.attempts, entry.wake_seq),
        (leased.claim.fence, leased.claim.attempt, leased.claim.wake_seq)
    );
    let row = store.resource(id).await.unwrap();
    assert_eq!((row.version, &row.book), (record(leased).version, &record(leased).book));
    assert_eq!(row.state.phase(), record(leased).state.phase());
    let batch = store.claim_due(64).await.unwrap();
    assert!(batch.leased.iter().all(|it| it.life != leased.life), "nobody else has it");
}

/// Red by: a lease that is taken and not handed over, handed over and not written, or another than
/// a claim would have given.
// Requirement: W-19
#[tokio::test]
async fn every_write_that_wakes_a_resource_hands_it_over() {
    on_both(async |bed: Bed| {
        let (store, world) = (&bed.store, World::new(&bed.store).await);
        let (mut handing, seats) = take_over(store);
        let id = world.declare("web").await.id();
        let declared = next(&mut handing).await;
        agrees(store, id, &declared.leased).await;
        assert_eq!(record(&declared.leased).state, store.resource(id).await.unwrap().state);
        assert_eq!(seats.available_permits(), SEATS - 1, "it has a seat");
        issue(store, id).await.unwrap();
        assert!(!rest(store, &declared.leased).await, "its own declaration is no wake-up");
        drop(declared);

        let _ = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        let redeemed = next(&mut handing).await;
        agrees(store, id, &redeemed.leased).await;
        assert!(!rest(store, &redeemed.leased).await, "the wake-up came before its look");
        drop(redeemed);

        let cordoned = store.peers(id).await.unwrap().remove(0);
        let now = store.now().await.unwrap();
        let moved = cordoned.advance(DrainStep::Cordon, now);
        store.move_peer(cordoned, moved).await.unwrap();
        let left = next(&mut handing).await;
        agrees(store, id, &left.leased).await;
        assert!(!rest(store, &left.leased).await);
        drop(left);

        store.order(id, Order::Deprovision, None).await.unwrap();
        let ordered = next(&mut handing).await;
        agrees(store, id, &ordered.leased).await;
        assert!(record(&ordered.leased).state.is_tearing_down(), "as it is since the order");
        drop(ordered);
        assert_eq!(seats.available_permits(), SEATS);
    })
    .await;
}

/// Red by: a second lease beside the first, or a wake-up that is lost on whoever has it.
// Requirement: W-19
#[tokio::test]
async fn whoever_is_leased_is_woken_and_not_handed_over_again() {
    on_both(async |bed: Bed| {
        let (store, world) = (&bed.store, World::new(&bed.store).await);
        let (mut handing, seats) = take_over(store);
        let id = world.declare("web").await.id();
        let declared = next(&mut handing).await;
        issue(store, id).await.unwrap();
        let _ = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        store.order(id, Order::Deprovision, None).await.unwrap();
        assert_eq!(seats.available_permits(), SEATS - 1, "nobody else has a seat");
        let entry = store.entry(Life::Resource(id)).await.unwrap().unwrap();
        assert_eq!(entry.wake_seq, declared.leased.claim.wake_seq + 2);
        assert_eq!(entry.lease_until, Some(declared.leased.claim.until));
        assert!(rest(store, &declared.leased).await, "it was woken since it was taken");
        assert!(handing.close().is_empty());
    })
    .await;
}

/// Red by: a lease that nobody can take, which would end only by itself.
// Requirement: W-19
#[tokio::test]
async fn nobody_is_handed_over_without_a_seat_a_taker_or_a_write() {
    on_both(async |bed: Bed| {
        let (store, world) = (&bed.store, World::new(&bed.store).await);
        let is_free = async |name: &str| {
            let life = Life::Resource(world.declare(name).await.id());
            store.entry(life).await.unwrap().unwrap().lease_until.is_none()
        };
        assert!(is_free("before").await, "nobody asked for it");
        let (mut handing, seats) = take_over(store);
        handing.set_crowded(true);
        assert!(is_free("crowded").await, "others wait");
        handing.set_crowded(false);
        let all = Arc::clone(&seats).try_acquire_many_owned(4).unwrap();
        assert!(is_free("full").await);
        drop(all);
        assert!(!is_free("taken").await);
        let refused =
            store.redeem(request(&world, world.declare("x").await.id(), "nonce-nonce-nonce-1"));
        assert!(matches!(refused.await.unwrap(), Outcome::Refused(_)), "it has no token");
        assert_eq!(seats.available_permits(), SEATS - 2, "two wait to be taken");
        assert_eq!(handing.close().len(), 2);
        assert!(is_free("closed").await);
    })
    .await;
}

fn report(wake: Wake) -> Report<Reason> {
    Report { reason: Reason::WaitingForNode, wake, acted: false, committed: false }
}

/// Red by: an order that a later wake-up hides from whoever has the life with its old record.
// Requirement: W-20
#[tokio::test]
async fn an_order_is_not_taken_for_seen_because_something_later_is() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let (world, _handing, leased) = declared(store).await;
        let id = record(&leased).state.id();
        issue(store, id).await.unwrap();
        let held = record(&leased).clone();
        let ledger = LeasedLedger::new(store, (leased.life, leased.claim), held.clone(), &|| true);
        Ledger::<Broker>::load(&ledger).await.unwrap();
        let _ = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        store.order(id, Order::Deprovision, None).await.unwrap();
        let peer = store.peers(id).await.unwrap().remove(0);
        let moved = peer.advance(DrainStep::Cordon, store.now().await.unwrap());
        store.move_peer(peer, moved).await.unwrap();
        let rests = Ok(report(Wake::OnChange));
        assert!(ledger.finish(&rests, Reason::as_str).await.unwrap().is_some(), "it was woken");
        let next = LeasedLedger::new(store, (leased.life, ledger.claim()), held, &|| true);
        Ledger::<Broker>::load(&next).await.unwrap();
        assert_eq!(next.finish(&rests, Reason::as_str).await.unwrap(), None);
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert!(entry.due.is_some(), "its record is not what was ordered");
    })
    .await;
}

/// Red by: a tombstone that has to be looked for.
// Requirement: W-19
#[tokio::test]
async fn an_end_hands_its_tombstone_over() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let (_, mut handing, leased) = declared(store).await;
        let id = record(&leased).state.id();
        let ResourceWrite { next: state, rows, event, .. } = ending(record(&leased));
        let (lease, held) = ((leased.life, leased.claim), record(&leased).clone());
        let ledger = LeasedLedger::new(store, lease, held.clone(), &|| true);
        let (wake, reason) = (Wake::Never, Reason::Gone);
        let end = Decision::<Broker> { next: state, rows, effect: None, event, wake, reason };
        ledger.commit(held.version, &end).await.unwrap();
        let buried = next(&mut handing).await.leased;
        assert_eq!(buried.life, Life::Tombstone(id));
        assert_eq!(*record(&buried), store.resource(id).await.unwrap());
        let entry = store.entry(buried.life).await.unwrap().unwrap();
        assert_eq!(entry.lease_until, Some(buried.claim.until));
        assert!(!rest(store, &buried).await, "it rests until something comes back");
    })
    .await;
}

/// Red by: a lease that is lost because whoever took it over has just stopped.
// Requirement: W-19
#[tokio::test]
async fn a_lease_that_nobody_works_under_is_given_back_at_once() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let (world, _handing, leased) = declared(store).await;
        assert!(store.give_back(leased.life, leased.claim).await.unwrap());
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 0), "nobody tried");
        assert_eq!(entry.heard_until(), None, "and nobody can be heard");
        assert!(!store.give_back(leased.life, leased.claim).await.unwrap(), "it has none any more");
        let again = world.claim(leased.life).await;
        assert!(!store.give_back(leased.life, leased.claim).await.unwrap(), "it was overtaken");
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert_eq!(entry.lease_until, Some(again.claim.until));
    })
    .await;
}

fn patient() -> Settings {
    Settings { linger: Duration::from_mins(10), ..Settings::default() }
}

/// Red by: a life that gives its lease back although what it waits for came, or one that was looked
/// at and is due again because of that.
// Requirement: W-20
#[tokio::test]
async fn whoever_waits_keeps_its_lease_for_what_comes_and_sees_it() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
        let (world, _handing, leased) = declared(store).await;
        let id = record(&leased).state.id();
        issue(store, id).await.unwrap();
        let later = Wake::At(leased.now.after(Duration::from_secs(30)));
        let held = record(&leased).clone();

        let ledger = LeasedLedger::new(store, (leased.life, leased.claim), held.clone(), &|| true);
        Ledger::<Broker>::load(&ledger).await.unwrap();
        let _ = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        let kept = ledger.finish(&Ok(report(later)), Reason::as_str).await.unwrap();
        assert!(kept.is_some(), "it goes on under its lease");
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert_eq!(ledger.claim().wake_seq, entry.wake_seq, "which is the one it sees next");

        let next = LeasedLedger::new(store, (leased.life, ledger.claim()), held, &|| true);
        Ledger::<Broker>::load(&next).await.unwrap();
        let rests = report(Wake::OnChange);
        assert_eq!(next.finish(&Ok(rests), Reason::as_str).await.unwrap(), None);
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.due), (None, None), "nothing new came");
    })
    .await;
}

/// Red by: a step that gives its lease back a moment before what it waits for comes.
// Requirement: W-20
#[tokio::test]
async fn whoever_waits_keeps_its_lease_until_something_comes() {
    on_both_with(patient(), async |bed: Bed| {
        let store = &bed.store;
        let (_, _handing, leased) = declared(store).await;
        let id = record(&leased).state.id();
        let lease = (leased.life, leased.claim);
        let ledger = LeasedLedger::new(store, lease, record(&leased).clone(), &|| true);
        Ledger::<Broker>::load(&ledger).await.unwrap();
        let watch = Arc::clone(store);
        let comes = tokio::spawn(async move {
            sleep(Duration::from_millis(20)).await;
            watch.nudge(id);
        });
        let waits = Ok(report(Wake::At(leased.now.after(Duration::from_secs(30)))));
        let kept = ledger.finish(&waits, Reason::as_str).await.unwrap();
        assert!(kept.is_some(), "it goes on under its lease");
        comes.await.unwrap();
    })
    .await;
}

/// Red by: a lease that is kept although others wait for the seat.
// Requirement: W-20
#[tokio::test]
async fn whoever_waits_while_others_do_gives_its_lease_back() {
    on_both_with(patient(), async |bed: Bed| {
        let store = &bed.store;
        let (_, handing, leased) = declared(store).await;
        let later = leased.now.after(Duration::from_secs(30));
        let lease = (leased.life, leased.claim);
        let ledger = LeasedLedger::new(store, lease, record(&leased).clone(), &|| true);
        Ledger::<Broker>::load(&ledger).await.unwrap();
        handing.set_crowded(true);
        let waits = Ok(report(Wake::At(later)));
        let finished = timeout(Duration::from_mins(2), ledger.finish(&waits, Reason::as_str));
        assert_eq!(finished.await.expect("it lingers").unwrap(), None);
        let entry = store.entry(leased.life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.due), (None, Some(later)));
    })
    .await;
}
