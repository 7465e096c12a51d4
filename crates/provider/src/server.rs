//! The gRPC server: machines, health and reflection.

use std::future::Future;
use std::sync::Arc;

use thiserror::Error;
use tonic::transport::Server;
use usher_wire::fleet::{
    self, CapacityProvider, CapacityProviderServer, Incoming, Salvager, SalvagerServer,
};

/// Why serving ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The reflection service cannot be built.
    #[error("failed to build the reflection service")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("transport failed")]
    Transport(#[source] tonic::transport::Error),
}

/// Serves until `stop` resolves and open requests are answered.
pub async fn serve<S: CapacityProvider + Salvager>(
    incoming: Incoming,
    service: S,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<CapacityProviderServer<S>>().await;
    health.set_serving::<SalvagerServer<S>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(fleet::DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServeError::Reflection)?;
    let service = Arc::new(service);
    Server::builder()
        .http2_adaptive_window(Some(true))
        .add_service(fleet::server(Arc::clone(&service)))
        .add_service(SalvagerServer::from_arc(service))
        .add_service(health_service)
        .add_service(reflection)
        .serve_with_incoming_shutdown(incoming, stop)
        .await
        .map_err(ServeError::Transport)
}
