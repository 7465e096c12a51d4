//! The TLS listener.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
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

/// The timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of request headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept: missing file descriptors do not come back at once.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// An open listener.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    /// The CA certificate in PEM.
    pub(crate) authority: String,
}

/// Opens a listener; it closes on shutdown.
pub(crate) async fn open(core: Arc<Core>, address: SocketAddr) -> Result<Listener, StartError> {
    let identity = tls::identity()?;
    let listener = TcpListener::bind(address).await.map_err(StartError::Listen)?;
    let address = listener.local_addr().map_err(StartError::Listen)?;
    tokio::spawn(accept(core, listener, identity.acceptor));
    Ok(Listener { address, authority: identity.authority })
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
                tokio::spawn(serve_connection(service, stream, acceptor.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_connection(service: Service, stream: TcpStream, acceptor: TlsAcceptor) {
    let mut ending: watch::Receiver<bool> = service.core.ending.subscribe();
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = agreed else { return };
    let builder = protocol(stream.get_ref().1.alpn_protocol());
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

/// The protocol negotiated by ALPN: detecting it from the first bytes could wait for ever.
fn protocol(agreed: Option<&[u8]>) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    if agreed == Some(b"h2") { builder.http2_only() } else { builder.http1_only() }
}
