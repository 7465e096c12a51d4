//! The gRPC messages between a shard and a provider of machines, and their connections.
//!
//! The messages are generated from `proto` by `cargo xtask generate`; names and numbers are those
//! of the public protocol. `salvage` is our own extension: the transition out of FAILED.
//!
//! **Invariants**
//! - A bootstrap blob is never printed.
//! - With certificate, key and authority both ends of a connection are verified; with none of them
//!   neither is; any other combination is refused at the start.

mod connection;
#[expect(
    unreachable_pub,
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "a tool wrote it"
)]
mod generated;
mod identity;
#[expect(
    unreachable_pub,
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "a tool wrote it"
)]
mod salvage;
mod tls;

pub use connection::{Incoming, Peer, channel, incoming, incoming_here};
pub use generated::capacity_provider_client::CapacityProviderClient;
pub use generated::capacity_provider_server::{
    CapacityProvider, CapacityProviderServer, SERVICE_NAME,
};
pub use generated::{
    CapacityType, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, HostRef,
    ListFilter, Machine, MachineList, MachineRef, MachineState, Resources, TransitionAck,
};
pub use identity::{BadIdentity, Identity};
pub use salvage::SalvageRequest;
pub use salvage::salvager_client::SalvagerClient;
pub use salvage::salvager_server::{Salvager, SalvagerServer};
pub use tls::{Error as TlsError, Files, Keyring};

use std::fmt;
use std::sync::Arc;

use tonic::transport::Channel;

pub type Client = CapacityProviderClient<Channel>;

/// The largest answer a client takes: a full list is one message.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The largest request a server takes: a bootstrap blob and metadata, with room to spare.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// The descriptors, for gRPC reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("descriptor.bin");

/// A client with room for full lists.
pub fn client(channel: Channel) -> Client {
    CapacityProviderClient::new(channel)
        .max_decoding_message_size(ANSWER_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

/// A server with room for blobs and full lists.
pub fn server<T: CapacityProvider>(provider: Arc<T>) -> CapacityProviderServer<T> {
    CapacityProviderServer::from_arc(provider)
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

impl fmt::Debug for ConfigureRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigureRequest")
            .field("machine_id", &self.machine_id)
            .field("cluster_id", &self.cluster_id)
            .field("bootstrap_blob", &format_args!("{} bytes", self.bootstrap_blob.len()))
            .field("shard_id", &self.shard_id)
            .field("shard_epoch", &self.shard_epoch)
            .field("sequence_number", &self.sequence_number)
            .field("shard_metadata", &format_args!("{} keys", self.shard_metadata.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests;
