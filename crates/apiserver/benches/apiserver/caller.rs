//! Clients of a server: in-process, or over TLS.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube_client::client::Body;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use usher_apiserver::ApiServer;

/// A client that sends one request at a time.
pub(crate) enum Caller {
    Inside(kube_client::Client),
    Wire { sender: SendRequest<Full<Bytes>>, token: String },
}

/// The endpoint of a kubeconfig.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: String,
    token: String,
    config: Arc<ClientConfig>,
}

impl Endpoint {
    /// The first listener of a server.
    pub(crate) fn of(server: &ApiServer) -> Self {
        Self::read(&server.kubeconfig().expect("a kubeconfig"))
    }

    /// The cluster of a kubeconfig in JSON.
    pub(crate) fn read(config: &str) -> Self {
        let config: Value = serde_json::from_str(config).expect("JSON");
        let given = |pointer: &str| config.pointer(pointer).and_then(Value::as_str);
        let text = |pointer: &str| given(pointer).expect("a text").to_owned();
        let mut roots = RootCertStore::empty();
        let authority = match given("/clusters/0/cluster/certificate-authority-data") {
            Some(data) => STANDARD.decode(data).expect("PEM"),
            None => std::fs::read(text("/clusters/0/cluster/certificate-authority")).expect("PEM"),
        };
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate.expect("a certificate")).expect("an authority");
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = text("/clusters/0/cluster/server").replace("https://", "");
        Self { address, token: text("/users/0/user/token"), config: Arc::new(config) }
    }

    /// A caller with a connection of its own.
    pub(crate) async fn connect(&self) -> Caller {
        self.try_connect().await.expect("a connection")
    }

    /// A caller, if the server listens already.
    pub(crate) async fn try_connect(&self) -> Option<Caller> {
        let stream = TcpStream::connect(&self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let name = ServerName::try_from("127.0.0.1").ok()?;
        let connector = TlsConnector::from(self.config.clone());
        let stream = connector.connect(name, stream).await.ok()?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Caller::Wire { sender, token: self.token.clone() })
    }
}

impl Caller {
    pub(crate) fn inside(server: &ApiServer) -> Self {
        Self::Inside(server.client())
    }

    /// Status and body of a response.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: Bytes) -> (u16, Bytes) {
        match self {
            Self::Inside(client) => {
                let request = Request::builder().method(method).uri(path);
                let request = request.header("content-type", media(method));
                let request = request.body(Body::from(body)).expect("a request");
                let answer = client.send(request).await.expect("a response");
                let status = answer.status().as_u16();
                (status, answer.into_body().collect().await.expect("a body").to_bytes())
            }
            Self::Wire { .. } => {
                let answer = self.send(method, path, body).await;
                let status = answer.status().as_u16();
                (status, answer.into_body().collect().await.expect("a body").to_bytes())
            }
        }
    }

    /// Status and body of a response, if the connection stays.
    pub(crate) async fn try_call(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Option<(u16, Bytes)> {
        let answer = self.try_send(method, path, body).await?;
        let status = answer.status().as_u16();
        Some((status, answer.into_body().collect().await.ok()?.to_bytes()))
    }

    /// Reads a stream chunk by chunk.
    pub(crate) async fn stream(mut self, path: &str, mut piece: impl FnMut(&[u8])) {
        match &mut self {
            Self::Inside(client) => {
                let request = Request::get(path).body(Body::empty()).expect("a request");
                let body = client.send(request).await.expect("a stream").into_body();
                pieces(body, &mut piece).await;
            }
            Self::Wire { .. } => {
                let answer = self.send("GET", path, Bytes::new()).await;
                assert_eq!(answer.status(), 200, "{path}");
                pieces(answer.into_body(), &mut piece).await;
            }
        }
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Response<hyper::body::Incoming> {
        self.try_send(method, path, body).await.expect("a response")
    }

    async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Option<Response<hyper::body::Incoming>> {
        let Self::Wire { sender, token } = self else { unreachable!("only called over a wire") };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", media(method))
            .body(Full::new(body))
            .expect("a request");
        sender.ready().await.ok()?;
        sender.send_request(request).await.ok()
    }
}

async fn pieces<B>(mut body: B, piece: &mut impl FnMut(&[u8]))
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            piece(data);
        }
    }
}

fn media(method: &str) -> &'static str {
    if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" }
}
