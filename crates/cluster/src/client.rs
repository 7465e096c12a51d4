//! The client: how a cluster is reached, and what came back for one request.
//!
//! **Invariants**
//! - A request is sent once. When it is sent again is decided by the reconcile loop.
//! - Every request has a bound, and so has every watch.
//! - No error repeats a line of the kubeconfig: it holds credentials.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::Request;
use hyper::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use kube_client::Config;
use kube_client::client::{Body, ClientBuilder};
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::core::request::Error as RequestError;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::answer::{Failure, Refusal};

/// The longest refusal that is read: a proxy may send anything.
const REFUSAL_MAX: usize = 1024 * 1024;
/// What this program calls itself in audit logs.
const AGENT: &str = concat!("usher/", env!("CARGO_PKG_VERSION"));

/// A request of the library, or why it could not be built.
pub type Built = Result<Request<Vec<u8>>, RequestError>;

/// How the cluster is named in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A kubeconfig and one of its contexts; without one its current context.
    Kubeconfig { file: PathBuf, context: Option<String> },
    /// The service account of the pod that this process runs in.
    InCluster,
}

/// How long the parts of a conversation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// A request, from connecting to the last byte of its response.
    pub request: Duration,
    /// A watch, before it is opened anew.
    pub watch: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { request: Duration::from_secs(10), watch: Duration::from_secs(290) }
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("kubeconfig {} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("kubeconfig {} cannot be read: {why}", .file.display())]
    Unreadable { file: PathBuf, why: String },
    #[error("kubeconfig {} is malformed{place}", .file.display())]
    Malformed { file: PathBuf, place: String },
    #[error("kubeconfig {} has no current context: name one, {known}", .file.display())]
    NoCurrentContext { file: PathBuf, known: String },
    #[error("kubeconfig {} has no context \"{context}\", only {known}", .file.display())]
    UnknownContext { file: PathBuf, context: String, known: String },
    #[error(
        "kubeconfig {} has no {what} \"{name}\", which its context \"{context}\" names",
        .file.display()
    )]
    Dangling { file: PathBuf, context: String, what: &'static str, name: String },
    #[error("context \"{context}\" of kubeconfig {} cannot be used: {why}", .file.display())]
    Unusable { file: PathBuf, context: String, why: String },
    #[error("this process does not run in a pod of a cluster: {0}")]
    NotInCluster(String),
}

/// A client of one cluster.
#[derive(Clone)]
pub struct Client {
    inner: kube_client::Client,
    bounds: Bounds,
}

impl Client {
    /// Makes a client from the settings; sends nothing yet.
    pub async fn connect(access: &Access, bounds: Bounds) -> Result<Self, ConnectError> {
        match access {
            Access::Kubeconfig { file, context } => {
                let (config, context) = from_file(file, context.as_deref()).await?;
                let built = ClientBuilder::try_from(bounded(config, bounds));
                let builder = built.map_err(|error| {
                    let why = error.to_string();
                    ConnectError::Unusable { file: file.clone(), context, why }
                })?;
                Ok(Self::over(builder.build(), bounds))
            }
            Access::InCluster => {
                let config = Config::incluster();
                let config = config.map_err(|it| ConnectError::NotInCluster(it.to_string()))?;
                let built = ClientBuilder::try_from(bounded(config, bounds));
                let builder = built.map_err(|it| ConnectError::NotInCluster(it.to_string()))?;
                Ok(Self::over(builder.build(), bounds))
            }
        }
    }

    /// A client over a connection that is made already, such as one inside the process.
    pub fn over(inner: kube_client::Client, bounds: Bounds) -> Self {
        Self { inner, bounds }
    }

    /// The client of the library, for its typed interface. It has no bound on a response.
    pub fn kube(&self) -> &kube_client::Client {
        &self.inner
    }

    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Sends a request once; the body of its response, if it is a success.
    pub async fn send(&self, request: Built) -> Result<Vec<u8>, Failure> {
        self.within_bound(async {
            let body = self.open(request).await?.collect().await;
            Ok(body.map_err(|error| Failure::no_answer(&error))?.to_bytes().into())
        })
        .await
    }

    /// Sends a request once; the object in its response.
    pub async fn object<T: DeserializeOwned>(&self, request: Built) -> Result<T, Failure> {
        let body = self.send(request).await?;
        let read = serde_json::from_slice(&body);
        read.map_err(|_| Failure::NoAnswer("the response is not what was requested".to_owned()))
    }

