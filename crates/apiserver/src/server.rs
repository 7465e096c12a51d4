//! The public interface of the server.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::iter::successors;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admission::Webhooks;
use crate::auth::{Issuer, Tokens, User};
use crate::core::{Audit, Backend, Core};
use crate::counters::{Counters, RequestKey};
use crate::credentials::Credentials;
use crate::faults::{Fault, Faults, RequestKind};
use crate::http::serve::{self, Listener};
use crate::http::service::Service;
use crate::kinds::Registry;
use crate::store::{Durability, DurabilityError, FileDurability, Loaded, OtherFormat, Store};
use crate::{bootstrap, controllers};

/// The default time to live of events.
const EVENT_TTL: Duration = Duration::from_hours(1);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The stored objects cannot be loaded.
    #[error("failed to open the data of the API server")]
    Store(#[from] DurabilityError),
    /// The address cannot be bound.
    #[error("failed to bind the address of the API server")]
    Listen(#[source] std::io::Error),
    /// The certificate cannot be created.
    #[error("failed to create the certificate of the API server")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file of credentials cannot be read or created.
    #[error("failed to use the credentials in {}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There are no random bytes for ids and secrets.
    #[error("no random bytes for the API server")]
    Randomness,
    /// The initial objects could not be created.
    #[error("failed to create the initial objects of the API server: {0}")]
    Bootstrap(String),
}

impl StartError {
    /// Whether the data are of another version of this server.
    pub fn is_other_format(&self) -> bool {
        let mut causes = successors(self.source(), |cause| (**cause).source());
        causes.any(<dyn std::error::Error>::is::<OtherFormat>)
    }
}

/// Configures a server.
#[derive(Default)]
pub struct Builder {
    durability: Option<Box<dyn Durability>>,
    file: Option<PathBuf>,
    snapshot: Option<Loaded>,
    credentials: Option<PathBuf>,
    tokens: Tokens,
    audit: Option<Audit>,
    quiet: bool,
    event_ttl: Option<Duration>,
    discovery_interval: Option<Duration>,
}

/// A Kubernetes-compatible API server inside this process.
pub struct ApiServer {
    backend: Arc<Backend>,
    kept: Kept,
    listeners: Mutex<Vec<Listener>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What a server keeps when another cluster takes the place of its own.
struct Kept {
    credentials: Credentials,
    issuer: Arc<Issuer>,
    tokens: Tokens,
    faults: Arc<Faults>,
    counters: Arc<Counters>,
    audit: Option<Audit>,
}

impl Builder {
    /// Persists the objects in this file; without one they are in memory only.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Persists the objects with this implementation.
    #[must_use]
    pub fn durability(mut self, durability: Box<dyn Durability>) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Starts with these objects, in memory only: those of [`ApiServer::snapshot`], or the result
    /// of [`Durability::load`].
    #[must_use]
    pub fn snapshot(mut self, objects: Loaded) -> Self {
        self.snapshot = Some(objects);
        self
    }

    /// Keeps the certificate authority, the administrator's token and the key of service account
    /// tokens in this file, which is created if it is missing; without one they are new at every
    /// start.
    #[must_use]
    pub fn credentials(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials = Some(path.into());
        self
    }

    /// Authenticates a bearer token as this user.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.0.insert(token.into(), user);
        self
    }

    /// Receives one line of JSON per request.
    #[must_use]
    pub fn audit(mut self, line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.audit = Some(Arc::new(line));
        self
    }

    /// Starts neither garbage collector nor namespace controller, and nothing creates `default`
    /// service accounts.
    #[must_use]
    pub fn without_collector(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// The time to live of events; one hour by default.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = Some(ttl);
        self
    }

    /// The garbage collector learns of new kinds at this interval, as on a real server, where it is
    /// 30 seconds; by default at once. Until then it neither waits for dependents of such a kind
    /// nor deletes them.
    #[must_use]
    pub fn discovery_interval(mut self, interval: Duration) -> Self {
        self.discovery_interval = Some(interval);
        self
    }

    /// Starts the server on the current tokio runtime.
    pub async fn build(mut self) -> Result<ApiServer, StartError> {
        // Opening the file excludes other processes, before one of them makes the credentials.
        let store = self.open()?;
        let credentials = match self.credentials.as_deref() {
            Some(path) => Credentials::keep(path)?,
            None => Credentials::generate()?,
        };
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.0.insert(credentials.token.clone(), User::admin("admin"));
        let kept = Kept {
            issuer: Arc::new(Issuer::new(&credentials.key)),
            credentials,
            tokens,
            faults: Arc::default(),
            counters: Arc::default(),
            audit: self.audit.take(),
        };
        let (core, tasks) = self.start(store, &kept).await?;
        let backend = Arc::new(Backend::new(core));
        Ok(ApiServer { backend, kept, listeners: Mutex::default(), tasks: Mutex::new(tasks) })
    }

    /// Opens the store.
    fn open(&mut self) -> Result<Store, DurabilityError> {
        match (self.snapshot.take(), self.durability.take(), self.file.as_deref()) {
            (Some(loaded), _, _) => Store::restored(loaded),
            (None, Some(durability), _) => Store::open(durability),
            (None, None, Some(path)) => Store::open(Box::new(FileDurability::open(path)?)),
            (None, None, None) => Ok(Store::in_memory()),
        }
    }

    /// Starts a cluster.
    async fn start(
        self,
        store: Store,
        kept: &Kept,
    ) -> Result<(Arc<Core>, Vec<JoinHandle<()>>), StartError> {
        let mut tokens = kept.tokens.clone();
        tokens.0.extend(self.tokens.0);
        let core = Arc::new(Core {
            store,
            registry: Registry::new(),
            tokens,
            issuer: kept.issuer.clone(),
            webhooks: Webhooks::default(),
            faults: kept.faults.clone(),
            counters: kept.counters.clone(),
            audit: self.audit.or_else(|| kept.audit.clone()),
            ending: watch::Sender::new(false),
            ready: AtomicBool::new(false),
        });
        core.refresh_kinds();
        bootstrap::objects(&core)
            .await
            .map_err(|refusal| StartError::Bootstrap(refusal.message))?;
        let pace = (self.event_ttl.unwrap_or(EVENT_TTL), self.discovery_interval);
        let tasks = controllers::start(&core, self.quiet, pace);
        core.ready.store(true, Ordering::Release);
        Ok((core, tasks))
    }
}

impl ApiServer {
    /// Configures a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// An in-process client with all permissions.
    pub fn client(&self) -> kube_client::Client {
        self.client_as(User::admin("admin"))
    }

    /// An in-process client of a user.
    pub fn client_as(&self, user: User) -> kube_client::Client {
        let service = Service { backend: self.backend.clone(), user };
        kube_client::Client::new(service, "default")
    }

    /// Serves HTTP/1.1 and HTTP/2 with TLS; returns the bound address.
    #[expect(clippy::unused_async, reason = "only a task of a runtime can open a listener")]
    pub async fn serve(&self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let listener =
            serve::open(self.backend.clone(), &self.kept.credentials.authority, address)?;
        let address = listener.address;
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        Ok(address)
    }

    /// The kubeconfig of the first listener; `None` before there is one.
    pub fn kubeconfig(&self) -> Option<String> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listeners.first()?;
        let credentials = &self.kept.credentials;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {
                "server": format!("https://{}", reachable(listener.address)),
                "certificate-authority-data": STANDARD.encode(&credentials.authority.certificate),
            }}],
            "users": [{"name": "admin", "user": {"token": credentials.token}}],
            "contexts": [{"name": "embedded", "context": {
                "cluster": "embedded", "user": "admin",
            }}],
            "current-context": "embedded",
        });
        serde_json::to_string_pretty(&config).ok()
    }

    /// Sets the fault hook, which also sees the requests of the garbage collector.
    pub fn set_faults(&self, hook: impl Fn(&RequestKind) -> Fault + Send + Sync + 'static) {
        self.kept.faults.set(Some(Arc::new(hook)));
    }

    /// Removes the fault hook.
    pub fn clear_faults(&self) {
        self.kept.faults.set(None);
    }

    /// Compacts the history: older watches and list pages get 410.
    pub fn forget_history(&self) {
        self.backend.core().store.forget_history();
    }

    /// Requests by verb, resource and status.
    pub fn counters(&self) -> BTreeMap<RequestKey, u64> {
        self.kept.counters.snapshot()
    }

    /// The objects as they are, for [`Builder::snapshot`].
    pub fn snapshot(&self) -> Loaded {
        self.backend.core().store.snapshot()
    }

    /// Replaces the cluster behind the clients and the listeners: address, certificate, tokens,
    /// faults and counters stay, watches end, and revisions are those of the new cluster.
    ///
    /// An empty builder is a rebuilt cluster, with another uid of `kube-system`; one with a
    /// [`Builder::snapshot`] or with an older copy of the file is a restored backup. If the new
    /// cluster does not start, the old one can only be read.
    pub async fn rebuild(&self, mut builder: Builder) -> Result<(), StartError> {
        self.end_cluster().await;
        let store = builder.open()?;
        let (core, tasks) = builder.start(store, &self.kept).await?;
        self.backend.replace(core);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
        Ok(())
    }

    /// Ends watches, listeners and controllers and closes the file; in-process clients can still
    /// read.
    pub async fn shutdown(self) {
        self.backend.ending.send_replace(true);
        self.end_cluster().await;
    }

    /// Ends watches and controllers, and closes the file.
    async fn end_cluster(&self) {
        let core = self.backend.core();
        core.ending.send_replace(true);
        let tasks: Vec<JoinHandle<()>> =
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        for task in tasks {
            let _ = task.await;
        }
        core.store.close().await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.backend.ending.send_replace(true);
        self.backend.core().ending.send_replace(true);
    }
}

/// The address at which a listener is reached from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}
