//! Serves an API server until it is interrupted: `serve KUBECONFIG [FILE]`.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;

use usher_apiserver::ApiServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(kubeconfig) = arguments.next() else {
        return Err("cannot serve without the name of a kubeconfig to write".into());
    };
    let mut builder = ApiServer::builder();
    if let Some(file) = arguments.next() {
        builder = builder.file(file);
    }
    let server = builder.build().await?;
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&kubeconfig)?;
    file.write_all(server.kubeconfig().unwrap_or_default().as_bytes())?;
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
