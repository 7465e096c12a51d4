//! References, names, keys, and which installation a database belongs to.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::audit;
use usher_domain::broker::accept;
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{AuditId, ResourceId};
use usher_domain::object::idempotency::{self, Digest, Key, Scope};
use usher_domain::object::occupancy::Occupied;
use usher_domain::placements::NamespacePhase;
use usher_kernel::{NameState, Timestamp};
use usher_store::migrate::Direction;
use usher_store::{
    Acceptance, Command, Cursor, Error, Moved, Place, Provenance, RememberedKey, ResourceFilter,
    Settings, Store, WorkItem,
};
use uuid::Uuid;

use crate::declare::{World, ending};
use crate::test_store::{TestDatabase, TestStore, on_both, on_both_databases, read_events};

/// Red by: a reference without its foreign key, or one that a deleted row still holds.
// Requirement: D-4
#[tokio::test]
async fn a_resource_holds_what_it_refers_to_until_it_is_deleted() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let (store, id) = (&test.store, world.declare("web").await.id());
        store.unassign(world.project, world.credential).await.unwrap();
        let held = |outcome: Result<(), Error>| {
            assert!(matches!(outcome, Err(Error::Held { .. })), "{outcome:?}");
        };
        held(store.delete_blueprint_version(world.blueprint_version).await);
        held(store.delete_credential(world.credential).await);
        held(store.delete_cloud(world.cloud).await);
        held(store.delete_project(world.project).await);
        held(store.displace_project(world.project).await);
        let refused = store.terminate_placement(world.project).await.unwrap();
        assert_eq!(refused, Err(Occupied::Rows(1)));

        let record = store.resource(id).await.unwrap();
        store.commit(ending(&record)).await.unwrap();
        store.delete_blueprint_version(world.blueprint_version).await.unwrap();
        held(store.delete_credential(world.credential).await);
        let refused = store.terminate_placement(world.project).await.unwrap();
        assert_eq!(refused, Err(Occupied::Tombstones(1)), "its names are watched");
        held(store.displace_project(world.project).await);

        let leased = world.claim(WorkItem::Tombstone(id)).await;
        assert!(store.expire_tombstone(id, leased.claim, Duration::ZERO).await.unwrap());
        let ended = store.terminate_placement(world.project).await.unwrap().unwrap();
        assert_eq!(ended.phase, NamespacePhase::Terminating);
        store.displace_project(world.project).await.unwrap();
        store.delete_project(world.project).await.unwrap();
        assert!(store.resource(id).await.is_ok(), "what it was stays on record");
    })
    .await;
}

/// Red by: a ProviderConfig that lets its credential go while it may still be used.
// Requirement: D-4
#[tokio::test]
async fn a_provider_config_holds_its_credential_until_it_is_gone() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let resource = world.declare("web").await;
        let record = test.store.resource(resource.id()).await.unwrap();
        test.store.commit(ending(&record)).await.unwrap();
        test.store.unassign(world.project, world.credential).await.unwrap();
        let id = resource.pinned().provider_config;
        let config = test.store.provider_config(id).await.unwrap();
        assert_eq!(config.state.users, 0);
        let held = test.store.delete_credential(world.credential).await.unwrap_err();
        assert!(matches!(held, Error::Held { .. }), "{held}");
        let mut next = config.state.clone();
        next.phase = usher_domain::broker::provider_config::Phase::Gone;
        let write = usher_store::ConfigWrite {
            version: config.version,
            before: config.state,
            next,
            rows: vec![],
            event: None,
            lease: None,
            release: None,
        };
        test.store.commit_config(write).await.unwrap();
        test.store.delete_credential(world.credential).await.unwrap();
    })
    .await;
}

