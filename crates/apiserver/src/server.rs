//! The server as its owner sees it.

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
use crate::auth::{Tokens, User};
use crate::core::{Audit, Core};
use crate::counters::{Counters, RequestKey};
use crate::faults::{Fault, Faults, RequestInfo};
use crate::http::serve::{self, Listener};
use crate::http::service::Service;
use crate::kinds::Registry;
use crate::store::{Durability, DurabilityError, FileDurability, Store};
use crate::{bootstrap, clock, controllers};

/// How long events are kept when nobody says.
const EVENT_TTL: Duration = Duration::from_hours(1);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What was kept cannot be read.
    #[error("cannot open what the API server kept")]
    Store(#[from] DurabilityError),
    /// No address to listen on.
    #[error("cannot listen for the API server")]
    Listen(#[source] std::io::Error),
    /// No certificate to show.
    #[error("cannot make a certificate for the API server")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No randomness to make ids and secrets of.
    #[error("cannot draw random bytes for the API server")]
    Randomness,
    /// The first objects could not be made.
    #[error("cannot make the first objects of the API server: {0}")]
    Bootstrap(String),
}

/// How a server is made.
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
    /// Keeps every object in this file; without one everything is forgotten at the end.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Keeps every object with this durability.
    #[must_use]
    pub fn durability(mut self, durability: Box<dyn Durability>) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Lets a user in who shows this token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.0.insert(token.into(), user);
        self
    }

    /// Tells one line of JSON about every request.
    #[must_use]
    pub fn audit(mut self, line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.audit = Some(Arc::new(line));
        self
    }

    /// Starts no garbage collector and no controller of namespaces.
    #[must_use]
    pub fn without_collector(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Forgets events that nobody has written for so long; without this for an hour.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = Some(ttl);
        self
    }

    /// Starts the server; it needs the runtime it is called in.
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
            webhooks: Webhooks::default(),
            faults: Faults::default(),
            counters: Counters::default(),
            audit: self.audit,
            ending: watch::Sender::new(false),
            ready: AtomicBool::new(false),
        });
        core.refresh_kinds();
        bootstrap::namespaces(&core)
            .await
            .map_err(|refusal| StartError::Bootstrap(refusal.message))?;
        let tasks = controllers::start(&core, self.quiet, self.event_ttl.unwrap_or(EVENT_TTL));
        core.ready.store(true, Ordering::Release);
        Ok(ApiServer { core, token, listeners: Mutex::default(), tasks: Mutex::new(tasks) })
    }
}

impl ApiServer {
    /// How a server is made.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client without sockets that may do everything.
    pub fn client(&self) -> kube_client::Client {
        self.client_as(User::admin("admin"))
    }

    /// A client without sockets for a user.
    pub fn client_as(&self, user: User) -> kube_client::Client {
        let service = Service { core: self.core.clone(), user };
        kube_client::Client::new(service, "default")
    }

    /// Serves HTTP/1.1 and HTTP/2 with TLS; tells the address that was bound.
    pub async fn serve(&self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let listener = serve::open(self.core.clone(), address).await?;
        let address = listener.address;
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        Ok(address)
    }

    /// How `kubectl` finds the first address that is served; nothing before one is.
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

    /// Decides from here on what befalls requests, those of the garbage collector among them.
    pub fn set_faults(&self, hook: impl Fn(&RequestInfo) -> Fault + Send + Sync + 'static) {
        self.core.faults.set(Some(Arc::new(hook)));
    }

    /// Nothing goes wrong on purpose any more.
    pub fn clear_faults(&self) {
        self.core.faults.set(None);
    }

    /// Forgets all changes up to now: older watches and pages of lists get 410.
    pub fn forget_history(&self) {
        self.core.store.forget_history();
    }

    /// How often what was asked, by verb, resource and status.
    pub fn counters(&self) -> BTreeMap<RequestKey, u64> {
        self.core.counters.snapshot()
    }

    /// Ends watches, doors and controllers, and closes the file; clients that are left can read.
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
