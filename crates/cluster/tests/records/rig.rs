//! A cluster with our definitions, and the record of one lamp in it.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::{Method, Request};
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault, Loaded};
use usher_cluster::answer::Failure;
use usher_cluster::client::{Access, Bounds, Client};
use usher_cluster::crds::{self, Installed};
use usher_cluster::lease::{Beginning, Clock, Term, TermControl};
use usher_cluster::read::Cluster;
use usher_cluster::records::{Of, RecordLedger, Records};
use usher_domain::object::id::InstallationId;
use usher_kernel::{Ledger, Timestamp, Uid};
use usher_sim::contract::ledger::{Lamp, Meddling, TestLedger};

use crate::lamp::LampCodec;

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const INSTALLATION: &str = "00000000-0000-0000-0000-00000000000a";
/// Longer than any definition needs.
pub(crate) const LONG: Duration = Duration::from_mins(10);
const EPOCHS: u64 = 3;
const RECORDS: &str = "records.records.usher.dev";

/// The record of one lamp, and what stands between its ledger and the cluster.
pub(crate) struct TestRecords {
    /// `None` if it is another cluster.
    pub(crate) server: Option<ApiServer>,
    /// Past all faults.
    pub(crate) admin: Client,
    pub(crate) records: Records,
    pub(crate) namespace: String,
    pub(crate) of: Of,
    line: Line,
    terms: Vec<(Term, TermControl)>,
    late: Term,
    backup: Mutex<Option<Loaded>>,
}

/// The line to the cluster: counts and loses requests that write records.
#[derive(Clone, Default)]
struct Line {
    fault: Arc<Mutex<Option<Meddling>>>,
    writes: Arc<AtomicU64>,
}

impl TestRecords {
    /// In a new embedded server.
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let admin = Client::over(server.client(), Bounds::default());
        let installed = crds::install(&admin, LONG).await.expect("the definitions");
        assert_eq!(installed, Installed::Ours);
        Self::over(Some(server), admin, "usher-system", "u1").await
    }

    /// In a new embedded server, and in another cluster if one is named.
    pub(crate) async fn each() -> Vec<Self> {
        let mut each = vec![Self::new().await];
        if let Some(kubeconfig) = kubeconfig() {
            each.push(Self::elsewhere(&kubeconfig).await);
        }
        each
    }

    /// In another cluster; its namespace is random, and [`TestRecords::delete`] removes it.
    pub(crate) async fn elsewhere(kubeconfig: &OsStr) -> Self {
        let access = Access::Kubeconfig { file: kubeconfig.into(), context: None };
        let admin = Client::connect(&access, Bounds::default()).await.expect("a client");
        crds::install(&admin, LONG).await.expect("the definitions");
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let namespace = format!("usher-test-{}-{}", std::process::id(), now.as_nanos());
        Self::over(None, admin, &namespace, &format!("u-{}", now.as_nanos())).await
    }

    async fn over(server: Option<ApiServer>, admin: Client, namespace: &str, uid: &str) -> Self {
        let space =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        call(&admin, ("POST", "/api/v1/namespaces"), &space).await.expect("a namespace");
        let line = Line::default();
        let client = line.client(admin.kube().clone());
        let records = records(client, namespace).await;
        let terms = (1..=EPOCHS).map(term).collect();
        let (late, control) = term(1);
        control.end();
        let (namespace, of) = (namespace.to_owned(), of(uid));
        let backup = Mutex::default();
        Self { server, admin, records, namespace, of, line, terms, late, backup }
    }

    pub(crate) fn embedded(&self) -> &ApiServer {
        self.server.as_ref().expect("the embedded server")
    }

    /// A ledger of the record in the term with this epoch.
    pub(crate) fn ledger(&self, epoch: u64) -> RecordLedger<'_, Lamp, LampCodec> {
        self.ledger_of(self.of.clone(), epoch)
    }

    pub(crate) fn ledger_of(&self, of: Of, epoch: u64) -> RecordLedger<'_, Lamp, LampCodec> {
        self.opened(of, self.term(epoch), true)
    }

    /// Where the record is.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.of.record_name())
    }

    pub(crate) fn collection(&self) -> String {
        format!("/apis/records.usher.dev/v1alpha1/namespaces/{}/records", self.namespace)
    }

    /// A request of the administrator that has to succeed.
    pub(crate) async fn done(&self, asked: (&str, &str), body: &Value) -> Value {
        let answer = call(&self.admin, asked, body).await;
        answer.unwrap_or_else(|failure| panic!("{asked:?}: {failure:?}"))
    }

    /// The record as the administrator reads it.
    pub(crate) async fn object(&self) -> Value {
        self.done(("GET", &self.path()), &Value::Null).await
    }

    /// Removes the namespace from a cluster that is not ours.
    pub(crate) async fn delete(&self) {
        if self.server.is_some() {
            return;
        }
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.done(("DELETE", &path), &Value::Null).await;
    }

    pub(crate) fn term(&self, epoch: u64) -> &Term {
        let (term, _) = self.terms.iter().find(|(it, _)| it.epoch() == epoch).expect("an epoch");
        term
    }

    fn opened<'a>(
        &'a self,
        of: Of,
        term: &'a Term,
        has_object: bool,
    ) -> RecordLedger<'a, Lamp, LampCodec> {
        self.records.ledger(of, term, LampCodec { has_object })
    }

    fn refuse(&self, fault: Fault) -> bool {
        let Some(server) = &self.server else { return false };
        server.set_faults(move |asked| {
            let is_write =
                asked.resource == RECORDS && !matches!(asked.verb.as_str(), "get" | "list");
            if is_write { fault.clone() } else { Fault::None }
        });
        true
    }
}

