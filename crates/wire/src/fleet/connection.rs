//! Connections with or without TLS, and the identity of their peers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Uri};

use super::identity::{BadIdentity, Identity};
use super::tls::Keyring;

/// The timeout of connecting and of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The keep-alive interval of idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The pause after a failed accept: a file descriptor may be free by then.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The prefix of the address of a Unix socket.
const SOCKET: &str = "unix:";
/// Accepted connections that wait to be served; more wait in the kernel.
const WAITING_MAX: usize = 64;

/// The peer of a connection, as a server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Without TLS there is no identity.
    Plain,
    /// From the verified certificate.
    Verified(Result<Identity, BadIdentity>),
}

/// A reserved place in the queue of accepted connections.
type Place = mpsc::OwnedPermit<Connection>;

/// Accepted connections that wait to be served.
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<Connection>,
}

#[derive(Debug)]
pub struct Connection {
    stream: Flow,
    peer: Peer,
}

#[derive(Debug)]
enum Flow {
    Plain(TcpStream),
    Own(UnixStream),
    Secured(Box<TlsStream<TcpStream>>),
}

/// A channel to a provider that connects lazily and reconnects.
///
/// The address is a host and a port, or `unix:` and the path of a socket, which needs no keyring:
/// its file permissions decide who may connect.
pub fn channel(
    address: &str,
    keyring: Option<Arc<Keyring>>,
) -> Result<Channel, tonic::transport::Error> {
    let socket = address.strip_prefix(SOCKET).map(PathBuf::from);
    let authority = if socket.is_some() { "localhost" } else { address };
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .http2_adaptive_window(true);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
        let (keyring, socket) = (keyring.clone(), socket.clone());
        async move {
            let flow = match socket {
                Some(path) => UnixStream::connect(path).await.map(Flow::Own),
                None => dial(&uri, keyring.as_deref()).await,
            };
            flow.map(TokioIo::new)
        }
    })))
}

/// Accepts connections; TLS handshakes run concurrently. Dropping the result stops listening.
pub fn incoming(listener: TcpListener, keyring: Option<Arc<Keyring>>) -> Incoming {
    let listener = Arc::new(listener);
    let accept = move || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await }
    };
    taken_from(accept, move |(stream, address), place| {
        let keyring = keyring.clone();
        tokio::spawn(async move {
            match timeout(CONNECT_TIMEOUT, take(stream, keyring.as_deref())).await {
                Ok(Ok(connection)) => _ = place.send(connection),
                Ok(Err(why)) => tracing::info!(%address, %why, "connection refused"),
                Err(_) => tracing::info!(%address, "connection timed out"),
            }
        });
    })
}

/// Accepts connections from a Unix socket, as [`incoming`] does from the network.
pub fn incoming_here(listener: UnixListener) -> Incoming {
    let listener = Arc::new(listener);
    let accept = move || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await }
    };
    taken_from(accept, |(stream, _), place| {
        place.send(Connection { stream: Flow::Own(stream), peer: Peer::Plain });
    })
}

/// Accepts until the receiver is dropped; each connection first reserves a place in the queue.
fn taken_from<T, A, F>(accept: A, mut stand: impl FnMut(T, Place) + Send + 'static) -> Incoming
where
    T: Send,
    A: Fn() -> F + Send + 'static,
    F: Future<Output = io::Result<T>> + Send,
{
    let (waiting, ready) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = waiting.closed() => return,
                accepted = accept() => accepted,
            };
            match accepted {
                Ok(came) => {
                    let Ok(place) = waiting.clone().reserve_owned().await else { return };
                    stand(came, place);
                }
                Err(why) => {
                    tracing::warn!(%why, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    });
    Incoming { ready }
}

async fn dial(uri: &Uri, keyring: Option<&Keyring>) -> io::Result<Flow> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let host = uri.host().ok_or_else(|| bad("the address has no host"))?;
    let port = uri.port_u16().ok_or_else(|| bad("the address has no port"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let Some(keyring) = keyring else { return Ok(Flow::Plain(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| bad("the host has no name"))?;
    let connector = TlsConnector::from(keyring.client());
    let stream = timeout(CONNECT_TIMEOUT, connector.connect(name, stream)).await;
    let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(Flow::Secured(Box::new(stream.into())))
}

async fn take(stream: TcpStream, keyring: Option<&Keyring>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let Some(keyring) = keyring else {
        return Ok(Connection { stream: Flow::Plain(stream), peer: Peer::Plain });
    };
    let stream = TlsAcceptor::from(keyring.server()).accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let identity = shown.ok_or(BadIdentity::Unreadable).and_then(Identity::of_certificate);
    let stream = Flow::Secured(Box::new(stream.into()));
    Ok(Connection { stream, peer: Peer::Verified(identity) })
}

impl Incoming {
    /// The next established connection.
    pub async fn next(&mut self) -> Option<Connection> {
        self.ready.recv().await
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx).map(|it| it.map(Ok))
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl Connection {
    /// The remote address.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.stream {
            Flow::Plain(stream) => stream.peer_addr().ok(),
            Flow::Own(_) => None,
            Flow::Secured(stream) => stream.get_ref().0.peer_addr().ok(),
        }
    }
}

impl AsyncRead for Flow {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Own(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Flow {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Own(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Own(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Own(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secured(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