/// Red by: acceptance into a placement that is removed meanwhile.
// Requirement: Q-19
#[tokio::test]
async fn no_resource_is_accepted_into_a_placement_that_is_removed() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let command = world.command("web");
        let snapshot = test.store.snapshot(&command, None).await.unwrap();
        let ended = test.store.terminate_placement(world.project).await.unwrap();
        assert!(ended.is_ok());
        let minted = world.minted();
        let accepted = accept::provision(&command, &snapshot.views, &minted, snapshot.now).unwrap();
        let acceptance = Acceptance { accepted, audit: None, key: None };
        let moved = test.store.accept(acceptance).await.unwrap_err();
        assert!(matches!(moved, Error::ViewsMoved { what: "placement" }), "{moved}");
        let refused = world.try_declare("web").await.unwrap_err();
        let none = Refusal::AssignmentNotFound { what: world.project.to_string() };
        assert!(matches!(&refused, Error::Refused(it) if *it == none), "{refused}");
    })
    .await;
}

/// Red by: a name that two resources of a project have, neither of them deleted.
// Requirement: A-10
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_is_unique_among_resources_that_are_not_deleted() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let world = world.clone();
                tokio::spawn(async move { world.try_declare("web").await })
            })
            .collect();
        let mut accepted = vec![];
        for task in tasks {
            match task.await.unwrap() {
                Ok(resource) => accepted.push(resource),
                Err(Error::Refused(Refusal::NameInUse { what })) => assert_eq!(what, "web"),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(accepted.len(), 1);
        let config = test.store.provider_config(accepted[0].pinned().provider_config).await;
        assert_eq!(config.unwrap().state.users, 1, "a refused acceptance wrote nothing");
        let elsewhere = World::new(&test.store).await;
        elsewhere.declare("web").await;
        let mut named =
            ResourceFilter { name: Some("web".to_owned()), ..ResourceFilter::default() };
        let found = test.store.list_resources(&named, None, 9).await.unwrap();
        assert_eq!(found.len(), 2, "one per project");
        named.project = Some(world.project);
        let found = test.store.list_resources(&named, None, 9).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].record.state, accepted[0]);
        assert_eq!(
            found[0].names,
            test.store.display_names(accepted[0].id()).await.unwrap().unwrap()
        );
        let page = test.store.list_resources(&named, Some(accepted[0].id()), 9).await.unwrap();
        assert_eq!(page, [], "nothing comes after the last");
    })
    .await;
}

/// Red by: declarations that count one ProviderConfig twice, or make two of it.
// Requirement: Q-11
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn first_declarations_at_once_share_one_provider_config() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let tasks: Vec<_> = (0..8)
            .map(|index| {
                let world = world.clone();
                tokio::spawn(async move { world.declare(&format!("r{index}")).await })
            })
            .collect();
        let mut configs = vec![];
        for task in tasks {
            configs.push(task.await.unwrap().pinned().provider_config);
        }
        configs.dedup();
        assert_eq!(configs.len(), 1);
        let config = test.store.provider_config(configs[0]).await.unwrap();
        assert_eq!(config.state.users, 8);
        assert_eq!(config.name_ledger.rows().len(), 3);
    })
    .await;
}

fn key(world: &World, caller: &str, request: &[u8]) -> RememberedKey {
    RememberedKey {
        scope: Scope { caller: caller.to_owned(), project: world.project },
        key: "key-1".parse().unwrap(),
        digest: Digest::of(request),
        keep: Duration::from_hours(24),
    }
}

