//! The records of a cluster: requests, and what their answers say.

use std::sync::Arc;

use hyper::Request as HttpRequest;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use kube_client::core::params::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, Preconditions,
};
use kube_client::core::request::Error as RequestError;
use kube_client::core::{ObjectList, Request};
use serde_json::{Value, json};
use usher_domain::object::id::InstallationId;
use usher_domain::object::name::{
    FIELD_MANAGER, LABEL_INSTALLATION, LABEL_ORPHAN, RECORD_API_VERSION,
};
use usher_kernel::{Lifecycle, Trouble, Version};

use super::content::Codec;
use super::ledger::RecordLedger;
use super::object::{Of, RecordObject, Spec};
use crate::answer::{Failure, ReadFailure};
use crate::client::Built;
use crate::lease::Term;
use crate::pin;
use crate::read::Cluster;

/// How many records a page of the list has.
const PAGE: u32 = 500;
const JSON: &str = "application/json";

/// The records of one cluster in one namespace.
#[derive(Clone)]
pub struct Records {
    cluster: Arc<Cluster>,
    installation: InstallationId,
    namespace: String,
}

/// A record without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub of: Of,
    pub version: Version,
    /// The term in which it was last written.
    pub epoch: u64,
    pub phase: String,
    pub is_orphan: bool,
}

