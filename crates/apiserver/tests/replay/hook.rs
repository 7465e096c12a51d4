//! The webhook of the recordings and of other tests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The received reviews, with the mode of the call.
pub(crate) type RecordedCalls = Arc<Mutex<Vec<(String, Value)>>>;

/// A running webhook.
pub(crate) struct Hook {
    pub(crate) url: String,
    pub(crate) authority: String,
    pub(crate) asked: RecordedCalls,
}

/// Starts the webhook.
pub(crate) async fn start() -> Hook {
    let (acceptor, authority) = identity();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let asked = RecordedCalls::default();
    let theirs = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, asked) = (acceptor.clone(), theirs.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request| answer(request, asked.clone()));
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Hook { url, authority, asked }
}

fn identity() -> (TlsAcceptor, String) {
    let key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&key).expect("a root");
    let issuer = Issuer::new(authority, key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned(), "guard.room.svc".to_owned()])
        .expect("a name");
    let own_key = KeyPair::generate().expect("a key");
    let signed = own.signed_by(&own_key, &issuer).expect("a certificate");
    let chain = vec![CertificateDer::from(signed.der().to_vec())];
    let key = PrivateKeyDer::Pkcs8(own_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a configuration");
    (TlsAcceptor::from(Arc::new(config)), STANDARD.encode(root.pem()))
}

async fn answer(
    request: Request<Incoming>,
    asked: RecordedCalls,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mode = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review");
    let times = {
        let mut asked = asked.lock().expect("asked");
        asked.push((mode.clone(), review.clone()));
        asked.len()
    };
    let uid = review["request"]["uid"].clone();
    let response = |response: Value| {
        let (version, kind) = ("admission.k8s.io/v1", "AdmissionReview");
        json!({"apiVersion": version, "kind": kind, "response": response})
    };
    let denied = |status: Value| response(json!({"uid": uid, "allowed": false, "status": status}));
    let allowed = response(json!({"uid": uid, "allowed": true}));
    let (status, reply) = match mode.as_str() {
        "allow" => (200, allowed),
        "warn" => {
            let warnings = json!(["first warning", "second warning"]);
            (200, response(json!({"uid": uid, "allowed": true, "warnings": warnings})))
        }
        "deny" => (200, denied(json!({"code": 403, "message": "still in use by corpus/other"}))),
        "denyfive" if times > 5 => (200, allowed),
        "denyfive" => (200, denied(json!({"code": 403, "message": "not yet"}))),
        "denynocode" => (200, denied(json!({"message": "no code given"}))),
        "deny200" => (200, denied(json!({"code": 200, "message": "code below 400"}))),
        "deny409" => (200, denied(json!({"code": 409, "reason": "Conflict", "message": "busy"}))),
        "denydetails" => {
            let cause =
                json!({"reason": "FieldValueInvalid", "message": "why", "field": "spec.size"});
            let status = json!({
                "code": 422, "reason": "Invalid", "message": "see details",
                "details": {"causes": [cause]},
            });
            (200, denied(status))
        }
        "denyreason" => (200, denied(json!({"code": 403, "reason": "Forbidden"}))),
        "denyempty" => (200, response(json!({"uid": uid, "allowed": false}))),
        "denywarn" => {
            let status = json!({"code": 403, "message": "denied"});
            let warnings = json!(["denied with a warning"]);
            let denied =
                json!({"uid": uid, "allowed": false, "warnings": warnings, "status": status});
            (200, response(denied))
        }
        "http500" => (500, json!("internal trouble")),
        "notjson" => (200, json!("this is not json")),
        "baduid" => (200, response(json!({"uid": "not-the-request", "allowed": true}))),
        "nokind" => (200, json!({"response": {"uid": uid, "allowed": true}})),
        "noresponse" => {
            (200, json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}))
        }
        "slow" => {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            (200, allowed)
        }
        other => panic!("no such mode: {other}"),
    };
    let body = Full::new(Bytes::from(reply.to_string()));
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(body).expect("a response"))
}
