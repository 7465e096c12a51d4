//! The TLS listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use usher_listen::{Deadlines, Limits, Settings, connections_max, descriptors_max};

use super::service::Service;
use super::tls::{self, Authority};
use crate::auth::User;
use crate::core::Backend;
use crate::server::StartError;

/// The deadlines of a client; those of bodies are the ones of Kubernetes.
const DEADLINES: Deadlines = Deadlines {
    header: Duration::from_secs(10),
    body: Duration::from_secs(34),
    idle: Duration::from_secs(10),
    idle_authenticated: Duration::from_secs(90),
    write: Duration::from_secs(30),
};
const LIMITS: Limits = Limits { total: usize::MAX, unauthenticated: 1_024, per_peer: 256 };

/// An open listener.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
}

/// Opens a listener; it closes on shutdown.
pub(crate) fn open(
    backend: Arc<Backend>,
    authority: &Authority,
    address: SocketAddr,
) -> Result<Listener, StartError> {
    let tls = tls::certify(authority, address.ip())?;
    let listener = usher_listen::bind(address).map_err(StartError::Listen)?;
    let address = listener.local_addr().map_err(StartError::Listen)?;
    let ending = backend.ending.subscribe();
    let service = Service { backend, user: User::anonymous() };
    let settings = Settings {
        deadlines: DEADLINES,
        limits: LIMITS.within(connections_max(descriptors_max())),
        tls: Some(tls),
        counts: Arc::default(),
    };
    tokio::spawn(usher_listen::serve(listener, service, settings, ending));
    Ok(Listener { address })
}
