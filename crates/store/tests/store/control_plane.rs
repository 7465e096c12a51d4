//! What worlds and the mesh write, and which items are woken by it.

use std::collections::BTreeSet;
use std::time::Duration;

use usher_domain::object::authority::Pin;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::object::name;
use usher_domain::peers::DrainStep;
use usher_domain::tokens::{Lifetime, Outcome, Request};
use usher_kernel::{Generation, Uid, Wake};
use usher_store::{PeerFilter, Release, Settings, Store, WorkItem};
use uuid::Uuid;

use crate::declare::{World, server_key};
use crate::test_store::{TestDatabase, TestStore, on_both};

fn pin(identity: &str, revision: u64) -> Pin {
    Pin { identity: Uid::new(identity), revision }
}

/// Red by: a pin that another world changes, or a revision that decreases.
#[tokio::test]
async fn a_world_is_pinned_once_and_its_revision_only_grows() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        assert_eq!(store.world("w").await.unwrap(), None);
        for (answered, remembered) in [
            (pin("a", 5), pin("a", 5)),
            (pin("a", 7), pin("a", 7)),
            (pin("a", 6), pin("a", 7)),
            (pin("b", 9), pin("a", 7)),
        ] {
            let state = store.pin_world("w".to_owned(), answered).await.unwrap();
            assert_eq!(state.pin, remembered);
        }
    })
    .await;
}

/// Red by: a mass-deletion guard that trips twice, or whose reset wakes no item.
// Requirement: O-9
#[tokio::test]
async fn a_guard_trips_once_and_its_reset_wakes_every_item() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let id = world.declare("web").await.id();
        assert!(!store.set_guard("w".to_owned(), true).await.unwrap(), "it is not pinned");
        store.pin_world("w".to_owned(), pin("a", 1)).await.unwrap();
        assert!(store.set_guard("w".to_owned(), true).await.unwrap());
        assert!(!store.set_guard("w".to_owned(), true).await.unwrap());
        let before = store.entry(WorkItem::Resource(id)).await.unwrap().unwrap().wake_seq;
        assert!(store.set_guard("w".to_owned(), false).await.unwrap());
        let state = store.world("w").await.unwrap().unwrap();
        assert!(state.tripped_at.is_none() && state.opened_at.is_some());
        let after = store.entry(WorkItem::Resource(id)).await.unwrap().unwrap().wake_seq;
        assert_eq!(after, before + 1);
    })
    .await;
}

/// The peer that a resource gets.
async fn registered(world: &World, id: ResourceId) -> PeerId {
    let (store, generation) = (&world.store, Generation::FIRST);
    store.issue(server_key(), id, generation, Lifetime::default()).await.unwrap();
    let request = Request {
        text: server_key().derive(name::token(id, generation), generation),
        project: world.project,
        nonce: "nonce-nonce-nonce-1".parse().unwrap(),
        public_key: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".parse().unwrap(),
        peer: PeerId::from_uuid(Uuid::now_v7()),
    };
    let Outcome::Redeemed(consumed) = store.redeem(request).await.unwrap() else {
        panic!("it is not redeemed");
    };
    consumed.peer
}

/// Red by: an acknowledged snapshot that decreases, or that wakes no resource or the wrong one.
// Requirement: M-17
#[tokio::test]
async fn requested_acknowledgements_are_recorded_and_wake_the_drained_resource() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let (leaving, staying) = (world.declare("a").await.id(), world.declare("b").await.id());
        let (leaver, survivor) =
            (registered(&world, leaving).await, registered(&world, staying).await);
        let seq = async |id| store.entry(WorkItem::Resource(id)).await.unwrap().unwrap().wake_seq;
        assert_eq!(store.leaving(world.project).await.unwrap(), []);
        assert!(!store.ask_acknowledgements(leaver).await.unwrap(), "it is not being drained");
        let now = store.now().await.unwrap();
        for step in [DrainStep::Cordon, DrainStep::RevokeKey] {
            let peer = store.peer(leaver).await.unwrap().unwrap().peer;
            store.move_peer(peer.clone(), peer.advance(step, now)).await.unwrap();
            assert_eq!(store.leaving(world.project).await.unwrap().len(), 1);
        }
        let before = (seq(leaving).await, seq(staying).await);
        store.acknowledge(world.project, vec![survivor], 5).await.unwrap();
        assert_eq!((seq(leaving).await, seq(staying).await), before, "not requested");
        assert!(store.ask_acknowledgements(leaver).await.unwrap());
        assert!(!store.ask_acknowledgements(leaver).await.unwrap(), "once");
        assert!(store.leaving(world.project).await.unwrap()[0].asked_at.is_some());
        for (acknowledged, kept) in [(7, 7), (6, 7)] {
            store.acknowledge(world.project, vec![survivor], acknowledged).await.unwrap();
            assert_eq!(store.peer(survivor).await.unwrap().unwrap().acknowledged, kept);
        }
        assert_eq!((seq(leaving).await, seq(staying).await), (before.0 + 2, before.1));
    })
    .await;
}