/// One declaration with a key, as a service makes it.
async fn keyed(
    world: &World,
    name: &str,
    key: RememberedKey,
) -> Result<(ResourceId, bool), idempotency::Refusal> {
    let command = world.command(name);
    loop {
        let asked: (Scope, Key) = (key.scope.clone(), key.key.clone());
        let snapshot = world.store.snapshot(&command, Some(asked)).await.unwrap();
        match idempotency::judge(&key.key, key.digest, snapshot.used.as_ref(), snapshot.now)? {
            idempotency::Verdict::Replay(id) => return Ok((id.parse().unwrap(), true)),
            idempotency::Verdict::Fresh => {}
        }
        let minted = world.minted();
        let accepted = accept::provision(&command, &snapshot.views, &minted, snapshot.now).unwrap();
        let acceptance = Acceptance { accepted, audit: None, key: Some(key.clone()) };
        match world.store.accept(acceptance).await {
            Ok(()) => return Ok((minted.resource, false)),
            Err(Error::ViewsMoved { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Red by: a key that is shared by all callers, loses its request, or never expires.
// Requirement: A-11
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repeated_declaration_with_its_key_makes_one_resource() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let world = world.clone();
                tokio::spawn(async move { keyed(&world, "web", key(&world, "ann", b"web")).await })
            })
            .collect();
        let mut answers = vec![];
        for task in tasks {
            answers.push(task.await.unwrap().unwrap());
        }
        let made: Vec<_> = answers.iter().filter(|(_, replayed)| !replayed).collect();
        assert_eq!(made.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|(id, _)| *id == made[0].0));
        let reused = keyed(&world, "other", key(&world, "ann", b"other")).await.unwrap_err();
        assert_eq!(reused.code(), "idempotency_key_reused");
        let (_, replayed) = keyed(&world, "bobs", key(&world, "bob", b"bobs")).await.unwrap();
        assert!(!replayed, "another caller's key is another key");
        let past = if test.database.is_postgres() { "now() - interval '1 second'" } else { "0" };
        test.database.execute(&format!("UPDATE idempotency_keys SET expires_at = {past}")).await;
        let (_, replayed) = keyed(&world, "later", key(&world, "ann", b"later")).await.unwrap();
        assert!(!replayed, "its time has passed");
        assert_eq!(test.store.forget_keys(9).await.unwrap(), 1);
    })
    .await;
}

/// Red by: a command without an audit row, or an audit row of a refused command.
// Requirement
#[tokio::test]
async fn a_command_is_audited_with_its_result() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let entry = |action| audit::Entry {
            id: AuditId::from_uuid(Uuid::now_v7()),
            at: Timestamp::from_micros(1),
            actor: "ann".to_owned(),
            action,
            project: Some(world.project),
            subject: id.to_string(),
            detail: serde_json::Map::new(),
        };
        let asked = entry(audit::Action::ResourceDeprovision);
        test.store.command(id, Command::Deprovision, Some(asked.clone())).await.unwrap();
        let reap = entry(audit::Action::ResourceReap);
        let refused =
            test.store.command(id, Command::Reap { by: "ann".to_owned() }, Some(reap)).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::NotAbandoned { .. }))));
        assert_eq!(test.store.audit(None, 9).await.unwrap(), [asked]);
        let unknown = ResourceId::from_uuid(Uuid::now_v7());
        for command in [Command::Deprovision, Command::Replace, Command::Retry] {
            let refused = test.store.command(unknown, command, None).await.unwrap_err();
            let missing = Refusal::ProvisionedResourceNotFound { what: unknown.to_string() };
            assert!(matches!(&refused, Error::Refused(it) if *it == missing), "{refused}");
        }
    })
    .await;
}

/// Red by: an abandonment with open rows, or a later cleanup that no worker does.
// Requirement: Q-20
#[tokio::test]
async fn an_abandoned_resource_is_recorded_and_can_be_reaped() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let command =
            Command::Abandon { by: "ann".to_owned(), reason: "the site is gone".to_owned() };
        test.store.command(id, command, None).await.unwrap();
        let record = test.store.resource(id).await.unwrap();
        assert!(record.name_ledger.rows().iter().all(|it| it.state == NameState::Abandoned));
        assert_eq!(test.store.entry(WorkItem::Tombstone(id)).await.unwrap(), None);
        let config = record.state.pinned().provider_config;
        assert_eq!(test.store.provider_config(config).await.unwrap().state.users, 0);
        test.store.command(id, Command::Reap { by: "ann".to_owned() }, None).await.unwrap();
        let leased = world.claim(WorkItem::Tombstone(id)).await;
        let open = crate::declare::record(&leased).name_ledger.rows().iter();
        assert!(open.into_iter().all(|it| it.state == NameState::Intended));
        assert_eq!(test.store.provider_config(config).await.unwrap().state.users, 0);
    })
    .await;
}

