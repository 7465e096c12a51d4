//! The embedded server as a process of its own.

use std::net::SocketAddr;
use std::path::Path;

use usher_apiserver::ApiServer;

/// Serves, and names the kubeconfig to write.
pub(crate) const KUBECONFIG: &str = "--serve";
/// Names the file of the objects; without it they are in memory only.
pub(crate) const FILE: &str = "--file";

/// Serves until the standard input ends: with the measurement.
pub(crate) async fn run(kubeconfig: &str, file: Option<&str>) {
    let mut builder = ApiServer::builder();
    if let Some(file) = file {
        builder = builder.file(file);
    }
    let server = builder.build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("an endpoint");
    let path = Path::new(kubeconfig);
    let half = path.with_extension("half");
    std::fs::write(&half, server.kubeconfig().expect("a kubeconfig")).expect("written");
    std::fs::rename(half, path).expect("renamed");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lines().all(|line| line.is_ok()));
    ended.await.expect("the end of the input");
    server.shutdown().await;
}
