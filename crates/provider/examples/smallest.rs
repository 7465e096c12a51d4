//! The smallest complete provider: a shelf with some boards.
//!
//! Run it with `cargo run -p usher-provider --example smallest`, and test it with
//! `usher provider conformance --target 127.0.0.1:7421`.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::net::TcpListener;
use usher_provider::{Backend, Command, CreatedHost, Fault, Kit, Options, Service, serve};
use usher_wire::fleet::{CapacityType, HostRef, Machine, MachineState, incoming};

/// The default address.
const ADDRESS: &str = "127.0.0.1:7421";

/// The substrate. A real one would call its cloud in each verb, with `command.operation` as the
/// idempotency token.
struct Shelf;

#[async_trait]
impl Backend for Shelf {
    async fn describe(&self) -> Result<Vec<Machine>, Fault> {
        let slot = |index: u32| Machine {
            id: format!("shelf-{index}"),
            state: MachineState::Speculative.into(),
            instance_type: "board".to_owned(),
            zone: "cellar".to_owned(),
            capacity_type: CapacityType::OnDemand.into(),
            ..Machine::default()
        };
        Ok((0..256).map(slot).collect())
    }

    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault> {
        let host = HostRef { provider: "shelf".to_owned(), r#ref: command.operation.clone() };
        Ok(CreatedHost { host, ..CreatedHost::default() })
    }

    async fn configure(&self, _command: &Command, _blob: &Bytes) -> Result<(), Fault> {
        Ok(())
    }

    async fn drain(&self, _command: &Command, _grace: Duration) -> Result<(), Fault> {
        Ok(())
    }

    async fn delete(&self, _command: &Command) -> Result<(), Fault> {
        Ok(())
    }
}

/// Serves the shelf on an address.
pub async fn provide(address: SocketAddr) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // A real one sets `state` to a file and `nonce` to a random number.
    let kit = Kit::start(Shelf, Options::default()).await?;
    let stop = async { _ = tokio::signal::ctrl_c().await };
    let listener = TcpListener::bind(address).await?;
    serve(incoming(listener, None), Service::new(kit), stop).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    provide(std::env::args().nth(1).as_deref().unwrap_or(ADDRESS).parse()?).await
}
