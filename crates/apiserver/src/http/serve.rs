//! The TLS listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use usher_listen::{Deadlines, Limits, Settings, connections_max, descriptors_max};

use super::service::Service;
use super::tls;
use crate::auth::User;
use crate::core::Core;
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
    /// The CA certificate in PEM.
    pub(crate) authority: String,
}

/// Opens a listener; it closes on shutdown.
pub(crate) fn open(core: Arc<Core>, address: SocketAddr) -> Result<Listener, StartError> {
    let identity = tls::identity()?;
    let listener = usher_listen::bind(address).map_err(StartError::Listen)?;
    let address = listener.local_addr().map_err(StartError::Listen)?;
    let ending = core.ending.subscribe();
    let service = Service { core, user: User::anonymous() };
    let settings = Settings {
        deadlines: DEADLINES,
        limits: LIMITS.within(connections_max(descriptors_max())),
        tls: Some(identity.tls),
        counts: Arc::default(),
    };
    tokio::spawn(usher_listen::serve(listener, service, settings, ending));
    Ok(Listener { address, authority: identity.authority })
}
