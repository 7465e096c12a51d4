//! The server of the measurement: this program again, with an audit log in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use usher_apiserver::ApiServer;

/// The word that makes this program the server.
pub(crate) const SERVE: &str = "--serve";
const AUDIT: &str = "audit";
const KUBECONFIG: &str = "kubeconfig";
const STARTED: &str = "started";

pub(crate) struct Server {
    folder: PathBuf,
    child: Child,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(SERVE)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert!(lines.any(|line| line.is_ok_and(|it| it == STARTED)), "the server does not start");
        Self { folder: folder.to_owned(), child }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }

    /// The requests in the audit log, by verb and resource, without the server's own.
    pub(crate) fn requests(&self) -> BTreeMap<(String, String), usize> {
        let log = std::fs::read_to_string(self.folder.join(AUDIT)).expect("an audit log");
        let mut requests = BTreeMap::new();
        for line in log.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            if !text("user").starts_with("system:") {
                *requests.entry((text("verb"), text("resource"))).or_default() += 1;
            }
        }
        requests
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until its input is closed.
pub(crate) async fn serve() {
    let log = Mutex::new(File::create(AUDIT).expect("an audit log"));
    let audit = move |line: &str| {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(log, "{line}").expect("an audit line");
    };
    let server = ApiServer::builder().audit(audit).build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("an address");
    std::fs::write(KUBECONFIG, server.kubeconfig().expect("a kubeconfig")).expect("a file");
    println!("{STARTED}");
    let (closed, is_closed) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(closed);
    });
    let _ = is_closed.await;
}
