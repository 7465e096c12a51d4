//! Discovery.

use serde_json::Value;
use usher_apiserver::Fault;
use usher_cluster::kinds::{Kinds, Resource, Unusable};

use crate::rig::{admin, call, count, define, server, undefine, user};

// Requirement: KA-7
#[tokio::test]
async fn a_kind_is_found_when_it_is_installed_and_lost_when_it_is_removed() {
    let server = server().await;
    let kinds = Kinds::discover(admin(&server)).await.expect("kinds");
    assert_eq!(
        kinds.usable("deep.example", "Well"),
        Err(Unusable::NotInstalled("Well.deep.example".into()))
    );
    define(&server).await;
    assert_eq!(kinds.find("deep.example", "Well"), None, "nothing is read before it is asked for");
    kinds.refresh().await.expect("kinds");
    let found = kinds.usable("deep.example", "Well").expect("a kind");
    assert_eq!(found.resource, Resource::new("deep.example", "wells"));
    assert_eq!((found.version.as_str(), found.namespaced), ("v1", true));
    assert_eq!(found.request("a").url_path, "/apis/deep.example/v1/namespaces/a/wells");
    assert_eq!(found.request("").url_path, "/apis/deep.example/v1/wells");
    assert_eq!(kinds.of(&found.resource), Some(found));
    undefine(&server).await;
    kinds.refresh().await.expect("kinds");
    assert_eq!(kinds.find("deep.example", "Well"), None);
}

// Requirement: KA-7
#[tokio::test]
async fn kinds_that_cannot_be_followed_are_refused() {
    let server = server().await;
    let kinds = Kinds::discover(admin(&server)).await.expect("kinds");
    let namespace = kinds.usable("", "Namespace").expect("a kind");
    assert_eq!(namespace.request("ignored").url_path, "/api/v1/namespaces");
    for (group, kind) in
        [("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")]
    {
        assert!(kinds.find(group, kind).is_some(), "{kind}.{group} is served");
        let refused = kinds.usable(group, kind);
        assert!(matches!(refused, Err(Unusable::Excluded(_))), "{refused:?}");
    }
    let services = kinds.usable("apiregistration.k8s.io", "APIService");
    let lacks = services.expect_err("read only");
    assert_eq!(
        lacks.to_string(),
        "kind \"APIService.apiregistration.k8s.io\" does not support patch, delete"
    );
    let review = kinds.usable("authorization.k8s.io", "SelfSubjectAccessReview");
    let lacks = vec!["get", "list", "watch", "patch", "delete"];
    let kind = "SelfSubjectAccessReview.authorization.k8s.io".to_owned();
    assert_eq!(review, Err(Unusable::Lacks { kind, lacks }));
}

// Requirement: KA-7
#[tokio::test]
async fn a_failed_discovery_keeps_what_is_known() {
    let server = server().await;
    define(&server).await;
    let kinds = Kinds::discover(admin(&server)).await.expect("kinds");
    server.set_faults(|asked| match asked.resource.as_str() {
        "apiservices.apiregistration.k8s.io" => Fault::Refuse(503),
        _ => Fault::None,
    });
    assert!(kinds.refresh().await.is_err());
    assert!(kinds.find("deep.example", "Well").is_some());
}

// Requirement: KA-7
#[tokio::test]
async fn readings_that_wait_for_each_other_are_shared() {
    let server = server().await;
    let kinds = Kinds::discover(admin(&server)).await.expect("kinds");
    let services = "apiservices.apiregistration.k8s.io";
    let before = count(&server, "list", services);
    let all: Vec<_> = (0..20).map(|_| kinds.refresh()).collect();
    for answer in futures_util::future::join_all(all).await {
        answer.expect("kinds");
    }
    let made = count(&server, "list", services) - before;
    assert!((1..=2).contains(&made), "{made} readings for 20 callers");
    server.set_faults(|asked| match asked.resource.as_str() {
        "apiservices.apiregistration.k8s.io" => Fault::Refuse(503),
        _ => Fault::None,
    });
    let before = count(&server, "list", services);
    let all: Vec<_> = (0..20).map(|_| kinds.refresh()).collect();
    for answer in futures_util::future::join_all(all).await {
        answer.expect_err("it does not answer");
    }
    let made = count(&server, "list", services) - before;
    assert!((1..=2).contains(&made), "{made} failed readings for 20 callers");
}

// Requirement: KA-7
#[tokio::test]
async fn discovery_needs_no_right() {
    let server = server().await;
    let ann = user(&server, "ann");
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert!(call(&ann, ("GET", services), &Value::Null).await.is_err());
    let kinds = Kinds::discover(ann).await.expect("kinds");
    assert!(kinds.usable("", "ConfigMap").is_ok());
}
