//! A watch that checks that every event comes once and in order.

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::caller::Caller;
use crate::thing::THINGS;

const VERSION: &[u8] = b"\"resourceVersion\":\"";

/// An open watch.
pub(crate) struct Watcher {
    seen: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Watches what happens after now.
    pub(crate) async fn start(mut caller: Caller) -> Self {
        let (_, list) = caller.call("GET", THINGS, Bytes::new()).await;
        let list: Value = serde_json::from_slice(&list).expect("a list");
        let after = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let (sender, seen) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut order = EventOrder::default();
            let path = format!("{THINGS}?watch=true&resourceVersion={after}");
            caller
                .stream(&path, |bytes| {
                    order.take(bytes);
                    sender.send_replace(order.events);
                })
                .await;
        });
        Self { seen, task }
    }

    /// Waits for this many events, and fails if there are more.
    pub(crate) async fn saw(mut self, writes: usize) {
        self.seen.wait_for(|seen| *seen >= writes).await.expect("the watch continues");
        assert_eq!(*self.seen.borrow(), writes, "a write was delivered twice");
        self.task.abort();
    }
}

/// The events so far.
#[derive(Default)]
struct EventOrder {
    rest: Vec<u8>,
    events: usize,
    newest: u64,
}

impl EventOrder {
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        for line in self.rest[..end].split(|byte| *byte == b'\n') {
            let at = line.windows(VERSION.len()).position(|window| window == VERSION);
            let text = &line[at.expect("a version") + VERSION.len()..];
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
            let version = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            assert!(version > self.newest, "{version} came after {}", self.newest);
            self.newest = version;
            self.events += 1;
        }
        self.rest.drain(..=end);
    }
}
