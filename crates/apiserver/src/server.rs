//! The public interface of the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
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
use crate::core::{Audit, Core};
use crate::counters::{Counters, RequestKey};
use crate::faults::{Fault, Faults, RequestKind};
use crate::http::serve::{self, Listener};
use crate::http::service::Service;
use crate::kinds::Registry;
use crate::store::{Durability, DurabilityError, FileDurability, Store};
use crate::{bootstrap, clock, controllers};

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
    /// There are no random bytes for ids and secrets.
    #[error("no random bytes for the API server")]
    Randomness,
    /// The initial objects could not be created.
    #[error("failed to create the initial objects of the API server: {0}")]
    Bootstrap(String),
}

/// Configures a server.
#[derive(Default)]
pub struct Builder {
    durability: Option<Box<dyn Durability>>,
    file: Option<PathBuf>,
    tokens: Tokens,
    audit: Option<Audit>,
    quiet: bool,
    event_ttl: Option<Duration>,
}

/// A Kubernetes-compatible API server inside this process.
pub struct ApiServer {
    core: Arc<Core>,
    token: String,
    listeners: Mutex<Vec<Listener>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
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

    /// Starts the server on the current tokio runtime.
    pub async fn build(self) -> Result<ApiServer, StartError> {
        let durability: Option<Box<dyn Durability>> = match (self.durability, self.file) {
            (Some(durability), _) => Some(durability),
            (None, Some(path)) => Some(Box::new(FileDurability::open(&path)?)),
            (None, None) => None,
        };
        let store = durability.map_or_else(|| Ok(Store::in_memory()), Store::open)?;
        let token = clock::token().map_err(|_| StartError::Randomness)?;
        let mut tokens = self.tokens;
        tokens.0.insert(token.clone(), User::admin("admin"));
        let core = Arc::new(Core {
            store,
            registry: Registry::new(),
            tokens,
            issuer: Issuer::new().map_err(|_| StartError::Randomness)?,
            webhooks: Webhooks::default(),
            faults: Faults::default(),
            counters: Counters::default(),
            audit: self.audit,
            ending: watch::Sender::new(false),
            ready: AtomicBool::new(false),
        });
        core.refresh_kinds();
        bootstrap::objects(&core)
            .await
            .map_err(|refusal| StartError::Bootstrap(refusal.message))?;
        let tasks = controllers::start(&core, self.quiet, self.event_ttl.unwrap_or(EVENT_TTL));
        core.ready.store(true, Ordering::Release);
        Ok(ApiServer { core, token, listeners: Mutex::default(), tasks: Mutex::new(tasks) })
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
        let service = Service { core: self.core.clone(), user };
        kube_client::Client::new(service, "default")
    }

    /// Serves HTTP/1.1 and HTTP/2 with TLS; returns the bound address.
    #[expect(clippy::unused_async, reason = "only a task of a runtime can open a listener")]
    pub async fn serve(&self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let listener = serve::open(self.core.clone(), address)?;
        let address = listener.address;
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        Ok(address)
    }

    /// The kubeconfig of the first listener; `None` before there is one.
    pub fn kubeconfig(&self) -> Option<String> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listeners.first()?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {
                "server": format!("https://{}", listener.address),
                "certificate-authority-data": STANDARD.encode(&listener.authority),
            }}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "embedded", "context": {
                "cluster": "embedded", "user": "admin",
            }}],
            "current-context": "embedded",
        });
        serde_json::to_string_pretty(&config).ok()
    }

    /// Sets the fault hook, which also sees the requests of the garbage collector.
    pub fn set_faults(&self, hook: impl Fn(&RequestKind) -> Fault + Send + Sync + 'static) {
        self.core.faults.set(Some(Arc::new(hook)));
    }

    /// Removes the fault hook.
    pub fn clear_faults(&self) {
        self.core.faults.set(None);
    }

    /// Compacts the history: older watches and list pages get 410.
    pub fn forget_history(&self) {
        self.core.store.forget_history();
    }

    /// Requests by verb, resource and status.
    pub fn counters(&self) -> BTreeMap<RequestKey, u64> {
        self.core.counters.snapshot()
    }

    /// Ends watches, listeners and controllers and closes the file; in-process clients can still
    /// read.
    pub async fn shutdown(self) {
        self.core.ending.send_replace(true);
        let tasks: Vec<JoinHandle<()>> =
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        for task in tasks {
            let _ = task.await;
        }
        self.core.store.close().await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.core.ending.send_replace(true);
    }
}