/// Red by: a lost peer that is written again and again, or that wakes no resource.
// Requirement: M-13
#[tokio::test]
async fn a_peer_is_lost_once_and_live_again_once_and_wakes_its_resource() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let id = world.declare("web").await.id();
        let peer = registered(&world, id).await;
        let seq = async || store.entry(WorkItem::Resource(id)).await.unwrap().unwrap().wake_seq;
        let before = seq().await;
        let server = store.appear().await.unwrap().number;
        assert!(!store.claim_peer(peer, server).await.unwrap(), "it was not lost");
        assert_eq!(seq().await, before, "nothing changed for its resource");
        assert!(!store.lose_peer(peer, None).await.unwrap(), "a server hears it meanwhile");
        assert!(store.lose_peer(peer, Some(server)).await.unwrap());
        assert!(!store.lose_peer(peer, Some(server)).await.unwrap(), "it already is");
        assert!(store.claim_peer(peer, server).await.unwrap());
        assert!(!store.claim_peer(peer, server).await.unwrap());
        assert_eq!(seq().await, before + 2);
        let (now, mesh) = store.mesh(world.project).await.unwrap();
        assert!(now.unwrap() <= store.now().await.unwrap());
        assert_eq!((mesh.len(), mesh[0].lost_since), (1, None));
        assert_eq!(mesh[0].claimed_by, Some(server));
        assert_eq!(store.peers_of(vec![id]).await.unwrap(), mesh);
        assert_eq!(store.peers_of(vec![]).await.unwrap(), []);
        let listed = store.list_peers(PeerFilter::default(), None, 5).await.unwrap();
        assert_eq!(listed, [(mesh[0].clone(), "web".to_owned())]);
        let other = PeerFilter {
            project: Some(ProjectId::from_uuid(Uuid::nil())),
            ..PeerFilter::default()
        };
        assert_eq!(store.list_peers(other, None, 5).await.unwrap(), []);
        assert_eq!(store.list_peers(PeerFilter::default(), Some(peer), 5).await.unwrap(), []);
        let context =
            store.resource_context(&store.resource(id).await.unwrap().state).await.unwrap();
        assert_eq!((context.peers, context.tokens.len()), (mesh, 1));
    })
    .await;
}

/// Red by: a node whose server is gone and that no server expects, or one that is expected although
/// its server is present.
// Requirement: M-18
#[tokio::test]
async fn peers_are_unheard_unless_a_present_server_hears_them() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let mut peers = Vec::new();
        for name in ["a", "b", "c"] {
            peers.push(registered(&world, world.declare(name).await.id()).await);
        }
        peers.sort();
        let mut first = store.appear().await.unwrap();
        let found = store.sight(&mut first).await.unwrap();
        assert_eq!(found.present, BTreeSet::from([first.number]));
        let sorted = |mut it: Vec<_>| {
            it.sort();
            it
        };
        let none: Vec<_> = peers.iter().map(|it| (*it, None)).collect();
        assert_eq!(sorted(found.unclaimed), none);
        assert_eq!(found.draining_projects, BTreeSet::new());
        for peer in &peers {
            store.claim_peer(*peer, first.number).await.unwrap();
        }
        assert_eq!(store.sight(&mut first).await.unwrap().unclaimed, []);
        assert!(store.lose_peer(peers[2], Some(first.number)).await.unwrap());
        let gone = first.number;
        drop(first);
        let mut second = store.appear().await.unwrap();
        assert!(second.number > gone, "a number is not used again");
        let mut found = store.sight(&mut second).await.unwrap();
        // The database may notice a closed session a little later.
        for _ in 0..6_000 {
            if found.present.len() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            found = store.sight(&mut second).await.unwrap();
        }
        let unclaimed = vec![(peers[0], Some(gone)), (peers[1], Some(gone))];
        assert_eq!(sorted(found.unclaimed), unclaimed, "a lost peer is not expected");
        store.claim_peer(peers[0], second.number).await.unwrap();
        let found = store.sight(&mut second).await.unwrap();
        assert_eq!(found.unclaimed, [(peers[1], Some(gone))]);
        let peer = store.peer(peers[1]).await.unwrap().unwrap().peer;
        let cordoned = peer.advance(DrainStep::Cordon, store.now().await.unwrap());
        store.move_peer(peer, cordoned).await.unwrap();
        let found = store.sight(&mut second).await.unwrap();
        assert_eq!(found.draining_projects, BTreeSet::from([world.project]));
    })
    .await;
}

