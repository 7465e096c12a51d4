//! Tenancy rows: read back as they were written, refused by name where they clash.

use serde_json::json;
use usher_domain::audit::{self, Action};
use usher_domain::catalog::Blueprint;
use usher_domain::credentials::{AssignmentState, Status, Verdict};
use usher_domain::labels::Definition;
use usher_domain::object::id::{AuditId, BlueprintId, OperatorTokenId, ProjectId, ResourceId};
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::operators::{Grant, OperatorToken, Reach, TokenHash};
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::Project;
use usher_kernel::Timestamp;
use usher_store::{Error, Layer};
use uuid::Uuid;

use crate::declare::World;
use crate::test_store::{TestStore, on_both};

fn project(slug: &str) -> Project {
    let id = ProjectId::from_uuid(Uuid::now_v7());
    Project { id, slug: slug.parse().unwrap(), name: "A project".parse().unwrap() }
}

/// Red by: an omitted bind, which SQLite reads as NULL.
// Requirement: Q-25
#[tokio::test]
async fn projects_and_placements_are_read_back() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let (one, two) = (project("one"), project("two"));
        store.create_project(one.clone()).await.unwrap();
        store.create_project(two.clone()).await.unwrap();
        let taken = store.create_project(project("one")).await.unwrap_err();
        assert!(matches!(taken, Error::Taken { .. }), "{taken}");
        assert_eq!(store.project("two").await.unwrap().as_ref(), Some(&two));
        assert_eq!(store.project("three").await.unwrap(), None);
        assert_eq!(store.projects(None, 1).await.unwrap(), std::slice::from_ref(&one));
        assert_eq!(store.projects(Some(one.id), 9).await.unwrap(), std::slice::from_ref(&two));
        let pending = Placement {
            project: one.id,
            world: "local".to_owned(),
            phase: NamespacePhase::Pending,
        };
        let ready = Placement { phase: NamespacePhase::Ready, ..pending.clone() };
        store.place_project(pending.clone()).await.unwrap();
        store.move_placement(pending.clone(), ready.clone()).await.unwrap();
        let late = store.move_placement(pending, ready.clone()).await.unwrap_err();
        assert!(matches!(late, Error::Conflict), "{late}");
        assert_eq!(store.placement(one.id).await.unwrap(), Some(ready));
        assert_eq!(store.placement(two.id).await.unwrap(), None);
        let nowhere = Placement {
            project: project("x").id,
            world: "local".to_owned(),
            phase: NamespacePhase::Ready,
        };
        let unknown = store.place_project(nowhere).await.unwrap_err();
        assert!(matches!(unknown, Error::NotFound { .. }), "{unknown}");
        store.delete_project(two.id).await.unwrap();
        let gone = store.delete_project(two.id).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
    })
    .await;
}

/// Red by: a version that loses one of its parts.
// Requirement: Q-25
#[tokio::test]
async fn the_catalog_and_the_credentials_are_read_back() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let store = &test.store;
        let blueprint = store.blueprints().await.unwrap().remove(0);
        let mut version = store.blueprint_versions(blueprint.id).await.unwrap().remove(0);
        assert_eq!(version.id, world.blueprint_version);
        assert_eq!(version.xrd["spec"]["names"]["plural"], "nodes");
        let taken = store.publish(version.clone()).await.unwrap_err();
        assert!(matches!(taken, Error::Taken { .. }), "a version never changes: {taken}");
        version.id = usher_domain::object::id::BlueprintVersionId::from_uuid(Uuid::now_v7());
        "2.0.0".clone_into(&mut version.version);
        version.composition = json!({ "spec": { "mode": "Pipeline", "n": [1, null, "é"] } });
        store.publish(version.clone()).await.unwrap();
        assert_eq!(store.blueprint_versions(blueprint.id).await.unwrap()[1], version);
        let id = BlueprintId::from_uuid(Uuid::now_v7());
        let taken = store.create_blueprint(Blueprint { id, ..blueprint }).await.unwrap_err();
        assert!(matches!(taken, Error::Taken { .. }), "{taken}");

        let cloud = store.clouds().await.unwrap().remove(0);
        assert_eq!(cloud.id, world.cloud);
        let now = store.now().await.unwrap();
        let credential = store.credentials().await.unwrap().remove(0);
        assert_eq!((credential.id, credential.status(now)), (world.credential, Status::Active));
        store.revoke_credential(world.credential, now).await.unwrap();
        let later = now.after(std::time::Duration::from_secs(9));
        store.revoke_credential(world.credential, later).await.unwrap();
        let revoked = store.credentials().await.unwrap().remove(0);
        assert_eq!(revoked.revoked_at, Some(now), "the first time counts");
        let refused = world.try_declare("web").await.unwrap_err();
        assert!(refused.to_string().contains("revoked"), "{refused}");

        let approved = store.assignments(world.project).await.unwrap().remove(0);
        assert_eq!(approved.state, AssignmentState::Approved);
        let withdrawn = approved.decide(Verdict::Revoke, "bob", now).unwrap();
        store.decide_assignment(approved.clone(), withdrawn.clone()).await.unwrap();
        let late = store.decide_assignment(approved, withdrawn.clone()).await.unwrap_err();
        assert!(matches!(late, Error::Conflict), "{late}");
        assert_eq!(store.assignments(world.project).await.unwrap(), [withdrawn]);
    })
    .await;
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap())).collect()
}

