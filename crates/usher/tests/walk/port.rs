//! Ports that are told to a server before it listens there.

use tokio::net::TcpSocket;

/// A port that is nobody else's for as long as this is kept: whoever asks for any port gets another
/// one, and whoever asks for this very one may listen there, again and again.
#[derive(Debug)]
pub(crate) struct Port(TcpSocket);

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // The server says the same of its socket, so that both may have the port.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}
