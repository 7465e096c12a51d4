//! Providers that serve gRPC.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::Response;
use usher_provider::fake::{Fake, Settings};
use usher_provider::{Kit, Options, Service, serve};
use usher_wire::fleet::{self, Client, Keyring, Machine, MachineRef, MachineState};

/// Serves a kit on a port of its own.
pub(crate) async fn serve_kit(kit: &Kit<Fake>, keyring: Option<Arc<Keyring>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve(fleet::incoming(listener, keyring), Service::new(kit.clone()), pending()));
    address
}

/// A kit over a fake, and a client of it.
pub(crate) async fn fake(settings: Settings, options: Options) -> (Kit<Fake>, Client) {
    let kit = Kit::start(Fake::new(settings).unwrap(), options).await.unwrap();
    let address = serve_kit(&kit, None).await;
    (kit, client(&address))
}

pub(crate) fn client(address: &str) -> Client {
    fleet::client(fleet::channel(address, None).unwrap())
}

pub(crate) async fn get(client: &mut Client, id: &str) -> Machine {
    client.get(MachineRef { id: id.to_owned() }).await.map(Response::into_inner).unwrap()
}

/// Waits until a machine reaches a state.
pub(crate) async fn settle(client: &mut Client, id: &str, state: MachineState) -> Machine {
    let reached = async {
        loop {
            let now = get(client, id).await;
            if now.state() == state {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), reached).await.unwrap()
}
