//! The ids of the server keys: the first one, rotation, and retirement.

use std::sync::Arc;

use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::ResourceId;
use usher_domain::object::key::{KeyState, ServerKey};
use usher_domain::tokens::{Lifetime, Outcome};
use usher_kernel::Generation;
use usher_store::{Error, Settings, Store};

use crate::declare::{World, server_key};
use crate::enrolment::{issue, request};
use crate::test_store::{TestStore, on_both};

fn next_key() -> ServerKey {
    ServerKey::new([8; 32]).unwrap()
}

async fn states(store: &Store) -> Vec<(KeyId, KeyState)> {
    store.keys().await.unwrap().into_iter().map(|it| (it.id, it.state)).collect()
}

/// How many tokens and nodes name the first key.
async fn named(store: &Store) -> (u64, u64) {
    let first = store.key_uses().await.unwrap().remove(0);
    (first.tokens, first.nodes)
}

async fn rotate(store: &Store) -> Result<(), Error> {
    store.rotate_key(server_key().id().clone(), next_key().id().clone()).await
}

/// Red by: an insert that a second server repeats, so that there are two current keys.
// Requirement: E-21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_servers_that_start_at_once_one_records_its_key() {
    on_both(async |test: TestStore| {
        assert_eq!(test.store.keys().await.unwrap(), []);
        let admit = |byte: u8| {
            let store = Arc::clone(&test.store);
            let id = ServerKey::new([byte; 32]).unwrap().id().clone();
            tokio::spawn(async move { store.admit_key(id).await.unwrap() })
        };
        let all: Vec<_> = (1..=8).map(admit).collect();
        let agreed = test.store.admit_key(next_key().id().clone()).await.unwrap();
        assert_eq!(agreed.len(), 1);
        for seen in all {
            assert_eq!(seen.await.unwrap(), agreed);
        }
        if test.database.is_postgres() {
            let other = Store::open(&test.database.place, Settings::default()).await.unwrap();
            assert_eq!(other.keys().await.unwrap(), agreed);
        }
    })
    .await;
}

/// Red by: a key that is retired while a token or a node names it, or never.
// Requirement: E-16, E-22
#[tokio::test]
async fn a_key_is_retired_when_no_open_token_and_no_live_node_names_it() {
    on_both(async |test: TestStore| {
        let (store, first, next) = (&test.store, server_key(), next_key());
        let world = World::new(store).await;
        let id = world.declare("web").await.id();
        issue(store, id).await.unwrap();
        assert_eq!(named(store).await, (1, 0));
        rotate(store).await.unwrap();
        assert_eq!(store.retire_keys().await.unwrap(), [], "an open token names it");
        let redeemed = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        let Outcome::Redeemed(consumed) = redeemed else { panic!("{redeemed:?}") };
        let (node, current) = store.node(consumed.peer).await.unwrap().unwrap();
        assert_eq!((&node.key_id, &current), (next.id(), next.id()), "it gets the new secret");
        assert_eq!(store.retire_keys().await.unwrap(), [first.id().clone()]);
        assert_eq!(store.retire_keys().await.unwrap(), []);
        let expected =
            [(first.id().clone(), KeyState::Retired), (next.id().clone(), KeyState::Current)];
        assert_eq!(states(store).await, expected);
    })
    .await;
}

/// Red by: a node that is locked out, because its key is retired before it called with the next.
// Requirement: E-22
#[tokio::test]
async fn a_live_node_keeps_its_key_until_it_called_with_the_next() {
    on_both(async |test: TestStore| {
        let (store, first, next) = (&test.store, server_key(), next_key());
        let world = World::new(store).await;
        let id = world.declare("web").await.id();
        issue(store, id).await.unwrap();
        let redeemed = store.redeem(request(&world, id, "nonce-nonce-nonce-1")).await.unwrap();
        let Outcome::Redeemed(consumed) = redeemed else { panic!("{redeemed:?}") };
        let early = store.move_node_to_key(consumed.peer, next.id().clone()).await;
        assert!(matches!(early, Err(Error::Conflict)), "it is not current: {early:?}");
        rotate(store).await.unwrap();
        assert_eq!(store.retire_keys().await.unwrap(), []);
        assert_eq!(named(store).await, (0, 1));
        let again = store.rotate_key(next.id().clone(), KeyId::from_stored("third")).await;
        assert!(matches!(again, Err(Error::Conflict)), "the first is in use: {again:?}");
        store.move_node_to_key(consumed.peer, next.id().clone()).await.unwrap();
        assert_eq!(store.retire_keys().await.unwrap(), [first.id().clone()]);
        store.rotate_key(next.id().clone(), KeyId::from_stored("third")).await.unwrap();
    })
    .await;
}

/// Red by: a server that issues tokens with a key after another one rotated it.
// Requirement: E-22
#[tokio::test]
async fn only_the_current_key_issues_and_is_rotated() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let world = World::new(store).await;
        let id: ResourceId = world.declare("web").await.id();
        rotate(store).await.unwrap();
        let stale = issue(store, id).await;
        assert!(matches!(stale, Err(Error::Conflict)), "{stale:?}");
        let stale = rotate(store).await;
        assert!(matches!(stale, Err(Error::Conflict)), "{stale:?}");
        store.issue(next_key(), id, Generation::FIRST, Lifetime::default()).await.unwrap();
        assert_eq!(store.tokens(id).await.unwrap()[0].key_id, *next_key().id());
    })
    .await;
}
