//! Ports reserved for a server before it listens.

use tokio::net::TcpSocket;

/// A port that the kernel assigns to no other process for as long as this value exists; a process
/// that binds this port explicitly may listen on it, any number of times.
#[derive(Debug)]
pub(crate) struct Port(TcpSocket);

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // The server sets SO_REUSEADDR as well, so that both may bind the port.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}
