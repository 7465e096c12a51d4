//! Tenancy objects, created, used and deleted through the CLI.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::caller::SOON;
use crate::test_server::{TIMEOUT, TestServer};

const XRD: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: { name: ownnodes.example.org }
spec:
  group: example.org
  scope: Namespaced
  names: { kind: OwnNode, plural: ownnodes }
  versions: [{ name: v1, served: true, referenceable: true }]
";

/// Writes a bundle of the blueprint `own`.
fn bundle(folder: &Path, version: &str, provider: &str) -> String {
    let folder = folder.join(version);
    fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "blueprint: own\nversion: '{version}'\nproviders: [{provider}]\nrole: node
strategy: cloud-init-user-data
parameters: [{{ name: readyAfterMs, type: integer, default: 0 }}]\n"
    );
    fs::write(folder.join("blueprint.yaml"), manifest).unwrap();
    fs::write(folder.join("xrd.yaml"), XRD).unwrap();
    let composition = "kind: Composition\nspec: { resources: [{ name: server }] }\n";
    fs::write(folder.join("composition.yaml"), composition).unwrap();
    folder.display().to_string()
}

/// Runs a command that must succeed.
fn done(server: &TestServer, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (code, said) = server.usher(&words);
    assert_eq!(code, Some(0), "usher {line}: {said}");
    said
}

/// Runs a command that must be refused with this error code.
fn refused(server: &TestServer, line: &str, problem: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (code, said) = server.usher(&words);
    assert_eq!(code, Some(3), "usher {line}: {said}");
    assert!(said.contains(problem), "usher {line}: {said}");
}

fn items(server: &TestServer, line: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&done(server, &format!("{line} -o json"))).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// A second operator approves the request: approving an own request is refused.
async fn approve(server: &mut TestServer, project: &str, credential: &str) {
    let second = json!({ "name": "second", "role": "admin" });
    let second = server.insist("POST", "/v1/operator-tokens", Some(&second)).await;
    let path = format!("/v1/projects/{project}/assignments/{credential}/approve");
    let bearer = second["text"].as_str().unwrap();
    let (status, answer) = server.ask_as(bearer, ("POST", &path), None).await.unwrap();
    assert_eq!(status, 200, "{answer}");
}

// Requirement: X-10
#[tokio::test]
async fn a_published_version_is_immutable_and_an_unsound_one_is_refused() {
    let server = TestServer::up(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let first = bundle(folder.path(), "1", "local");
    bundle(folder.path(), "2", "local");
    let imported = items(&server, &format!("blueprint import {}", folder.path().display()));
    let outcomes: Vec<_> = imported.iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["published", "published"]);
    let again = items(&server, &format!("blueprint import {}", folder.path().display()));
    assert!(again.iter().all(|it| it["outcome"] == "unchanged"), "{again:?}");
    fs::write(Path::new(&first).join("composition.yaml"), "kind: Other\n").unwrap();
    refused(&server, &format!("blueprint publish {first}"), "version_published");
    let unsound = bundle(folder.path(), "3", "hetzner");
    refused(&server, &format!("blueprint publish {unsound}"), "blueprint_unsound");
    let versions = server.ask("GET", "/v1/blueprints/own/versions", None).await.unwrap().1;
    let names: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|it| it["version"].clone()).collect();
    assert_eq!(names, ["1", "2"]);
}

// Requirement: C-11
#[tokio::test]
async fn a_node_uses_own_tenancy_objects_and_most_are_deletable_after_it() {
    let mut server = TestServer::up(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let one = bundle(folder.path(), "1", "local");
    for line in [
        "project create own --name Own",
        "cloud create here --provider local --endpoint region=desk",
        "credential create key --cloud here --mount secret --path own/key",
        &format!("blueprint publish {one}"),
        "placement create own --world local",
        "label define team --propagatable",
        "label set --project own team=blue",
        "credential request key --project own",
    ] {
        done(&server, line);
    }
    let provision = "provision n --project own --blueprint own --credential key";
    refused(&server, provision, "credential_not_approved");
    approve(&mut server, "own", "key").await;
    done(&server, &format!("{provision} --wait"));
    let clouds = items(&server, "get clouds");
    assert!(clouds.iter().any(|it| it["endpoint"]["region"] == "desk"), "{clouds:?}");
    let held = [
        ("placement terminate own", "resources_live"),
        ("project delete own", "resources_live"),
        ("credential delete key", "still_referenced"),
        ("cloud delete here", "still_referenced"),
        ("blueprint delete own@1", "still_referenced"),
    ];
    for (line, problem) in held {
        refused(&server, line, problem);
    }
    done(&server, "deprovision n --project own --wait");
    for line in ["placement terminate own", "project delete own"] {
        refused(&server, line, "tombstones_live");
    }
    // The ProviderConfig that the node used is torn down after it, and holds the credential.
    let begun = std::time::Instant::now();
    let held = "SELECT count(*) FROM provider_configs WHERE held_credential IS NOT NULL";
    while server.number(held).await > 0 {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.said());
        tokio::time::sleep(SOON).await;
    }
    for line in [
        "credential unassign key --project own",
        "credential delete key",
        "cloud delete here",
        "blueprint delete own@1",
    ] {
        done(&server, line);
    }
    let audit: Vec<_> = items(&server, "get audit").iter().map(|it| it["action"].clone()).collect();
    for action in ["project.create", "blueprint.publish", "cloud.delete", "blueprint.delete"] {
        assert!(audit.contains(&json!(action)), "{action} in {audit:?}");
    }
}

/// Red by: a credential that is looked up among those of the whole installation.
// Requirement: D-11
#[tokio::test]
async fn a_token_of_a_project_provisions_with_its_only_approved_credential() {
    let mut server = TestServer::up(&[]).await;
    let for_demo = json!({ "name": "for-demo", "role": "operator", "project": "demo" });
    let issued = server.insist("POST", "/v1/operator-tokens", Some(&for_demo)).await;
    let token = issued["text"].as_str().unwrap();
    let provision = |server: &TestServer, name: &str| server.usher_as(token, &["provision", name]);
    let create = "credential create second --cloud local --mount secret --path own/second";
    done(&server, create);
    done(&server, "credential request second --project demo");
    let (code, printed) = provision(&server, "one-is-approved");
    assert_eq!(code, Some(0), "{printed}");
    approve(&mut server, "demo", "second").await;
    let (code, printed) = provision(&server, "two-are-approved");
    let several = "--credential is required: project \"demo\" has several (local, second)";
    assert!(code == Some(2) && printed.contains(several), "{code:?} {printed}");
    done(&server, "project create bare");
    let (code, printed) = server.usher(&["provision", "none", "--project", "bare"]);
    let none = "project \"bare\" has none yet: see `usher credential request`";
    assert!(code == Some(2) && printed.contains(none), "{code:?} {printed}");
}
