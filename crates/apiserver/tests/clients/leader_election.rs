//! Leaders that a lease elects.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube_client::Api;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder};
use kube_runtime::wait::await_condition;
use usher_apiserver::ApiServer;

const NAME: &str = "leader";

async fn candidate(server: &ApiServer, name: &str) -> LeaseManager {
    let builder = LeaseManagerBuilder::new(server.client(), NAME).with_namespace("default");
    let builder = builder.with_identity(name).with_duration(4).with_grace(2);
    builder.build().await.expect("a candidate")
}

fn renewed(lease: Option<&Lease>) -> Option<MicroTime> {
    lease?.spec.as_ref()?.renew_time.clone()
}

async fn holder(server: &ApiServer) -> Option<String> {
    let api: Api<Lease> = Api::default_namespaced(server.client());
    api.get(NAME).await.expect("a lease").spec.and_then(|spec| spec.holder_identity)
}

// Requirement: AK-21
#[tokio::test]
async fn one_leader_at_a_time_and_a_successor_follows() {
    let server = ApiServer::builder().build().await.expect("a server");
    let (one, two) = (candidate(&server, "one").await, candidate(&server, "two").await);
    assert!(one.changed().await.expect("an election"));
    let leases: Api<Lease> = Api::default_namespaced(server.client());
    let first = renewed(leases.get(NAME).await.ok().as_ref());
    let later = |lease: Option<&Lease>| renewed(lease) > first;
    let mut waiting = Box::pin(two.changed());
    tokio::select! {
        _ = &mut waiting => unreachable!("two leads beside one"),
        _ = one.changed() => unreachable!("one lost what it renews"),
        found = await_condition(leases, NAME, later) => drop(found.expect("a renewed lease")),
    }
    assert_eq!(holder(&server).await.as_deref(), Some("one"));
    one.release().await.expect("released");
    assert!(waiting.await.expect("an election"));
    assert_eq!(holder(&server).await.as_deref(), Some("two"));
    // Two stops renewing: three leads when the lease has expired.
    drop(two);
    let three = candidate(&server, "three").await;
    assert!(three.changed().await.expect("an election"));
    assert_eq!(holder(&server).await.as_deref(), Some("three"));
}
