//! `usher events`: the event log, read or followed.

use std::process::ExitCode;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::sleep;
use usher_agent::stream::Lines;

use crate::client::encoded;
use crate::console::{Form, cell};
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, field, run as session};

/// How long to wait before a broken stream is reopened.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct Flags {
    /// Only events of this resource, by name or id
    #[arg(long, value_name = "NAME|ID")]
    resource: Option<String>,
    #[command(flatten)]
    project: InProject,
    /// Keep printing new events
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| events(it, flags))
}

async fn events(session: Session, flags: Flags) -> Result<(), CliError> {
    let project = flags.project.name();
    let mut wanted = vec![];
    if let Some(text) = &flags.resource {
        let id = session.resource(text, project.as_deref()).await?.id;
        wanted.push(format!("resource={id}"));
    }
    if let Some(project) = &project {
        wanted.push(format!("project={}", encoded(project)));
    }
    if flags.follow {
        return follow(&session, wanted).await;
    }
    let path = format!("/v1/events?{}", wanted.join("&"));
    let items = session.all(path.trim_end_matches('?')).await?;
    session.list(&items, &["AT", "TYPE", "ABOUT", "VERSION"], row)
}

fn row(event: &Value) -> Vec<String> {
    let version = event.get("version").map(ToString::to_string);
    vec![
        cell(field(event, "occurred_at")),
        cell(field(event, "type")),
        cell(field(event, "resource").or_else(|| field(event, "machine"))),
        cell(version.as_deref()),
    ]
}

/// Prints one event per line, from the beginning of the log; a broken stream is reopened after the
/// last event read.
async fn follow(session: &Session, mut wanted: Vec<String>) -> Result<(), CliError> {
    wanted.push("from=beginning".to_owned());
    let path = format!("/v1/events?{}", wanted.join("&"));
    let mut last: Option<String> = None;
    let mut connected = false;
    loop {
        match session.client.listen(&path, last.as_deref()).await {
            Ok(mut body) => {
                connected = true;
                let mut lines = Lines::default();
                while let Some(Ok(frame)) = body.frame().await {
                    let Some(bytes) = frame.data_ref() else { continue };
                    let Ok(batch) = lines.feed(bytes) else { break };
                    for event in batch {
                        print(session, &event.data)?;
                        last = event.id.or(last);
                    }
                }
            }
            // Only a stream that was open before is retried: a wrong URL fails at once.
            Err(why) if connected && why.is_passing() => {}
            Err(why) => return Err(why.into()),
        }
        sleep(PAUSE).await;
    }
}

fn print(session: &Session, data: &str) -> Result<(), CliError> {
    let event: Value = serde_json::from_str(data)
        .map_err(|why| CliError::failed(format!("unexpected event of the server: {why}")))?;
    match session.console.form {
        Form::Json => session.console.line(&event),
        Form::Table => session.console.text(&format!("{}\n", row(&event).join("  "))),
    }
}