/// Pretends that the database was seen elsewhere.
async fn carry_off(test_database: &TestDatabase) {
    test_database.execute("UPDATE installation SET database_identifier = 'elsewhere'").await;
}

/// Red by: a clone that takes itself for the original.
// Requirement: D-14
#[tokio::test]
async fn a_database_that_was_seen_elsewhere_is_another_installation() {
    on_both_databases(async |test_database: TestDatabase| {
        let place = &test_database.place;
        Store::migrate(place, Direction::Up).await.unwrap();
        let open = async |moved| {
            let settings = Settings { moved, ..Settings::default() };
            let store = Store::open(place, settings).await.unwrap();
            let installation = store.installation();
            store.close().await;
            installation
        };
        let first = open(Moved::NewInstallation).await;
        assert_eq!(first.provenance, Provenance::New);
        let again = open(Moved::NewInstallation).await;
        assert_eq!((again.id, again.provenance), (first.id, Provenance::Known));
        carry_off(&test_database).await;
        let restored = open(Moved::SameInstallation).await;
        assert_eq!(restored.id, first.id);
        assert_eq!(restored.provenance, Provenance::Moved { before: first.id });
        carry_off(&test_database).await;
        let clone = open(Moved::NewInstallation).await;
        assert_ne!(clone.id, first.id);
        assert_eq!(clone.provenance, Provenance::Moved { before: first.id });
    })
    .await;
}

/// Red by: a copy of the file that is not distinguished from the original.
// Requirement: D-14
#[tokio::test]
async fn a_copied_file_is_another_installation() {
    let (one, two) = (TestDatabase::sqlite(), TestDatabase::sqlite());
    let (Place::Sqlite(from), Place::Sqlite(to)) = (&one.place, &two.place) else { return };
    Store::migrate(&one.place, Direction::Up).await.unwrap();
    let store = Store::open(&one.place, Settings::default()).await.unwrap();
    let first = store.installation().id;
    store.close().await;
    std::fs::copy(from, to).unwrap();
    let copy = Store::open(&two.place, Settings::default()).await.unwrap();
    assert_eq!(copy.installation().provenance, Provenance::Moved { before: first });
    assert_ne!(copy.installation().id, first);
}

/// Red by: a cursor without the epoch: transaction ids of the database that the rows came from are
/// larger than any of this one, and readers would wait for ever or skip what is new.
// Requirement: Q-10
#[tokio::test]
async fn after_a_logical_restore_old_transaction_ids_hide_no_event() {
    on_both_databases(async |test_database: TestDatabase| {
        let place = &test_database.place;
        Store::migrate(place, Direction::Up).await.unwrap();
        let store = Arc::new(Store::open(place, Settings::default()).await.unwrap());
        let world = World::new(&store).await;
        world.declare("before").await;
        let before = read_events(&store, Cursor::START, 1).await;
        store.close().await;
        if test_database.is_postgres() {
            test_database.execute("UPDATE events SET xid = '9000000000000'::xid8").await;
        }
        carry_off(&test_database).await;
        let settings = Settings { moved: Moved::SameInstallation, ..Settings::default() };
        let store = Arc::new(Store::open(place, settings).await.unwrap());
        let old = read_events(&store, Cursor::START, 1).await;
        assert_eq!((old.len(), old[0].id), (1, before[0].id), "what was there is read");
        World { store: Arc::clone(&store), ..world }.declare("after").await;
        let new = read_events(&store, old[0].cursor, 1).await;
        assert_eq!(new.len(), 1, "and what is new comes after it");
        assert_eq!(new[0].data["name"], "after");
    })
    .await;
}