/// Red by: two servers that take each other for absent.
// Requirement: M-18
#[tokio::test]
async fn servers_that_share_a_database_see_each_other() {
    let Some(database) = TestDatabase::postgres().await else { return };
    let open = async || Store::open(&database.place, Settings::default()).await.unwrap();
    let (here, there) = (open().await, open().await);
    let mut one = here.appear().await.unwrap();
    let mut other = there.appear().await.unwrap();
    let both = BTreeSet::from([one.number, other.number]);
    assert_eq!(both.len(), 2);
    assert_eq!(here.sight(&mut one).await.unwrap().present, both);
    assert_eq!(there.sight(&mut other).await.unwrap().present, both);
    let rows = database.number("SELECT count(*) FROM servers").await;
    assert_eq!(rows, 2, "a present server is not forgotten");
    // As if the network had broken.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
        WHERE locktype = 'advisory' AND database =
            (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(database.number(kill).await, 2);
    assert!(here.sight(&mut one).await.is_err());
    let mut again = here.appear().await.unwrap();
    assert!(again.number > other.number);
    assert!(here.sight(&mut again).await.unwrap().present.contains(&again.number));
}

/// Red by: a write that makes an item due without a signal.
// Requirement: W-15
#[tokio::test]
async fn a_write_that_makes_an_item_due_is_signalled_in_this_process() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let mut due = store.due();
        due.clear();
        let id = world.declare("web").await.id();
        tokio::time::timeout(Duration::from_mins(1), due.wait()).await.unwrap();
        due.clear();
        store.wake(WorkItem::Resource(id)).await.unwrap();
        tokio::time::timeout(Duration::from_mins(1), due.wait()).await.unwrap();
        due.clear();
        store.now().await.unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(20), due.wait()).await;
        assert!(woken.is_err(), "a read makes no item due");
    })
    .await;
}

/// Red by: an item that was woken during its step and waits for the next poll.
// Requirement: W-18
#[tokio::test]
async fn a_released_lease_is_signalled_if_its_item_is_due() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        for (wake, woken, signalled) in
            [(Wake::OnChange, false, false), (Wake::OnChange, true, true), (Wake::Now, false, true)]
        {
            store.wake(item).await.unwrap();
            let claim = world.claim(item).await.claim;
            if woken {
                store.wake(item).await.unwrap();
            }
            let mut due = store.due();
            due.clear();
            let release = Release { item, claim, wake, reason: "AsDeclared" };
            assert!(store.release(release).await.unwrap());
            let timeout = Duration::from_millis(if signalled { 60_000 } else { 20 });
            let was_signalled = tokio::time::timeout(timeout, due.wait()).await.is_ok();
            assert_eq!(was_signalled, signalled, "{wake:?}, woken: {woken}");
        }
    })
    .await;
}

/// Red by: a reason or a trouble that cannot be read back.
#[tokio::test]
async fn the_last_report_of_an_item_is_read_back() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let id = world.declare("web").await.id();
        let item = WorkItem::Resource(id);
        let batch = store.claim_due(10).await.unwrap();
        let leased = batch.leased.iter().find(|it| it.item == item).unwrap();
        let (claim, wake) = (leased.claim, Wake::OnChange);
        store.release(Release { item, claim, wake, reason: "AsDeclared" }).await.unwrap();
        let queue = store.queue_status(item).await.unwrap().unwrap();
        assert_eq!((queue.reason.as_deref(), queue.trouble), (Some("AsDeclared"), None));
        let names = store.display_names(id).await.unwrap().unwrap();
        assert_eq!((names.name.as_str(), names.reason.as_deref()), ("web", Some("AsDeclared")));
        assert!(names.project.is_some() && names.blueprint.is_some());
    })
    .await;
}
