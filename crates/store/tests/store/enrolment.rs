//! Tokens and peers: one order of locks, and intent that wins.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use usher_domain::object::id::{PeerId, ResourceId};
use usher_domain::object::name;
use usher_domain::peers::{Cause, DrainStep, Stage};
use usher_domain::tokens::{Lifetime, Outcome, Refusal, Request};
use usher_kernel::Generation;
use usher_store::{Command, Error, Place, Store, WorkItem};
use uuid::Uuid;

use crate::declare::{World, server_key};
use crate::test_store::{TestStore, on_both};

pub(crate) fn request(world: &World, resource: ResourceId, nonce: &str) -> Request {
    let token = name::token(resource, Generation::FIRST);
    Request {
        text: server_key().derive(token, Generation::FIRST),
        project: world.project,
        nonce: nonce.parse().unwrap(),
        public_key: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".parse().unwrap(),
        peer: PeerId::from_uuid(Uuid::now_v7()),
    }
}

pub(crate) async fn issue(store: &Store, id: ResourceId) -> Result<(), Error> {
    store.issue(server_key(), id, Generation::FIRST, Lifetime::default()).await
}

/// Red by: a token that is consumed twice, or a peer that is not registered with it.
// Requirement: Q-21
#[tokio::test]
async fn a_token_is_redeemed_once_and_its_peer_wakes_the_resource() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        issue(&test.store, id).await.unwrap();
        issue(&test.store, id).await.unwrap();
        assert_eq!(test.store.tokens(id).await.unwrap().len(), 1, "issuing is idempotent");
        let before = test.store.entry(WorkItem::Resource(id)).await.unwrap().unwrap();
        let first = request(&world, id, "nonce-nonce-nonce-1");
        let Outcome::Redeemed(consumed) = test.store.redeem(first.clone()).await.unwrap() else {
            panic!("it is not redeemed");
        };
        let after = test.store.entry(WorkItem::Resource(id)).await.unwrap().unwrap();
        assert_eq!(after.wake_seq, before.wake_seq + 1);
        let peers = test.store.peers(id).await.unwrap();
        assert_eq!((peers.len(), peers[0].id), (1, consumed.peer));
        let again = test.store.redeem(first).await.unwrap();
        assert_eq!(again, Outcome::Replayed(consumed.peer));
        let other = test.store.redeem(request(&world, id, "nonce-nonce-nonce-2")).await.unwrap();
        assert_eq!(other, Outcome::Refused(Refusal::Consumed));
        let token = test.store.token(name::token(id, Generation::FIRST)).await.unwrap().unwrap();
        assert_eq!(token.consumed, Some(consumed));
    })
    .await;
}

/// Red by: teardown intent that keeps tokens valid, or redeeming that ignores the resource.
// Requirement: Q-21
#[tokio::test]
async fn no_node_enrols_after_deletion_was_accepted() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        issue(&test.store, id).await.unwrap();
        test.store.command(id, Command::Deprovision, None).await.unwrap();
        let token = test.store.token(name::token(id, Generation::FIRST)).await.unwrap().unwrap();
        assert!(token.revoked_at.is_some(), "revoked with the intent");
        let refused = test.store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        assert_eq!(refused, Outcome::Refused(Refusal::Revoked));
        let leaving = issue(&test.store, id).await.unwrap_err();
        assert!(matches!(leaving, Error::Leaving { .. }), "{leaving}");
        let unknown = ResourceId::from_uuid(Uuid::now_v7());
        let refused = test.store.redeem(request(&world, unknown, "nonce-nonce-nonce-1")).await;
        assert_eq!(refused.unwrap(), Outcome::Refused(Refusal::WrongVerifier));
        assert!(test.store.peers(id).await.unwrap().is_empty());
    })
    .await;
}

