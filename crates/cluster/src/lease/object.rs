//! The Lease object: how it is read, and written only as it was read.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube_client::core::params::{ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube_client::core::{ObjectList, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use usher_domain::object::name::{
    ANNOTATION_LEASE_EPOCH, ANNOTATION_LEASE_RELEASED, FIELD_MANAGER,
};
use usher_kernel::Timestamp;

use crate::answer::{Failure, Row};
use crate::client::Client;
use crate::pin;
use crate::watches::stream::{Stream, Watched};

const LEASE: &str = "coordination.k8s.io/v1";

/// Where the Lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// A Lease, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Lease {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<LeaseSpec>,
    #[serde(default)]
    code: u16,
}

/// Which state of the object was read: only that state is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    uid: String,
    revision: String,
}

/// One holding of the Lease. The time makes it differ from one of another process that was given
/// the same identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) identity: String,
    pub(super) epoch: u64,
    pub(super) acquired: Timestamp,
}

/// Why the object was not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// It is not as it was read.
    Moved,
    Failed(Failure),
}

impl Lease {
    pub(super) fn read(&self) -> Read {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let ObjectMeta { uid, resource_version, .. } = &self.metadata;
        Read { uid: text(uid), revision: text(resource_version) }
    }

    /// The epoch of its last holder. A Lease that another program wrote has transitions only.
    pub(super) fn epoch(&self) -> u64 {
        let written = self.annotation(ANNOTATION_LEASE_EPOCH).and_then(|it| it.parse().ok());
        // A record has it as a number of JSON.
        let written = written.filter(|it| *it < 1 << 53);
        written.unwrap_or(0).max(self.transitions().into())
    }