/// Red by: labels of one layer that show on another, or outlive what they are on.
// Requirement: Q-25
#[tokio::test]
async fn labels_belong_to_their_layer() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let store = &test.store;
        let resource = world.declare("web").await.id();
        let layers =
            [Layer::Installation, Layer::Project(world.project), Layer::Resource(resource)];
        for (layer, value) in layers.into_iter().zip(["a", "b", "c"]) {
            store.write_labels(layer, labels(&[("old", "x")])).await.unwrap();
            store.write_labels(layer, labels(&[("team", value), ("e", "")])).await.unwrap();
        }
        for (layer, value) in layers.into_iter().zip(["a", "b", "c"]) {
            let expected = labels(&[("team", value), ("e", "")]);
            assert_eq!(store.labels(layer).await.unwrap(), expected, "these and no others");
        }
        let unknown_resource = Layer::Resource(ResourceId::from_uuid(Uuid::now_v7()));
        let unknown =
            store.write_labels(unknown_resource, labels(&[("team", "x")])).await.unwrap_err();
        assert!(matches!(unknown, Error::NotFound { .. }), "{unknown}");
        for propagatable in [true, false] {
            let definition = Definition { key: "team".parse().unwrap(), propagatable };
            store.define_label(definition.clone()).await.unwrap();
            assert_eq!(store.label_definitions().await.unwrap(), [definition]);
        }
    })
    .await;
}

/// Red by: a token that is found by another text, or stored with its own.
// Requirement: HC-4, Q-25
#[tokio::test]
async fn an_operator_is_found_by_the_hash_of_a_token() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let store = &test.store;
        let now = store.now().await.unwrap();
        let mut made = vec![];
        for (name, grant) in [
            ("admin", Grant::Admin),
            ("ann", Grant::Operator(world.project)),
            ("bob", Grant::Viewer(Reach::Project(world.project))),
            ("eve", Grant::Viewer(Reach::Installation)),
        ] {
            let token = OperatorToken {
                id: OperatorTokenId::from_uuid(Uuid::now_v7()),
                name: name.parse().unwrap(),
                grant,
                hash: TokenHash::of(&SecretText::new(format!("secret of {name}"))),
                expires_at: Some(now),
                revoked_at: None,
            };
            store.create_operator_token(token.clone()).await.unwrap();
            assert_eq!(store.operator_token(token.hash).await.unwrap().as_ref(), Some(&token));
            store.revoke_operator_token(token.id, now).await.unwrap();
            let revoked = store.operator_token(token.hash).await.unwrap().unwrap();
            assert_eq!(revoked.revoked_at, Some(now));
            made.push(revoked);
        }
        assert_eq!(store.operator_tokens(None, 3).await.unwrap(), made[..3]);
        assert_eq!(store.operator_tokens(Some(made[2].id), 3).await.unwrap(), made[3..]);
        let other = TokenHash::of(&SecretText::new("another text"));
        assert_eq!(store.operator_token(other).await.unwrap(), None);
    })
    .await;
}

/// Red by: a listing that skips or repeats.
// Requirement: Q-25
#[tokio::test]
async fn the_resources_of_a_project_are_listed_page_by_page() {
    on_both(async |test: TestStore| {
        let (world, other) = (World::new(&test.store).await, World::new(&test.store).await);
        let mut ids = vec![];
        for name in ["a", "b", "c"] {
            ids.push(world.declare(name).await.id());
            other.declare(name).await;
        }
        ids.sort();
        let first = test.store.resources_after(Some(world.project), None, 2).await.unwrap();
        let rest = test
            .store
            .resources_after(Some(world.project), first.last().copied(), 2)
            .await
            .unwrap();
        assert_eq!([first, rest].concat(), ids);
    })
    .await;
}

/// Red by: an audit row that is written although its command failed, or the reverse.
// Requirement: A-26
#[tokio::test]
async fn a_command_and_its_audit_row_are_one_transaction() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let entry = |action| audit::Entry {
            id: AuditId::from_uuid(Uuid::now_v7()),
            at: Timestamp::from_millis(1),
            actor: "ann".to_owned(),
            action,
            project: None,
            subject: "demo".to_owned(),
            detail: serde_json::Map::new(),
        };
        let project = |number| Project {
            id: ProjectId::from_uuid(Uuid::from_u128(number)),
            slug: "demo".parse().unwrap(),
            name: "Demo".parse().unwrap(),
        };
        let made = entry(Action::ProjectCreate);
        store.with_audit(made.clone()).create_project(project(1)).await.unwrap();
        assert_eq!(store.audit(None, 9).await.unwrap(), std::slice::from_ref(&made));
        let taken = store.with_audit(entry(Action::ProjectCreate)).create_project(project(2)).await;
        assert!(matches!(taken, Err(Error::Taken { .. })), "{taken:?}");
        let unknown =
            store.with_audit(entry(Action::ProjectDelete)).delete_project(project(2).id).await;
        assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
        assert_eq!(
            store.audit(None, 9).await.unwrap(),
            std::slice::from_ref(&made),
            "nothing was done"
        );
        // The same row again is refused, and so is what it goes with.
        let twice = store.with_audit(made.clone()).delete_project(project(1).id).await;
        assert!(twice.is_err(), "{twice:?}");
        assert!(store.project("demo").await.unwrap().is_some());
        for action in Action::ALL {
            store.note(entry(*action)).await.unwrap();
        }
    })
    .await;
}
