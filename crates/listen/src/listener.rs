//! The accept loop.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Body;
use hyper::{Request, Response};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::body::RequestBody;
use crate::connection;
use crate::counts::{CloseReason, Counts};
use crate::deadline::Deadlines;
use crate::handle::{Handle, Open, lock};
use crate::limits::{Connections, Limits};
use crate::tls::Tls;

/// How many connections the kernel may hold until they are accepted. A full queue delays new ones
/// by a second, when their first packet is repeated.
const BACKLOG: u32 = 4_096;
/// The pause until another connection has to give way: descriptors do not come back at once.
const GIVE_WAY_AFTER: Duration = Duration::from_millis(100);

/// How a listener treats its connections.
#[derive(Debug)]
pub struct Settings {
    pub deadlines: Deadlines,
    pub limits: Limits,
    /// Without it connections are not encrypted.
    pub tls: Option<Tls>,
    pub counts: Arc<Counts>,
}

/// Opens a listener on an address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server need not wait for the connections of the previous one to expire.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves connections until it is told to stop, and then until all open requests are answered.
/// Dropping the future closes every connection.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    settings: Settings,
    stop: watch::Receiver<bool>,
) where
    S: tower::Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Settings { deadlines, limits, mut tls, counts } = settings;
    let open = Arc::new(Mutex::new(Connections::new(limits)));
    // An evicted connection still holds its descriptor until its task has run.
    let room = Arc::new(Semaphore::new(limits.total.min(Semaphore::MAX_PERMITS)));
    let mut stopped = stop.clone();
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            // A dropped sender counts as a stop.
            _ = stopped.wait_for(|it| *it) => break,
            accepted = accept(&listener, &open) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        counts.opened();
        let Some(handle) = Handle::admit(&open, peer, deadlines) else {
            counts.close(CloseReason::Refused);
            continue;
        };
        let guard = Closed { counts: Arc::clone(&counts), why: CloseReason::Stopped };
        let permit = tokio::select! {
            _ = stopped.wait_for(|it| *it) => break,
            permit = permit(&room, &open) => permit,
        };
        let tls = tls.as_mut().map(|it| it.config(&counts));
        let (service, stop) = (service.clone(), stop.clone());
        connections.spawn(async move {
            let mut guard = guard;
            guard.why = connection::serve(stream, service, &handle, tls, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Counts a connection as closed, even if its task is cut off.
struct Closed {
    counts: Arc<Counts>,
    why: CloseReason,
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.counts.close(self.why);
    }
}

/// The next connection. Without descriptors another one has to give way first.
async fn accept(listener: &TcpListener, open: &Open) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An answer is written as a whole; a failure shows at the first read.
                let _ = stream.set_nodelay(true);
                return (stream, peer.ip());
            }
            // The peer was faster with its end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                give_way(open);
                sleep(GIVE_WAY_AFTER).await;
            }
        }
    }
}

/// The descriptor of a connection that was closed. The one that gave way may have begun a request
/// meanwhile, which is answered first: then another one gives way.
async fn permit(room: &Arc<Semaphore>, open: &Open) -> Option<OwnedSemaphorePermit> {
    loop {
        tokio::select! {
            permit = Arc::clone(room).acquire_owned() => return permit.ok(),
            () = sleep(GIVE_WAY_AFTER) => give_way(open),
        }
    }
}

fn give_way(open: &Open) {
    if let Some(evicted) = lock(open).give_way() {
        evicted.tell();
    }
}