    /// How long its holder says that it lasts.
    pub(super) fn duration(&self) -> Duration {
        let seconds = self.spec.as_ref().and_then(|it| it.lease_duration_seconds).unwrap_or(0);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Whether its last holder released it, with nothing left on its way.
    pub(super) fn is_released(&self) -> bool {
        self.holder().is_empty() && self.annotation(ANNOTATION_LEASE_RELEASED).is_some()
    }

    pub(super) fn is_held_as(&self, holding: &Holding) -> bool {
        let acquired = self.spec.as_ref().and_then(|it| it.acquire_time.as_ref()).map(timestamp);
        self.holder() == holding.identity
            && self.epoch() == holding.epoch
            && acquired == Some(holding.acquired)
    }

    /// The time that its holder wrote with the last renewal.
    pub(super) fn renewed(&self) -> Option<Timestamp> {
        self.spec.as_ref().and_then(|it| it.renew_time.as_ref()).map(timestamp)
    }

    pub(super) fn holder(&self) -> &str {
        self.spec.as_ref().and_then(|it| it.holder_identity.as_deref()).unwrap_or_default()
    }

    fn transitions(&self) -> u32 {
        let transitions = self.spec.as_ref().and_then(|it| it.lease_transitions).unwrap_or(0);
        u32::try_from(transitions).unwrap_or(0)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

impl Watched for Lease {
    fn revision(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn code(&self) -> u16 {
        self.code
    }
}

impl LeaseName {
    /// The Lease, if it is there, and the revision of the answer.
    pub(super) async fn list(&self, client: &Client) -> Result<(Option<Lease>, u64), Failure> {
        let params = ListParams::default().fields(&self.field());
        let list: ObjectList<Lease> = client.object(self.request().list(&params)).await?;
        let revision = list.metadata.resource_version.as_deref().and_then(pin::revision);
        let revision =
            revision.ok_or_else(|| Failure::NoAnswer("a list without a revision".to_owned()))?;
        let is_meant = |it: &Lease| it.metadata.name.as_deref() == Some(&self.name);
        Ok((list.items.into_iter().find(is_meant), revision))
    }

    /// Its changes after a revision.
    pub(super) async fn watch(
        &self,
        client: &Client,
        revision: u64,
    ) -> Result<Stream<Lease>, Failure> {
        let watch = client.bounds().watch;
        let seconds = u32::try_from(watch.as_secs().max(1)).unwrap_or(u32::MAX);
        let params = WatchParams {
            field_selector: Some(self.field()),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let body = client.watch(self.request().watch(&params, &revision.to_string())).await?;
        Ok(Stream::new(body, revision, (watch, client.bounds().request)))
    }

    /// Takes a Lease that was read, or creates it.
    pub(super) async fn acquire(
        &self,
        client: &Client,
        lease: Option<&Lease>,
        (holding, duration): (&Holding, Duration),
    ) -> Result<Lease, Unwritten> {
        let at = holding.acquired.to_rfc3339();
        let transitions = lease.map_or(0, |it| it.transitions().saturating_add(1));
        let spec = json!({
            "holderIdentity": holding.identity,
            "leaseDurationSeconds": whole_seconds(duration),
            "leaseTransitions": i32::try_from(transitions).unwrap_or(i32::MAX),
            "acquireTime": at,
            "renewTime": at,
        });
        let epoch = holding.epoch.to_string();
        let Some(lease) = lease else {
            let annotations = json!({ANNOTATION_LEASE_EPOCH: epoch});
            return self.create(client, &annotations, &spec).await;
        };
        let annotations =
            json!({ANNOTATION_LEASE_EPOCH: epoch, ANNOTATION_LEASE_RELEASED: Value::Null});
        self.patch(client, &lease.read(), (&annotations, &spec)).await
    }

    pub(super) async fn renew(
        &self,
        client: &Client,
        read: &Read,
        now: Timestamp,
    ) -> Result<Lease, Unwritten> {
        let spec = json!({"renewTime": now.to_rfc3339()});
        self.patch(client, read, (&json!({}), &spec)).await
    }

    /// Releases it with nothing left on its way.
    pub(super) async fn release(
        &self,
        client: &Client,
        read: &Read,
        now: Timestamp,
    ) -> Result<Lease, Unwritten> {
        let annotations = json!({ANNOTATION_LEASE_RELEASED: now.to_rfc3339()});
        self.patch(client, read, (&annotations, &json!({"holderIdentity": ""}))).await
    }

    /// Creates a Lease that was never held.
    pub(super) async fn create_released(
        &self,
        client: &Client,
        now: Timestamp,
    ) -> Result<Lease, Unwritten> {
        let annotations = json!({ANNOTATION_LEASE_RELEASED: now.to_rfc3339()});
        self.create(client, &annotations, &json!({})).await
    }

    async fn create(
        &self,
        client: &Client,
        annotations: &Value,
        spec: &Value,
    ) -> Result<Lease, Unwritten> {
        let object = json!({
            "apiVersion": LEASE,
            "kind": "Lease",
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": spec,
        });
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let request = self.request().create(&params, object.to_string().into_bytes());
        client.object(request).await.map_err(|failure| match failure.row() {
            Row::Exists => Unwritten::Moved,
            Row::ObjectAbsent
            | Row::PathAbsent
            | Row::NoRight
            | Row::NamespaceTerminating
            | Row::DeniedByUs
            | Row::DeniedByAnother { .. }
            | Row::Conflict
            | Row::Precondition
            | Row::Invalid
            | Row::Unavailable { .. } => Unwritten::Failed(failure),
        })
    }

    async fn patch(
        &self,
        client: &Client,
        read: &Read,
        (annotations, spec): (&Value, &Value),
    ) -> Result<Lease, Unwritten> {
        let patch = json!({
            "metadata": {
                "uid": read.uid,
                "resourceVersion": read.revision,
                "annotations": annotations,
            },
            "spec": spec,
        });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = self.request().patch(&self.name, &params, &Patch::Merge(&patch));
        client.object(request).await.map_err(|failure| match failure.row() {
            Row::ObjectAbsent | Row::Conflict | Row::Precondition => Unwritten::Moved,
            Row::PathAbsent
            | Row::NoRight
            | Row::NamespaceTerminating
            | Row::DeniedByUs
            | Row::DeniedByAnother { .. }
            | Row::Exists
            | Row::Invalid
            | Row::Unavailable { .. } => Unwritten::Failed(failure),
        })
    }

    fn request(&self) -> Request {
        Request::new(format!("/apis/{LEASE}/namespaces/{}/leases", self.namespace))
    }

    fn field(&self) -> String {
        format!("metadata.name={}", self.name)
    }
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn timestamp(time: &MicroTime) -> Timestamp {
    Timestamp::from_micros(time.0.as_microsecond())
}

/// Never less than the lease lasts.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}
