//! Presence, absence and removed kinds.

use serde_json::json;
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::client::Client;
use usher_cluster::read::{Cluster, Presence, Target};
use usher_domain::object::authority::Authority;
use usher_kernel::Unknown;

use crate::rig::{
    MAPS, WELLS, admin, answering, count, define, done, grant, map, server, undefine, user, well,
};

fn config_map(name: &str) -> Target {
    Target {
        group: String::new(),
        kind: "ConfigMap".into(),
        plural: Some("configmaps".into()),
        namespace: "default".into(),
        name: name.into(),
    }
}

fn a_well() -> Target {
    Target {
        group: "deep.example".into(),
        kind: "Well".into(),
        plural: Some("wells".into()),
        namespace: "default".into(),
        name: "a".into(),
    }
}

async fn opened(client: Client) -> Cluster {
    Cluster::open(client).await.expect("a cluster")
}

/// One snapshot's answer, in short.
async fn seen(cluster: &Cluster, target: &Target, authority: Authority) -> String {
    let answered = cluster.ask().await.expect("a pin");
    let snapshot = cluster.snapshot(&answered, authority);
    let metadata = match snapshot.metadata(target).await {
        Presence::Present(meta) => format!("present {}", meta.uid.expect("a uid")),
        Presence::Absent => "absent".to_owned(),
        Presence::KindRemoved => "kind removed".to_owned(),
        Presence::Unknown(why) => format!("{why:?}"),
    };
    let whole = match snapshot.object(target).await {
        Presence::Present(it) => format!("present {}", it.metadata.uid.expect("a uid")),
        Presence::Absent => "absent".to_owned(),
        Presence::KindRemoved => "kind removed".to_owned(),
        Presence::Unknown(why) => format!("{why:?}"),
    };
    assert_eq!(metadata, whole, "both forms say the same");
    metadata
}

async fn pinned(cluster: &Cluster, target: &Target) -> String {
    seen(cluster, target, Authority::Pinned).await
}

fn refuse(server: &ApiServer, verb: &'static str, resource: &'static str, code: u16) {
    server.set_faults(move |asked| {
        let meant = asked.verb == verb && asked.resource == resource;
        if meant { Fault::Refuse(code) } else { Fault::None }
    });
}

// Requirement: KA-5
#[tokio::test]
async fn an_object_is_present_by_its_uid_and_absent_by_a_list() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    assert_eq!(pinned(&cluster, &config_map("a")).await, "absent");
    let made = done(&server, ("POST", MAPS), &map("a")).await;
    let uid = made["metadata"]["uid"].as_str().expect("a uid");
    let lists = count(&server, "list", "configmaps");
    assert_eq!(pinned(&cluster, &config_map("a")).await, format!("present {uid}"));
    assert_eq!(count(&server, "list", "configmaps"), lists, "presence needs no list");
    assert_eq!(pinned(&cluster, &config_map("b")).await, "absent");
    assert_eq!(count(&server, "list", "configmaps"), lists + 2, "absence does");
}

// Requirement: KA-5
#[tokio::test]
async fn an_absence_that_no_list_confirms_is_unknown() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    for code in [403, 404, 429, 500, 503] {
        refuse(&server, "list", "configmaps", code);
        let wanted = if code == 403 { "Forbidden" } else { "Unreachable" };
        assert_eq!(pinned(&cluster, &config_map("a")).await, wanted, "{code}");
        refuse(&server, "get", "configmaps", code);
        assert_eq!(pinned(&cluster, &config_map("a")).await, wanted, "{code}");
    }
    server.set_faults(|asked| match asked.verb.as_str() {
        "get" => Fault::LoseAnswer(504),
        _ => Fault::None,
    });
    assert_eq!(pinned(&cluster, &config_map("a")).await, "Unreachable");
}