impl TestLedger for TestRecords {
    fn open(&self, epoch: u64) -> impl Ledger<Lamp> {
        self.ledger(epoch)
    }

    fn open_late(&self, epoch: u64) -> impl Ledger<Lamp> {
        assert_eq!(epoch, self.late.epoch());
        self.opened(self.of.clone(), &self.late, true)
    }

    fn open_without_object(&self, epoch: u64) -> impl Ledger<Lamp> {
        self.opened(self.of.clone(), self.term(epoch), false)
    }

    fn writes(&self) -> u64 {
        self.line.writes.load(Ordering::SeqCst)
    }

    async fn meddle(&self, meddling: Meddling) -> bool {
        match meddling {
            Meddling::LoseAnswers | Meddling::LoseRequests | Meddling::Hide => {
                self.line.set(Some(meddling));
                true
            }
            Meddling::Busy(after) => {
                self.refuse(Fault::RetryAfter { code: 429, seconds: after.as_secs() })
            }
            Meddling::Forbid => self.refuse(Fault::Refuse(403)),
            Meddling::Mend => {
                self.line.set(None);
                if let Some(server) = &self.server {
                    server.clear_faults();
                }
                true
            }
            Meddling::Backup => {
                let Some(server) = &self.server else { return false };
                *self.backup.lock().expect("a backup") = Some(server.snapshot());
                true
            }
            Meddling::Restore => {
                let backup = self.backup.lock().expect("a backup").take().expect("one");
                let restored = ApiServer::builder().snapshot(backup);
                self.embedded().rebuild(restored).await.expect("a restored server");
                true
            }
            Meddling::Remove => {
                self.done(("DELETE", &self.path()), &Value::Null).await;
                true
            }
            Meddling::Spoil => {
                let spoiled = json!({"spec": {"data": "{}"}});
                self.done(("PATCH", &self.path()), &spoiled).await;
                true
            }
        }
    }
}

impl Line {
    fn set(&self, fault: Option<Meddling>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// A client whose requests go through the line.
    fn client(&self, inner: kube_client::Client) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, line) = (inner.clone(), line.clone());
            async move {
                let fault = *line.fault.lock().unwrap_or_else(PoisonError::into_inner);
                let is_record = request.uri().path().contains("/records");
                let is_write = is_record && request.method() != Method::GET;
                if is_write {
                    line.writes.fetch_add(1, Ordering::SeqCst);
                }
                let loses = |it| fault == Some(it);
                let is_lost = loses(Meddling::Hide) || is_write && loses(Meddling::LoseRequests);
                if is_lost {
                    return Err("the connection was closed".into());
                }
                let answer = inner.send(request).await;
                if is_write && loses(Meddling::LoseAnswers) {
                    return Err("the connection was closed".into());
                }
                answer.map_err(tower::BoxError::from)
            }
        });
        Client::over(kube_client::Client::new(service, "default"), Bounds::default())
    }
}

/// The file that names another cluster.
pub(crate) fn kubeconfig() -> Option<OsString> {
    std::env::var_os("USHER_TEST_KUBECONFIG")
}

/// A server without our definitions.
pub(crate) async fn server() -> ApiServer {
    ApiServer::builder().build().await.expect("a server")
}

/// The records of a namespace, as a process sees them that has just started.
pub(crate) async fn records(client: Client, namespace: &str) -> Records {
    let cluster = Arc::new(Cluster::open(client).await.expect("discovery"));
    let installation: InstallationId = INSTALLATION.parse().expect("an id");
    Records::new(cluster, installation, namespace)
}

/// A lamp with this uid.
pub(crate) fn of(uid: &str) -> Of {
    Of {
        group: "light.example".to_owned(),
        resource: "lamps".to_owned(),
        kind: "Lamp".to_owned(),
        namespace: "default".to_owned(),
        name: "lamp".to_owned(),
        uid: Uid::new(uid),
    }
}

/// A term that does not end by itself.
fn term(epoch: u64) -> (Term, TermControl) {
    let sent = Duration::from_secs(1);
    let clock = Clock::new(move || sent, || Timestamp::ZERO);
    Term::begin(clock, (LONG, LONG), Beginning { epoch, sent, is_clean: true })
}

pub(crate) async fn call(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value, Failure> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let bytes = send(client, (method, path), media, text).await?;
    Ok(serde_json::from_slice(&bytes).expect("JSON"))
}

pub(crate) async fn send(
    client: &Client,
    (method, path): (&str, &str),
    media: &str,
    body: String,
) -> Result<Vec<u8>, Failure> {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    client.send(Ok(request.body(body.into_bytes()).expect("a request"))).await
}

/// How many requests of a verb for a resource were answered.
pub(crate) fn count(server: &ApiServer, verb: &str, resource: &str) -> u64 {
    let counters = server.counters();
    let meant = counters.iter().filter(|(key, _)| key.verb == verb && key.resource == resource);
    meant.map(|(_, count)| count).sum()
}
