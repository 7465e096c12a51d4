//! The stream of server-sent events: parsed as it arrives, reopened with back-off when it breaks.

use std::mem;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use usher_wire::http::{AgentEvent, Drain, Secret, events_path};

use crate::client::{Client, Error};
use crate::pace::Pace;

/// The longest event that is read.
const EVENT_MAX: usize = 64 * 1024;

/// What the control plane requests of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Drain(Drain),
    /// Acknowledge this snapshot of the mesh.
    Mesh(u64),
    /// The node is deregistered.
    Stop,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    pub data: String,
}

/// An event longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// A parser of server-sent events.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    id: Option<String>,
    data: Vec<String>,
    size: usize,
}

impl Lines {
    /// The events that are complete with these bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                self.size += 1;
                if self.size > EVENT_MAX {
                    return Err(TooLong);
                }
                continue;
            }
            let line = mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                events.extend(self.close());
            } else {
                self.take(line);
            }
        }
        Ok(events)
    }

    fn take(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "data" => self.data.push(value.to_owned()),
            // Comments, names and delays.
            _ => {}
        }
    }

    fn close(&mut self) -> Option<Event> {
        self.size = 0;
        let (id, data) = (self.id.take(), mem::take(&mut self.data));
        (!data.is_empty()).then(|| Event { id, data: data.join("\n") })
    }
}

/// Sends commands until the node is deregistered or the receiver is dropped.
pub async fn listen(
    client: Arc<Client>,
    (node, secret): (String, watch::Receiver<Secret>),
    pace: Pace,
    commands: mpsc::Sender<Command>,
) {
    let path = events_path(&node);
    let mut last_event: Option<String> = None;
    let mut failures = 0;
    loop {
        let bearer = secret.borrow().clone();
        let opened = timeout(pace.call, client.listen(&path, &bearer, last_event.as_deref()));
        match opened.await.unwrap_or(Err(Error::TimedOut)) {
            Ok(body) => {
                let received = read(body, pace, &commands, &mut last_event).await;
                failures = if received { 0 } else { failures + 1 };
            }
            Err(why) if why.is_deregistered() => {
                let _ = commands.send(Command::Stop).await;
                return;
            }
            Err(_) => failures += 1,
        }
        if commands.is_closed() {
            return;
        }
        sleep(pace.jittered(failures.max(1))).await;
    }
}

/// Reads a stream to its end; whether it received anything.
async fn read(
    mut body: Incoming,
    pace: Pace,
    commands: &mpsc::Sender<Command>,
    last_event: &mut Option<String>,
) -> bool {
    let mut lines = Lines::default();
    let mut received = false;
    while let Ok(Some(Ok(frame))) = timeout(pace.silence, body.frame()).await {
        let Some(bytes) = frame.data_ref() else { continue };
        received = true;
        let Ok(events) = lines.feed(bytes) else { return received };
        for event in events {
            let command = match serde_json::from_str(&event.data) {
                Ok(AgentEvent::Drain(drain)) => Some(Command::Drain(drain)),
                Ok(AgentEvent::Mesh { snapshot }) => Some(Command::Mesh(snapshot)),
                Ok(AgentEvent::Unknown) | Err(_) => None,
            };
            if let Some(command) = command
                && commands.send(command).await.is_err()
            {
                return received;
            }
            if event.id.is_some() {
                *last_event = event.id;
            }
        }
    }
    received
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, data: &str) -> Event {
        Event { id: id.map(str::to_owned), data: data.to_owned() }
    }

    // Requirement: AG-8
    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = ": hello\n\nid: 7\nevent: x\ndata: {\"a\":1}\n\ndata:b\r\ndata: c\r\n\r\n\
                    retry: 5\n\ndata";
        let expected = [event(Some("7"), "{\"a\":1}"), event(None, "b\nc")];
        assert_eq!(Lines::default().feed(text.as_bytes()).unwrap(), expected);
        for size in 1..8 {
            let mut lines = Lines::default();
            let chunks = text.as_bytes().chunks(size);
            let read: Vec<Event> = chunks.flat_map(|it| lines.feed(it).unwrap()).collect();
            assert_eq!(read, expected, "{size}");
        }
    }

    // Requirement: AG-8
    #[test]
    fn what_never_ends_is_no_event() {
        let mut lines = Lines::default();
        let long = vec![b'x'; EVENT_MAX];
        assert_eq!(lines.feed(&long), Ok(vec![]));
        assert_eq!(lines.feed(b"x"), Err(TooLong));
        let mut lines = Lines::default();
        let many = b"data: x\n".repeat(EVENT_MAX);
        assert_eq!(lines.feed(&many), Err(TooLong), "nor in many lines");
    }

    proptest::proptest! {
        // Requirement: AG-8
        #[test]
        fn any_bytes_are_read_alike_however_they_are_cut(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
            size in 1_usize..50,
        ) {
            let whole = Lines::default().feed(&bytes).unwrap();
            let mut lines = Lines::default();
            let cut: Vec<Event> =
                bytes.chunks(size).flat_map(|it| lines.feed(it).unwrap()).collect();
            proptest::prop_assert_eq!(whole, cut);
        }
    }

    // Requirement: AG-8
    #[test]
    fn garbage_is_no_event_and_no_harm() {
        let mut lines = Lines::default();
        let events = lines.feed(b"\xff\xfe:\n\n\0\n\ndata\n\nid\n\n:::\n\n").unwrap();
        assert_eq!(events, [event(None, "")]);
    }
}
