//! The siblings' rows: read back as they were written, refused by name where they clash.

use serde_json::json;
use usher_domain::catalog::Blueprint;
use usher_domain::credentials::{AssignmentState, Status, Verdict};
use usher_domain::labels::Definition;
use usher_domain::object::id::{BlueprintId, OperatorTokenId, ProjectId, ResourceId};
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::operators::{Grant, OperatorToken, Reach, TokenHash};
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::Project;
use usher_store::{Error, Layer};
use uuid::Uuid;

use crate::bed::{Bed, on_both};
use crate::declare::World;

fn project(slug: &str) -> Project {
    let id = ProjectId::from_uuid(Uuid::now_v7());
    Project { id, slug: slug.parse().unwrap(), name: "A project".parse().unwrap() }
}

/// Red by: a forgotten bind, which SQLite reads as NULL.
#[tokio::test]
async fn projects_and_placements_are_read_back() {
    on_both(async |bed: Bed| {
        let store = &bed.store;
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
#[tokio::test]
async fn the_catalog_and_the_credentials_are_read_back() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let store = &bed.store;
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
#[tokio::test]
async fn labels_belong_to_their_layer() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let store = &bed.store;
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
        let nobody = Layer::Resource(ResourceId::from_uuid(Uuid::now_v7()));
        let unknown = store.write_labels(nobody, labels(&[("team", "x")])).await.unwrap_err();
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
#[tokio::test]
async fn an_operator_is_found_by_the_hash_of_a_token() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let store = &bed.store;
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
#[tokio::test]
async fn the_resources_of_a_project_are_listed_page_by_page() {
    on_both(async |bed: Bed| {
        let (world, other) = (World::new(&bed.store).await, World::new(&bed.store).await);
        let mut ids = vec![];
        for name in ["a", "b", "c"] {
            ids.push(world.declare(name).await.id());
            other.declare(name).await;
        }
        ids.sort();
        let first = bed.store.resources(world.project, None, 2).await.unwrap();
        let rest = bed.store.resources(world.project, first.last().copied(), 2).await.unwrap();
        assert_eq!([first, rest].concat(), ids);
    })
    .await;
}