/// Red by: a verb that locks the token before the resource.
// Requirement: A-24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_resource_is_locked_before_its_token() {
    on_both(async |test: TestStore| {
        let Place::Postgres(url) = &test.database.place else { return };
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        issue(&test.store, id).await.unwrap();
        let token = name::token(id, Generation::FIRST);
        let mut holder = PgConnection::connect(url).await.unwrap();
        let mut held = holder.begin().await.unwrap();
        let lock = "SELECT 1 FROM records WHERE id = $1 FOR UPDATE";
        sqlx::query(lock).bind(id.as_uuid()).execute(&mut *held).await.unwrap();
        let mut verbs = vec![];
        for verb in 0..3 {
            let (store, world) = (Arc::clone(&test.store), world.clone());
            verbs.push(tokio::spawn(async move {
                match verb {
                    0 => store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.map(|_| ()),
                    1 => issue(&store, id).await,
                    _ => store.command(id, Command::Deprovision, None).await.map(|_| ()),
                }
            }));
        }
        let mut asker = PgConnection::connect(url).await.unwrap();
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut asker).await.unwrap() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let free = "SELECT 1 FROM tokens WHERE id = $1 FOR UPDATE NOWAIT";
        let locked = sqlx::query(free).bind(token.as_uuid()).execute(&mut asker).await;
        assert!(locked.is_ok(), "another transaction holds the token and waits for the resource");
        held.rollback().await.unwrap();
        for verb in verbs {
            match verb.await.unwrap() {
                Ok(()) | Err(Error::Leaving { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
}

/// Red by: two orders of locks, found by the server as a deadlock.
// Requirement: A-24
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn intent_issue_and_redemption_never_wait_for_each_other_for_ever() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for round in 0..10 {
            let id = world.declare(&format!("r{round}")).await.id();
            issue(&test.store, id).await.unwrap();
            let mut tasks = vec![];
            for task in 0..6 {
                let (store, world) = (Arc::clone(&test.store), world.clone());
                tasks.push(tokio::spawn(async move {
                    match task % 3 {
                        0 => {
                            let nonce = format!("nonce-nonce-nonce-{task}");
                            store.redeem(request(&world, id, &nonce)).await.map(|_| ())
                        }
                        1 => match issue(&store, id).await {
                            Err(Error::Leaving { .. }) => Ok(()),
                            other => other,
                        },
                        _ => store.command(id, Command::Deprovision, None).await.map(|_| ()),
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            let token = test.store.tokens(id).await.unwrap().remove(0);
            let peers = test.store.peers(id).await.unwrap();
            assert_eq!(token.consumed.is_some(), peers.len() == 1);
            assert_ne!(token.consumed.is_some(), token.revoked_at.is_some(), "one of the two");
        }
    })
    .await;
}

/// Red by: a stage that overwrites the one of another writer.
// Requirement: Q-21
#[tokio::test]
async fn a_peer_is_moved_from_where_it_was_read() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        issue(&test.store, id).await.unwrap();
        let _ = test.store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        let now = test.store.now().await.unwrap();
        let peer = test.store.peers(id).await.unwrap().remove(0);
        let cordoned = peer.advance(DrainStep::Cordon, now).force("ann", now);
        test.store.move_peer(peer.clone(), cordoned.clone()).await.unwrap();
        let late = test.store.move_peer(peer, cordoned.clone()).await.unwrap_err();
        assert!(matches!(late, Error::Conflict), "{late}");
        assert_eq!(test.store.peers(id).await.unwrap(), std::slice::from_ref(&cordoned));
        let refused = Command::Abandon { by: "ann".to_owned(), reason: "it is lost".to_owned() };
        let live = test.store.command(id, refused.clone(), None).await.unwrap_err();
        assert!(matches!(live, Error::Refused(_)), "a peer is live: {live}");
        let draining = cordoned.advance(DrainStep::RevokeKey, now);
        test.store.move_peer(cordoned, draining.clone()).await.unwrap();
        let out = draining.advance(DrainStep::Deregister(Cause::Forced), now);
        test.store.move_peer(draining, out).await.unwrap();
        let gone = test.store.peers(id).await.unwrap().remove(0);
        assert!(matches!(gone.stage, Stage::Deregistered { cause: Cause::Forced, .. }));
        test.store.command(id, refused, None).await.unwrap();
    })
    .await;
}