/// Red by: an absence that is believed at any revision.
// Requirement: KA-5
#[tokio::test]
async fn an_absence_on_a_stale_list_is_unknown() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    done(&server, ("POST", MAPS), &map("a")).await;
    server.set_faults(|asked| match asked.resource.as_str() {
        "configmaps" => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    assert_eq!(pinned(&cluster, &config_map("a")).await, "Unreachable", "it stands");
    server.clear_faults();
    assert!(pinned(&cluster, &config_map("a")).await.starts_with("present"));
}

// Requirement: KA-5
#[tokio::test]
async fn an_absence_in_another_cluster_is_unknown_and_raises_no_revision() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    let seen_there = seen(&cluster, &config_map("a"), Authority::Replaced).await;
    assert_eq!(seen_there, "ClusterReplaced");
    assert_eq!(cluster.revisions.highest(), 0);
    assert_eq!(pinned(&cluster, &config_map("a")).await, "absent");
    assert!(cluster.revisions.highest() > 0);
    define(&server).await;
    undefine(&server).await;
    assert_eq!(seen(&cluster, &a_well(), Authority::Replaced).await, "ClusterReplaced");
}

/// Red by: revisions of a cluster that is gone, held against the one in its place.
// Requirement: KA-5
#[tokio::test]
async fn an_absence_in_a_rebuilt_cluster_counts_after_its_pin_was_reset() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    for number in 0..100 {
        done(&server, ("POST", MAPS), &map(&format!("m{number}"))).await;
    }
    assert_eq!(pinned(&cluster, &config_map("a")).await, "absent");
    let before = cluster.ask().await.expect("a pin");
    server.rebuild(ApiServer::builder()).await.expect("a rebuilt cluster");
    let after = cluster.ask().await.expect("a pin");
    assert!(before.judge(&after) == Authority::Replaced && after.revision < before.revision);
    assert_eq!(seen(&cluster, &config_map("a"), Authority::Replaced).await, "ClusterReplaced");
    assert_eq!(pinned(&cluster, &config_map("a")).await, "absent", "an operator accepted it");
    assert!(cluster.revisions.highest() < before.revision);
}

/// Red by: an empty page, or a list of other objects, taken for absence.
// Requirement: KA-5
#[tokio::test]
async fn a_list_that_is_not_the_whole_answer_is_unknown() {
    let server = server().await;
    let other = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "other", "uid": "u", "resourceVersion": "1"},
    });
    for (items, token) in [(json!([other]), ""), (json!([]), "more")] {
        let list = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": items,
            "metadata": {"resourceVersion": "1000000", "continue": token},
        });
        let cluster = opened(answering(&server, MAPS, &list)).await;
        assert_eq!(pinned(&cluster, &config_map("a")).await, "Unreachable", "{list}");
    }
}