    /// Opens a watch. Its body is read by the caller, within the bound of watches.
    pub(crate) async fn watch(&self, request: Built) -> Result<Body, Failure> {
        self.within_bound(self.open(request)).await
    }

    async fn within_bound<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let bound = self.bounds.request;
        tokio::time::timeout(bound, answer).await.unwrap_or_else(|_| {
            Err(Failure::NoAnswer(format!("no answer within {} s", bound.as_secs_f32())))
        })
    }

    /// The body of a success; a refusal is read to its end.
    async fn open(&self, request: Built) -> Result<Body, Failure> {
        let request = request.map_err(|error| Failure::no_answer(&error))?.map(Body::from);
        let response = self.inner.send(request).await.map_err(|it| Failure::no_answer(&it))?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let body = Limited::new(body, REFUSAL_MAX).collect().await;
        let body = body.map_err(|it| Failure::no_answer(&*it))?.to_bytes();
        let after = head.headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
        let after = after.map(Duration::from_secs);
        Err(Failure::Refused(Refusal::read(head.status.as_u16(), after, &body)))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// The configuration that a kubeconfig has for a context, and the name of the context.
async fn from_file(file: &Path, context: Option<&str>) -> Result<(Config, String), ConnectError> {
    let read = Kubeconfig::read_from(file).map_err(|error| unreadable(file, &error))?;
    let file = file.to_owned();
    let known: Vec<String> = read.contexts.iter().map(|it| format!("\"{}\"", it.name)).collect();
    let known = if known.is_empty() { "of which it has none".to_owned() } else { known.join(", ") };
    let current = read.current_context.as_deref().filter(|it| !it.is_empty());
    let Some(context) = context.or(current).map(str::to_owned) else {
        return Err(ConnectError::NoCurrentContext { file, known });
    };
    let named = read.contexts.iter().find(|it| it.name == context);
    let Some(chosen) = named.and_then(|it| it.context.clone()) else {
        return Err(ConnectError::UnknownContext { file, context, known });
    };
    let dangling = |what, name: &str| {
        let (file, context) = (file.clone(), context.clone());
        Err(ConnectError::Dangling { file, context, what, name: name.to_owned() })
    };
    let Some(cluster) = read.clusters.iter().find(|it| it.name == chosen.cluster) else {
        return dangling("cluster", &chosen.cluster);
    };
    // The library takes a user that is not there for an anonymous one.
    let user = chosen.user.as_deref().filter(|it| !it.is_empty());
    if let Some(user) = user.filter(|user| !read.auth_infos.iter().any(|it| it.name == *user)) {
        return dangling("user", user);
    }
    let proxy = cluster.cluster.as_ref().and_then(|it| it.proxy_url.clone());
    let options = KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
    let unusable = |why: String| {
        let (file, context) = (file.clone(), context.clone());
        ConnectError::Unusable { file, context, why }
    };
    let config = Config::from_custom_kubeconfig(read, &options).await;
    let mut config = config.map_err(|error| unusable(error.to_string()))?;
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(unusable("its certificate authority has no certificate".to_owned()));
    }
    if proxy.is_none() {
        // A proxy of the environment is a setting that did not enter through the configuration.
        config.proxy_url = None;
    }
    Ok((config, context))
}

fn unreadable(file: &Path, error: &KubeconfigError) -> ConnectError {
    let file = file.to_owned();
    if let KubeconfigError::ReadConfig(error, _) = error {
        if error.kind() == std::io::ErrorKind::NotFound {
            return ConnectError::Missing(file);
        }
        return ConnectError::Unreadable { file, why: error.to_string() };
    }
    let place = if let KubeconfigError::Parse(error) = error { error.location() } else { None };
    let place = place.map_or_else(String::new, |it| format!(" in line {}", it.line()));
    ConnectError::Malformed { file, place }
}

/// The configuration with our bounds and without retries of its own.
fn bounded(mut config: Config, bounds: Bounds) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(bounds.request);
    config.write_timeout = Some(bounds.request);
    // Connections are shared with watches, which may be silent for as long as they last.
    config.read_timeout = Some(bounds.watch + bounds.request);
    config.reset_reader_on_write = true;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config
}
