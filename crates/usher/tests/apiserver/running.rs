//! A running `usher apiserver`, and requests to it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");

/// A server that printed its ready line; killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(USHER);
        command.arg("apiserver").args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let said = line.strip_prefix("usher apiserver is ready at ");
        let said = said.and_then(|it| it.trim_end().split_once(", kubeconfig "));
        let Some((url, path)) = said else { panic!("not ready: {line:?} {:?}", child.wait()) };
        Self { child, output, url: url.to_owned(), kubeconfig: PathBuf::from(path) }
    }

    /// Sends a signal: exit code, and what else it printed.
    pub(crate) fn stop(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// One request with the credentials of the kubeconfig: status and body.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let config: Value =
            serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        let text = |pointer: &str| config.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let authority = text("/clusters/0/cluster/certificate-authority-data");
        let authority = STANDARD.decode(authority).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = text("/clusters/0/cluster/server").replace("https://", "");
        let stream = TcpStream::connect(server).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n\
             {body}",
            text("/users/0/user/token"),
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, serde_json::from_str(body).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
