//! Follows a server's event log, so that one stream serves all waiting tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use usher_agent::client::Client;
use usher_agent::settings::Settings;
use usher_agent::stream::Lines;
use usher_wire::http::Secret;

use crate::test_server::TestServer;

/// When each event was received, by resource and event word.
type Printed = HashMap<(String, String), SystemTime>;

/// A follower of a server's log, until it is dropped.
pub(crate) struct Follower {
    received: Arc<Mutex<Printed>>,
    arrivals: watch::Receiver<u64>,
    listening: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Follower {
    pub(crate) async fn new(server: &TestServer) -> Self {
        let settings = Settings {
            api_url: format!("http://127.0.0.1:{}", server.port()),
            project_id: String::new(),
            resource_id: String::new(),
            token_file: server.data(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            in_flight_dir: None,
        };
        let client = Client::new(&settings).unwrap();
        let token = std::fs::read_to_string(server.data().join("admin.token")).unwrap();
        let opened = client.listen("/v1/events", &Secret::new(token.trim()), None).await;
        let mut body = opened.unwrap();
        let received = Arc::<Mutex<Printed>>::default();
        let (arrived, arrivals) = watch::channel(0);
        let into = Arc::clone(&received);
        let listening = tokio::spawn(async move {
            let mut lines = Lines::default();
            while let Some(Ok(frame)) = body.frame().await {
                let Some(bytes) = frame.data_ref() else { continue };
                for event in lines.feed(bytes).unwrap() {
                    note(&into, &event.data);
                }
                arrived.send_modify(|it| *it += 1);
            }
        });
        Self { received, arrivals, listening }
    }

    /// Waits for this event of a resource; when it was received.
    pub(crate) async fn until(&self, id: &str, word: &str) -> SystemTime {
        let key = (id.to_owned(), word.to_owned());
        let mut arrivals = self.arrivals.clone();
        loop {
            arrivals.borrow_and_update();
            if let Some(at) = self.received.lock().unwrap().remove(&key) {
                return at;
            }
            arrivals.changed().await.unwrap();
        }
    }
}

fn note(received: &Mutex<Printed>, data: &str) {
    let Ok(event) = serde_json::from_str::<Value>(data) else { return };
    let (Some(id), Some(kind)) = (event["resource"].as_str(), event["type"].as_str()) else {
        return;
    };
    let word = kind.replace("broker.ProvisionedResource", "");
    received.lock().unwrap().insert((id.to_owned(), word), SystemTime::now());
}
