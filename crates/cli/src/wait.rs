//! Waiting for a resource: live on a terminal, plain lines otherwise.

use std::future::pending;
use std::io::Write as _;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use usher_agent::stream::Lines;
use usher_wire::operator::Resource;

use crate::client::encoded;
use crate::console::{self, Form};
use crate::error::CliError;
use crate::session::Session;

/// How long to wait for an event before reading the resource anyway: not every phase change has an
/// event, and the stream can break.
const READ_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, clap::Args)]
pub struct Waiting {
    /// Wait until it has finished, and print its progress
    #[arg(long)]
    pub wait: bool,
    /// Wait at most this long
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    pub timeout: u64,
}

/// Waits until one of these phases; a server that is unavailable for a while is retried.
pub async fn until(
    session: &Session,
    first: Resource,
    phases: &[&str],
    waiting: &Waiting,
) -> Result<Resource, CliError> {
    let began = Instant::now();
    let end = began + Duration::from_secs(waiting.timeout);
    let path = format!("/v1/resources/{}", first.id);
    let mut shown = Shown::new(session.console.form);
    let mut resource = first;
    let mut news = News::about(session, &resource.id);
    loop {
        shown.update(&resource, began.elapsed());
        if phases.contains(&resource.phase.as_str()) {
            shown.close();
            return Ok(resource);
        }
        if Instant::now() >= end {
            shown.close();
            let reason = resource.reason.as_deref().unwrap_or("not reconciled yet");
            return Err(CliError::unavailable(format!(
                "timed out: \"{}\" is {} ({reason}); see `usher why {}`",
                resource.name, resource.phase, resource.id
            )));
        }
        // A timeout is not an error: the resource is read either way.
        let _ = timeout(READ_AFTER, news.next()).await;
        match session.client.read::<Resource>(&path).await {
            Ok(next) => resource = next,
            Err(why) if why.is_passing() => {}
            Err(why) => {
                shown.close();
                return Err(why.into());
            }
        }
    }
}

/// The event stream of a resource.
struct News<'s> {
    session: &'s Session,
    path: String,
    open: Option<(Incoming, Lines)>,
}

impl<'s> News<'s> {
    fn about(session: &'s Session, resource: &str) -> Self {
        let path = format!("/v1/events?resource={}", encoded(resource));
        Self { session, path, open: None }
    }

    /// Returns when the resource should be read: an event arrived, or the stream was just opened,
    /// so that no event since the last read is missed. It stays pending if the stream cannot be
    /// read; the next call opens another.
    async fn next(&mut self) {
        let Some((body, lines)) = &mut self.open else {
            if let Ok(body) = self.session.client.listen(&self.path, None).await {
                self.open = Some((body, Lines::default()));
                return;
            }
            return pending().await;
        };
        while let Some(Ok(frame)) = body.frame().await {
            let Some(bytes) = frame.data_ref() else { continue };
            match lines.feed(bytes) {
                Ok(events) if events.is_empty() => {}
                Ok(_) => return,
                Err(_) => break,
            }
        }
        self.open = None;
        pending::<()>().await;
    }
}

/// The progress on the screen.
struct Shown {
    live: bool,
    silent: bool,
    last: Option<(String, Option<String>)>,
    open: bool,
}

impl Shown {
    fn new(form: Form) -> Self {
        let silent = form == Form::Json;
        Self { live: !silent && console::is_watched(), silent, last: None, open: false }
    }

    fn update(&mut self, resource: &Resource, elapsed: Duration) {
        if self.silent {
            return;
        }
        let now = (resource.phase.clone(), resource.reason.clone());
        let changed = self.last.as_ref() != Some(&now);
        let crossed = self.last.as_ref().is_some_and(|(phase, _)| *phase != now.0);
        let text = line(resource, elapsed);
        if self.live {
            let mut out = std::io::stderr().lock();
            // A phase change keeps its line; changes within a phase overwrite it.
            let begin = if crossed && self.open { "\n" } else { "" };
            let _ = write!(out, "{begin}\r\x1b[2K{text}");
            let _ = out.flush();
            self.open = true;
        } else if changed {
            eprintln!("{text}");
        }
        self.last = Some(now);
    }

    fn close(&mut self) {
        if self.open {
            eprintln!();
            self.open = false;
        }
    }
}

fn line(resource: &Resource, elapsed: Duration) -> String {
    let reason = resource.reason.as_deref().unwrap_or("");
    let seconds = elapsed.as_secs_f32();
    let text = format!("{:6.1}s  {}  {}  {reason}", seconds, resource.name, resource.phase);
    text.trim_end().to_owned()
}
