//! The server behind a socket.

use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::service::Service;
use super::tls;
use crate::auth::User;
use crate::core::Core;
use crate::server::StartError;
use std::sync::Arc;

/// A door that is open.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// The authority's certificate, as text.
    pub(crate) authority: String,
}

/// Opens a door; it closes when the server ends.
pub(crate) async fn open(core: Arc<Core>, address: SocketAddr) -> Result<Door, StartError> {
    let identity = tls::identity()?;
    let listener = TcpListener::bind(address).await.map_err(StartError::Listen)?;
    let address = listener.local_addr().map_err(StartError::Listen)?;
    let door = Door { address, authority: identity.authority };
    tokio::spawn(accept(core, listener, identity.acceptor));
    Ok(door)
}

async fn accept(core: Arc<Core>, listener: TcpListener, acceptor: TlsAcceptor) {
    let mut ending = core.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = Service { core: core.clone(), user: User::anonymous() };
                tokio::spawn(talk(service, stream, acceptor.clone()));
            }
            Err(error) => tracing::warn!(%error, "cannot accept a connection"),
        }
    }
}

async fn talk(service: Service, stream: TcpStream, acceptor: TlsAcceptor) {
    let mut ending: watch::Receiver<bool> = service.core.ending.subscribe();
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let builder = auto::Builder::new(TokioExecutor::new());
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        _ = connection.as_mut() => true,
        _ = ending.wait_for(|ending| *ending) => false,
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
