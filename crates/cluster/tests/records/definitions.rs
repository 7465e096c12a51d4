//! Definitions: printed, installed, and left alone if they are newer.

use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::client::{Bounds, Client};
use usher_cluster::crds::{self, InstallError, Installed, VERSION};
use usher_kernel::Trouble;

use crate::rig::{DEFINITIONS, LONG, call, count, send, server};

const NAMES: [&str; 3] =
    ["anchors.broker.usher.dev", "clusteranchors.broker.usher.dev", "records.records.usher.dev"];
const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// For a definition that is never established, while time is paused: the others are by then.
const SHORT: Duration = Duration::from_mins(1);

fn admin(server: &ApiServer) -> Client {
    Client::over(server.client(), Bounds::default())
}

async fn definition(server: &ApiServer, name: &str) -> Value {
    let path = format!("{DEFINITIONS}/{name}");
    call(&admin(server), ("GET", &path), &Value::Null).await.expect("a definition")
}

async fn annotate(server: &ApiServer, name: &str, version: &str) {
    let body = json!({"metadata": {"annotations": {"usher.dev/definitions": version}}});
    let path = format!("{DEFINITIONS}/{name}");
    call(&admin(server), ("PATCH", &path), &body).await.expect("a patch");
}

// Requirement: KR-1
#[tokio::test]
async fn each_printed_definition_is_accepted_as_it_is() {
    let server = server().await;
    let yaml = crds::yaml().expect("YAML");
    let path = format!("{DEFINITIONS}?fieldValidation=Strict");
    let client = admin(&server);
    for document in yaml.split("---\n").skip(1) {
        let asked = ("POST", path.as_str());
        let made = send(&client, asked, "application/yaml", document.to_owned()).await;
        made.expect("an accepted definition");
    }
    for name in NAMES {
        let made = definition(&server, name).await;
        assert_eq!(made["metadata"]["annotations"]["usher.dev/definitions"], VERSION.to_string());
    }
    let applied = crds::install(&client, LONG).await;
    assert_eq!(applied, Ok(Installed::Ours), "over those that kubectl made");
}

// Requirement: KR-2
#[tokio::test]
async fn definitions_are_applied_once_and_established() {
    let server = server().await;
    let client = admin(&server);
    assert_eq!(crds::install(&client, LONG).await, Ok(Installed::Ours));
    for name in NAMES {
        let made = definition(&server, name).await;
        let manager = &made["metadata"]["managedFields"][0];
        let wanted = (&json!("usher-definitions"), &json!("Apply"));
        assert_eq!((&manager["manager"], &manager["operation"]), wanted);
        let conditions = made["status"]["conditions"].as_array().expect("conditions");
        assert!(conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True"));
    }
    let anchor = json!({
        "apiVersion": "broker.usher.dev/v1alpha1", "kind": "ClusterAnchor",
        "metadata": {"name": "a"}, "spec": {"pruned": true},
    });
    let path = "/apis/broker.usher.dev/v1alpha1/clusteranchors";
    let made = call(&client, ("POST", path), &anchor).await.expect("an anchor");
    assert_eq!(made["spec"], Value::Null, "an anchor says nothing itself");
    let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
    let before = version(&definition(&server, NAMES[0]).await);
    assert_eq!(crds::install(&client, LONG).await, Ok(Installed::Ours));
    assert_eq!(version(&definition(&server, NAMES[0]).await), before, "nothing changed");
}

/// Red by: a guard that looks at one definition only, or after the first was applied.
// Requirement: KR-2
#[tokio::test]
async fn definitions_of_a_newer_program_are_left_alone() {
    let server = server().await;
    let client = admin(&server);
    crds::install(&client, LONG).await.expect("definitions");
    annotate(&server, NAMES[2], "7").await;
    let writes = count(&server, "patch", RESOURCE);
    assert_eq!(crds::install(&client, LONG).await, Ok(Installed::Newer { found: 7 }));
    assert_eq!(count(&server, "patch", RESOURCE), writes, "nothing is written");
    annotate(&server, NAMES[2], "0").await;
    assert_eq!(crds::install(&client, LONG).await, Ok(Installed::Ours), "older ones are replaced");
    let made = definition(&server, NAMES[2]).await;
    assert_eq!(made["metadata"]["annotations"]["usher.dev/definitions"], VERSION.to_string());
    annotate(&server, NAMES[1], "new").await;
    let refused = crds::install(&client, LONG).await.expect_err("no version");
    let text = refused.to_string();
    assert!(text.contains("clusteranchors") && text.contains("\"new\""), "{text}");
}

// Requirement: KR-2
#[tokio::test]
async fn a_definition_that_changed_since_it_was_read_is_not_replaced() {
    let server = server().await;
    let client = admin(&server);
    crds::install(&client, LONG).await.expect("definitions");
    // A read behind the newest state stands for a change between read and apply.
    annotate(&server, NAMES[0], "7").await;
    server.set_faults(|asked| match asked.verb.as_str() {
        "get" => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    let refused = crds::install(&client, LONG).await;
    let Err(InstallError::Apply { name, trouble: Trouble::Blocked { .. } }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, NAMES[0]);
    server.clear_faults();
    let kept = definition(&server, NAMES[0]).await;
    assert_eq!(kept["metadata"]["annotations"]["usher.dev/definitions"], "7");
}

// Requirement: KR-2
#[tokio::test(start_paused = true)]
async fn what_prevents_the_definitions_is_said() {
    let server = server().await;
    let client = admin(&server);
    server.set_faults(|_| Fault::Refuse(503));
    let refused = crds::install(&client, LONG).await;
    assert!(matches!(refused, Err(InstallError::Read { .. })), "{refused:?}");
    server.set_faults(|asked| match asked.verb.as_str() {
        "patch" => Fault::Refuse(403),
        _ => Fault::None,
    });
    let refused = crds::install(&client, LONG).await;
    let is_rejected =
        matches!(&refused, Err(InstallError::Apply { trouble: Trouble::Rejected { .. }, .. }));
    assert!(is_rejected, "{refused:?}");
    server.clear_faults();
    let mut other: Value = serde_json::to_value(&crds::definitions()[2]).expect("JSON");
    other["metadata"]["name"] = json!("others.records.usher.dev");
    other["spec"]["names"]["plural"] = json!("others");
    other["spec"]["names"]["singular"] = json!("other");
    call(&client, ("POST", DEFINITIONS), &other).await.expect("another definition of the kind");
    let refused = crds::install(&client, SHORT).await;
    let Err(InstallError::NotEstablished { name, why, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, NAMES[2]);
    assert!(why.contains("Record"), "{why}");
}