/// What a write shall make of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write<'w> {
    Create { spec: &'w Spec, orphan: bool },
    Patch { version: Version, spec: &'w Spec, orphan: bool },
    Condition { version: Version, spec: &'w Spec },
}

impl Records {
    pub fn new(
        cluster: Arc<Cluster>,
        installation: InstallationId,
        namespace: impl Into<String>,
    ) -> Self {
        Self { cluster, installation, namespace: namespace.into() }
    }

    /// The ledger of one object, for one step.
    pub fn ledger<'a, L: Lifecycle, C: Codec<L>>(
        &'a self,
        of: Of,
        term: &'a Term,
        codec: C,
    ) -> RecordLedger<'a, L, C> {
        RecordLedger::new(self, of, term, codec)
    }

    /// Every record, page by page: what is stepped when a term begins. A term that begins with a
    /// lower epoch than one of them changes none.
    pub async fn list(&self) -> Result<Vec<Listed>, Trouble> {
        let mut records = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let request = self.requests().list(&params);
            let page = self.cluster.client.object::<ObjectList<RecordObject>>(request).await;
            let page = page.map_err(|failure| failure.trouble())?;
            for object in page.items {
                records.push(listed(object)?);
            }
            match page.metadata.continue_.filter(|it| !it.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(records),
            }
        }
    }

    /// A record, or that there is none. An answer that is older than one before is trouble.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Box<RecordObject>>, Trouble> {
        let request = self.requests().get(name, &GetParams::default());
        match self.cluster.client.object::<Box<RecordObject>>(request).await {
            Ok(found) => self.checked(name, found).map(Some),
            Err(failure) if failure.read() == ReadFailure::ObjectAbsent => {
                self.confirm_absent(name).await
            }
            Err(failure) => Err(failure.trouble()),
        }
    }

    /// Writes a record; what it is then.
    pub(super) async fn write(
        &self,
        name: &str,
        write: &Write<'_>,
    ) -> Result<Box<RecordObject>, Failure> {
        let written: Box<RecordObject> =
            self.cluster.client.object(self.request(name, write)).await?;
        if written.version().is_none() {
            return Err(Failure::NoAnswer("the response is not what was requested".to_owned()));
        }
        self.note(name, &written);
        Ok(written)
    }

    /// Deletes a record as it was read.
    pub(super) async fn delete(&self, name: &str, read: &RecordObject) -> Result<(), Failure> {
        let meta = &read.metadata;
        let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
        let params =
            DeleteParams::background().preconditions(Preconditions { resource_version, uid });
        self.cluster.client.send(self.requests().delete(name, &params)).await.map(|_| ())
    }

    /// Forgets what was seen of a record that is gone.
    pub(super) fn forget(&self, name: &str) {
        self.cluster.revisions.drop_object(&self.path(name));
    }

    /// How people call a record.
    pub(super) fn display(&self, name: &str) -> String {
        format!("Record {}/{name}", self.namespace)
    }

    async fn confirm_absent(&self, name: &str) -> Result<Option<Box<RecordObject>>, Trouble> {
        let floor = self.cluster.revisions.highest();
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let request = self.requests().list(&params);
        let list = self.cluster.client.object::<ObjectList<RecordObject>>(request).await;
        let list = list.map_err(|failure| failure.trouble())?;
        let is_meant = |it: &RecordObject| it.metadata.name.as_deref() == Some(name);
        if let Some(found) = list.items.into_iter().find(is_meant) {
            return self.checked(name, Box::new(found)).map(Some);
        }
        match list.metadata.resource_version.as_deref().and_then(pin::revision) {
            Some(revision) if revision >= floor => {
                self.cluster.revisions.note(revision);
                Ok(None)
            }
            Some(revision) => Err(self.is_older(name, revision)),
            None => Err(Trouble::unavailable("the cluster: a list without a revision")),
        }
    }

    fn checked(&self, name: &str, found: Box<RecordObject>) -> Result<Box<RecordObject>, Trouble> {
        let Some(version) = found.version() else {
            return Err(Trouble::unavailable("the cluster: a record without a version"));
        };
        if !self.note(name, &found) {
            return Err(self.is_older(name, version.0));
        }
        Ok(found)
    }

    fn is_older(&self, name: &str, revision: u64) -> Trouble {
        let record = self.display(name);
        Trouble::unavailable(format!(
            "the present state of {record}: the cluster answered with revision {revision}, and a \
             higher one was seen before; if it was restored, check it and restart this process"
        ))
    }

    /// Notes a version that was answered; false if a newer one was seen before.
    fn note(&self, name: &str, object: &RecordObject) -> bool {
        let version = object.version().unwrap_or_default();
        self.cluster.revisions.note_object(&self.path(name), version.0)
    }

    fn request(&self, name: &str, write: &Write<'_>) -> Built {
        match write {
            Write::Create { spec, orphan } => self.create(name, spec, *orphan),
            Write::Patch { version, spec, orphan } => {
                let mut fields = json!(spec);
                if let Some(fields) = fields.as_object_mut() {
                    fields.remove("of");
                }
                let mark = if *orphan { json!("true") } else { Value::Null };
                self.patch(name, *version, &json!({ LABEL_ORPHAN: mark }), &fields)
            }
            Write::Condition { version, spec } => {
                let Spec { epoch, reason, trouble, .. } = spec;
                let fields = json!({"epoch": epoch, "reason": reason, "trouble": trouble});
                self.patch(name, *version, &json!({}), &fields)
            }
        }
    }

    fn create(&self, name: &str, spec: &Spec, orphan: bool) -> Built {
        let mut labels = json!({ LABEL_INSTALLATION: self.installation.to_string() });
        if orphan {
            labels[LABEL_ORPHAN] = json!("true");
        }
        let object = json!({
            "apiVersion": RECORD_API_VERSION,
            "kind": "Record",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": spec,
        });
        let path = self.requests().url_path;
        let query = format!("fieldManager={FIELD_MANAGER}&fieldValidation=Strict");
        HttpRequest::post(format!("{path}?{query}"))
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, JSON)
            .body(object.to_string().into_bytes())
            .map_err(RequestError::BuildRequest)
    }

    /// A merge patch leaves alone what a newer program may have added.
    fn patch(&self, name: &str, version: Version, labels: &Value, fields: &Value) -> Built {
        let version = version.0.to_string();
        let patch = json!({
            "metadata": {"resourceVersion": version, "labels": labels},
            "spec": fields,
        });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.requests().patch(name, &params.validation_strict(), &Patch::Merge(patch))
    }

    fn requests(&self) -> Request {
        let namespace = &self.namespace;
        Request::new(format!("/apis/{RECORD_API_VERSION}/namespaces/{namespace}/records"))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { installation, namespace, .. } = self;
        f.debug_struct("Records")
            .field("installation", installation)
            .field("namespace", namespace)
            .finish_non_exhaustive()
    }
}

fn listed(object: RecordObject) -> Result<Listed, Trouble> {
    let is_orphan = object.is_orphan();
    let version = object.version();
    let (Some(version), Some(name)) = (version, object.metadata.name) else {
        return Err(Trouble::unavailable("the cluster: a record without a version"));
    };
    let Spec { of, epoch, phase, .. } = object.spec;
    Ok(Listed { name, of, version, epoch, phase, is_orphan })
}
