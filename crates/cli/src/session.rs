//! One run of a command: the server it calls, its output, and how names resolve.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use usher_wire::data_dir::{self, Absent};
use usher_wire::http::Secret;
use usher_wire::operator::{List, Resource};
use uuid::Uuid;

use crate::client::{Client, Trust, encoded};
use crate::console::{Console, Form};
use crate::environment::variable;
use crate::error::CliError;

/// The flags of every command that calls a server.
#[derive(Clone, clap::Args)]
pub struct Basics {
    /// Find the running server by this data directory, else by `USHER_DATA_DIR`
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Send the token without TLS to a server that is not on this computer
    #[arg(long)]
    pub allow_http: bool,
    /// Trust the authorities in this file, else in `USHER_CA_FILE`, else those of this computer
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Form,
}

/// The project flag.
#[derive(Clone, clap::Args)]
pub struct InProject {
    /// Only in this project, else in `USHER_PROJECT`, else in all projects
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl InProject {
    /// The project of the flag or of the environment.
    pub fn name(&self) -> Option<String> {
        self.project.clone().or_else(|| variable("USHER_PROJECT"))
    }
}

/// A server and a console.
pub struct Session {
    pub client: Client,
    pub console: Console,
}

/// Runs a command and returns its exit code.
pub fn run<F>(basics: &Basics, verb: impl FnOnce(Session) -> F) -> ExitCode
where
    F: Future<Output = Result<(), CliError>>,
{
    let session = match Session::open(basics, variable) {
        Ok(session) => session,
        Err(stop) => return stop.print(),
    };
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match built {
        Ok(runtime) => runtime.block_on(verb(session)),
        Err(why) => Err(CliError::failed(format!("failed to start the async runtime: {why}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

impl Session {
    /// Finds the server by `USHER_URL` and `USHER_TOKEN`, else by the data directory. The token of
    /// a data directory is sent to the server that runs on it, and to no other.
    pub fn open(
        basics: &Basics,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CliError> {
        let folder = || {
            let named =
                basics.data_dir.clone().or_else(|| variable(data_dir::VARIABLE).map(PathBuf::from));
            let nowhere = || CliError::usage("no data directory: give --data-dir");
            named.or_else(|| data_dir::standard(&variable)).ok_or_else(nowhere)
        };
        let (url, token) = match (variable("USHER_URL"), variable("USHER_TOKEN")) {
            (Some(url), Some(token)) => (url, token),
            (Some(url), None) => {
                let own = folder().ok().filter(|it| runs_at(it, &url));
                let own = own.ok_or_else(|| tokenless(&url))?;
                (url, admin_token(&own)?)
            }
            (None, Some(token)) => (endpoint(&folder()?)?, token),
            (None, None) => {
                let folder = folder()?;
                (endpoint(&folder)?, admin_token(&folder)?)
            }
        };
        let trust = Trust {
            allow_http: basics.allow_http || variable("USHER_ALLOW_HTTP").as_deref() == Some("1"),
            ca_file: basics
                .ca_file
                .clone()
                .or_else(|| variable("USHER_CA_FILE").map(PathBuf::from)),
        };
        let client = Client::new(&url, Secret::new(token.trim()), &trust)?;
        Ok(Self { client, console: Console { form: basics.output } })
    }

    /// Resolves a name or an id. An id is exact; a name is that of the newest resource with it, and
    /// of one that is not deleted before one that is.
    pub async fn resource(&self, text: &str, project: Option<&str>) -> Result<Resource, CliError> {
        if is_id(text) {
            return Ok(self.client.read(&format!("/v1/resources/{text}")).await?);
        }
        let within = project.map(|it| format!("&project={}", encoded(it))).unwrap_or_default();
        let path = format!("/v1/resources?deleted=true&name={}{within}", encoded(text));
        let found: List<Resource> = self.client.read(&path).await?;
        chosen(text, found.items)
    }

    /// All items of a listing, page by page.
    pub async fn all(&self, path: &str) -> Result<Vec<Value>, CliError> {
        let mut items = vec![];
        let mut after: Option<String> = None;
        let join = if path.contains('?') { '&' } else { '?' };
        loop {
            let place = after.as_deref().map(|it| format!("&after={}", encoded(it)));
            let place = place.unwrap_or_default();
            let page: List<Value> =
                self.client.read(&format!("{path}{join}limit=500{place}")).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) => after = Some(next),
                None => return Ok(items),
            }
        }
    }

    /// Prints a listing.
    pub fn list(
        &self,
        items: &[Value],
        heads: &[&str],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), CliError> {
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        let value = json!({"items": items, "next_cursor": null});
        self.console.one(&value, || crate::console::table(heads, &rows))
    }
}

fn endpoint(folder: &Path) -> Result<String, CliError> {
    let shown = folder.display();
    let announced = data_dir::endpoint(folder).map_err(|why| match why {
        Absent::Unannounced => format!("no server runs in \"{shown}\": start one with `usher up`"),
        Absent::Unreadable { why } => format!(
            "failed to read which server runs in \"{shown}\": {why}; use the account that started \
             it"
        ),
        Absent::Ended { pid } => format!(
            "the server of \"{shown}\", process {pid}, is gone: start it again with `usher up`"
        ),
    });
    let otherwise = "or give --data-dir or USHER_URL";
    let read = announced.map_err(|why| CliError::unavailable(format!("{why}, {otherwise}")))?;
    Ok(read.url)
}

/// Whether the server of a data directory has this URL.
fn runs_at(folder: &Path, url: &str) -> bool {
    let own = data_dir::endpoint(folder);
    own.is_ok_and(|it| it.url.trim_end_matches('/') == url.trim_end_matches('/'))
}

fn tokenless(url: &str) -> CliError {
    CliError::usage(format!(
        "no token for the server at \"{url}\": set USHER_TOKEN; the token of a data directory is \
         sent only to the server that runs on it"
    ))
}

fn admin_token(folder: &Path) -> Result<String, CliError> {
    let path = folder.join(data_dir::ADMIN_TOKEN);
    std::fs::read_to_string(&path).map_err(|why| {
        let shown = path.display();
        CliError::usage(format!("failed to read the token in \"{shown}\": {why}; set USHER_TOKEN"))
    })
}

fn chosen(text: &str, found: Vec<Resource>) -> Result<Resource, CliError> {
    let (living, gone): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.phase != "Deleted");
    let mut meant = if living.is_empty() { gone } else { living };
    if meant.len() > 1 {
        let lines: Vec<String> =
            meant.iter().map(|it| format!("  {}  {}  {}", it.project, it.id, it.phase)).collect();
        let list = lines.join("\n");
        return Err(CliError::usage(format!(
            "name \"{text}\" is ambiguous: give --project or an id\n{list}"
        )));
    }
    meant.pop().ok_or_else(|| CliError::not_found(format!("no resource is named \"{text}\"")))
}

/// Whether a text is a resource id.
pub fn is_id(text: &str) -> bool {
    text.parse::<Uuid>().is_ok_and(|id| id.to_string() == text)
}

/// A string field of a response.
pub fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
