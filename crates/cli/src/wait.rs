//! Waiting for a resource: live on a terminal, plain lines otherwise.

use std::io::Write as _;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use usher_wire::operator::Resource;

use crate::console::{self, Form};
use crate::session::Session;
use crate::stop::Stop;

/// How often to look at first, when much happens.
const PACE: Duration = Duration::from_millis(20);
/// How often to look at last.
const PACE_MAX: Duration = Duration::from_millis(500);

/// How to wait.
#[derive(Clone, clap::Args)]
pub struct Waiting {
    /// Wait until it has ended, and show its progress
    #[arg(long)]
    pub wait: bool,
    /// Wait at most this long
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    pub timeout: u64,
}

/// Waits until one of these phases; a server that does not answer for a while is waited out.
pub async fn until(
    session: &Session,
    first: Resource,
    phases: &[&str],
    waiting: &Waiting,
) -> Result<Resource, Stop> {
    let began = Instant::now();
    let end = began + Duration::from_secs(waiting.timeout);
    let path = format!("/v1/resources/{}", first.id);
    let mut shown = Shown::new(session.console.form);
    let mut resource = first;
    let mut pace = PACE;
    loop {
        shown.update(&resource, began.elapsed());
        if phases.contains(&resource.phase.as_str()) {
            shown.close();
            return Ok(resource);
        }
        if Instant::now() >= end {
            shown.close();
            let reason = resource.reason.as_deref().unwrap_or("nobody has looked yet");
            return Err(Stop::unavailable(format!(
                "cannot wait for \"{}\" any longer: it is {} ({reason}); ask `usher why {}`",
                resource.name, resource.phase, resource.id
            )));
        }
        sleep(pace).await;
        pace = (pace * 11 / 10).min(PACE_MAX);
        match session.client.read::<Resource>(&path).await {
            Ok(next) => {
                if next.phase != resource.phase {
                    pace = PACE;
                }
                resource = next;
            }
            Err(why) if why.is_passing() => {}
            Err(why) => {
                shown.close();
                return Err(why.into());
            }
        }
    }
}

/// What is shown of the progress.
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
            // A crossing stays on the screen; what happens within a phase is written over.
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