// Requirement: KA-5
#[tokio::test]
async fn an_object_that_is_created_between_the_reads_is_present() {
    let server = server().await;
    let cluster = opened(admin(&server)).await;
    done(&server, ("POST", MAPS), &map("a")).await;
    server.set_faults(|asked| match asked.verb.as_str() {
        "get" if asked.resource == "configmaps" => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    assert!(pinned(&cluster, &config_map("a")).await.starts_with("present"));
}

/// Red by: a path that is not there taken for an object that is not.
// Requirement: KA-6
#[tokio::test]
async fn a_removed_kind_is_not_an_absent_object() {
    let server = server().await;
    define(&server).await;
    done(&server, ("POST", WELLS), &well("a")).await;
    let cluster = opened(admin(&server)).await;
    assert!(pinned(&cluster, &a_well()).await.starts_with("present"));
    undefine(&server).await;
    assert_eq!(pinned(&cluster, &a_well()).await, "kind removed");
    assert_eq!(pinned(&cluster, &a_well()).await, "kind removed", "also by its recorded plural");
    let forgotten = Target { plural: None, ..a_well() };
    assert_eq!(pinned(&cluster, &forgotten).await, "Unreachable", "no plural, no definition");
    let elsewhere = Target { group: "deep.example/status".into(), ..a_well() };
    assert_eq!(pinned(&cluster, &elsewhere).await, "Unreachable", "no definition has this name");
    define(&server).await;
    assert_eq!(pinned(&cluster, &a_well()).await, "absent", "of the kind that is served again");
}

// Requirement: KA-6
#[tokio::test]
async fn a_kind_is_removed_only_if_every_witness_says_so() {
    let server = server().await;
    define(&server).await;
    let cluster = opened(admin(&server)).await;
    let wells = "wells.deep.example";
    refuse(&server, "get", wells, 404);
    assert_eq!(pinned(&cluster, &a_well()).await, "Unreachable", "discovery has it");
    undefine(&server).await;
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    for (verb, resource, code, wanted) in [
        ("get", definitions, 500, "Unreachable"),
        ("get", definitions, 403, "Forbidden"),
        ("get", definitions, 404, "Unreachable"),
        ("list", "apiservices.apiregistration.k8s.io", 503, "Unreachable"),
        ("list", "apiservices.apiregistration.k8s.io", 403, "Forbidden"),
    ] {
        refuse(&server, verb, resource, code);
        assert_eq!(pinned(&cluster, &a_well()).await, wanted, "{verb} {resource} {code}");
    }
    server.clear_faults();
    assert_eq!(pinned(&cluster, &a_well()).await, "kind removed");
}

// Requirement: KA-6
#[tokio::test]
async fn a_kind_whose_server_does_not_answer_is_not_removed() {
    let server = server().await;
    define(&server).await;
    undefine(&server).await;
    let service = json!({
        "metadata": {"name": "v1.deep.example"},
        "spec": {
            "group": "deep.example", "version": "v1", "groupPriorityMinimum": 1,
            "versionPriority": 1, "service": {"name": "a", "namespace": "b"},
        },
        "status": {"conditions": [{"type": "Available", "status": "False"}]},
    });
    let said = service["status"].clone();
    let cases = [
        ("deep.example", &said, "Unreachable"),
        ("deep.example", &json!({}), "Unreachable"),
        ("far.example", &said, "kind removed"),
    ];
    for (group, status, wanted) in cases {
        let mut list = json!({"kind": "APIServiceList", "metadata": {}, "items": [service]});
        list["items"][0]["spec"]["group"] = json!(group);
        list["items"][0]["status"] = status.clone();
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let cluster = opened(answering(&server, path, &list)).await;
        assert_eq!(pinned(&cluster, &a_well()).await, wanted, "{group}");
    }
}

/// Red by: revisions of different servers that are compared.
// Requirement: KA-5
#[tokio::test]
async fn a_server_behind_the_cluster_counts_its_revisions_apart() {
    let server = server().await;
    define(&server).await;
    let service = json!({
        "metadata": {"name": "v1.deep.example"},
        "spec": {
            "group": "deep.example", "version": "v1", "groupPriorityMinimum": 1,
            "versionPriority": 1, "service": {"name": "a", "namespace": "b"},
        },
    });
    let list = json!({"kind": "APIServiceList", "metadata": {}, "items": [service]});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let cluster = opened(answering(&server, path, &list)).await;
    cluster.revisions.note(1_000_000);
    assert_eq!(pinned(&cluster, &config_map("a")).await, "Unreachable");
    assert_eq!(pinned(&cluster, &a_well()).await, "absent");
    server.set_faults(|asked| match asked.resource.as_str() {
        "wells.deep.example" => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    assert_eq!(pinned(&cluster, &a_well()).await, "Unreachable", "it has a floor of its own");
}

// Requirement: KA-5
#[tokio::test]
async fn a_reader_without_the_right_knows_nothing() {
    let server = server().await;
    grant(&server, "ann", ("", "namespaces")).await;
    let cluster = opened(user(&server, "ann")).await;
    assert_eq!(pinned(&cluster, &config_map("a")).await, "Forbidden");
    let answered = cluster.ask().await.expect("a pin");
    let nowhere = Target { name: "a/b".into(), ..config_map("a") };
    let snapshot = cluster.snapshot(&answered, Authority::Pinned);
    let presence = snapshot.metadata(&nowhere).await;
    assert_eq!(presence, Presence::Unknown(Unknown::Unreachable), "it is no name");
}
