//! One run of a client verb: the server it found, what it prints, and whom a name means.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use usher_wire::data_dir;
use usher_wire::http::Secret;
use usher_wire::operator::{List, Resource};
use uuid::Uuid;

use crate::client::{Client, encoded};
use crate::console::{Console, Form};
use crate::environment::variable;
use crate::stop::Stop;

/// What every client verb takes.
#[derive(Clone, clap::Args)]
pub struct Basics {
    /// Find the running server by this directory, else by `USHER_DATA_DIR`
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print in this form
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Form,
}

/// Which project is meant.
#[derive(Clone, clap::Args)]
pub struct InProject {
    /// Look in this project, else in `USHER_PROJECT`, else in each
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl InProject {
    /// The project that is meant, if one is.
    pub fn name(&self) -> Option<String> {
        self.project.clone().or_else(|| variable("USHER_PROJECT"))
    }
}

/// A server that was found, and a console.
pub struct Session {
    /// The server.
    pub client: Client,
    /// The console.
    pub console: Console,
}

/// Runs a client verb to its exit code.
pub fn run<F>(basics: &Basics, verb: impl FnOnce(Session) -> F) -> ExitCode
where
    F: Future<Output = Result<(), Stop>>,
{
    let session = match Session::open(basics, variable) {
        Ok(session) => session,
        Err(stop) => return stop.tell(),
    };
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match built {
        Ok(runtime) => runtime.block_on(verb(session)),
        Err(why) => Err(Stop::failed(format!("cannot start: {why}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.tell(),
    }
}

impl Session {
    /// Finds the server: by URL and token of the environment, else by a data directory.
    pub fn open(basics: &Basics, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Stop> {
        let folder = || {
            let named =
                basics.data_dir.clone().or_else(|| variable(data_dir::VARIABLE).map(PathBuf::from));
            let nowhere = || Stop::usage("cannot guess the data directory: say --data-dir");
            named.or_else(|| data_dir::standard(&variable)).ok_or_else(nowhere)
        };
        let url = match variable("USHER_URL") {
            Some(url) => url,
            None => endpoint(&folder()?)?,
        };
        let token = match variable("USHER_TOKEN") {
            Some(token) => token,
            None => admin_token(&folder()?)?,
        };
        let client = Client::new(&url, Secret::new(token.trim()))?;
        Ok(Self { client, console: Console { form: basics.output } })
    }

    /// The resource that a name or an id means. An id is exact; a name means its newest life, and
    /// one that lives before one that does not.
    pub async fn resource(&self, text: &str, project: Option<&str>) -> Result<Resource, Stop> {
        if is_id(text) {
            return Ok(self.client.read(&format!("/v1/resources/{text}")).await?);
        }
        let within = project.map(|it| format!("&project={}", encoded(it))).unwrap_or_default();
        let path = format!("/v1/resources?deleted=true&name={}{within}", encoded(text));
        let found: List<Resource> = self.client.read(&path).await?;
        chosen(text, found.items)
    }

    /// Everything of a listing, page by page.
    pub async fn all(&self, path: &str) -> Result<Vec<Value>, Stop> {
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

    /// Prints a whole listing.
    pub fn list(
        &self,
        items: &[Value],
        heads: &[&str],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), Stop> {
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        let value = json!({"items": items, "next_cursor": null});
        self.console.one(&value, || crate::console::table(heads, &rows))
    }
}

fn endpoint(folder: &Path) -> Result<String, Stop> {
    let read = data_dir::endpoint(folder).map_err(|_| {
        let shown = folder.display();
        Stop::unavailable(format!(
            "cannot find a server in \"{shown}\": start one with `usher up`, \
             or say --data-dir or USHER_URL"
        ))
    })?;
    Ok(read.url)
}

fn admin_token(folder: &Path) -> Result<String, Stop> {
    let path = folder.join(data_dir::ADMIN_TOKEN);
    std::fs::read_to_string(&path).map_err(|why| {
        let shown = path.display();
        Stop::usage(format!("cannot read the token in \"{shown}\": {why}; say USHER_TOKEN"))
    })
}

fn chosen(text: &str, found: Vec<Resource>) -> Result<Resource, Stop> {
    let (living, gone): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.phase != "Deleted");
    let mut meant = if living.is_empty() { gone } else { living };
    if meant.len() > 1 {
        let lines: Vec<String> =
            meant.iter().map(|it| format!("  {}  {}  {}", it.project, it.id, it.phase)).collect();
        let list = lines.join("\n");
        return Err(Stop::usage(format!(
            "cannot tell which \"{text}\" is meant: say --project or an id\n{list}"
        )));
    }
    meant.pop().ok_or_else(|| Stop::not_found(format!("cannot find resource \"{text}\"")))
}

/// Whether a text is an id as the server writes it.
pub fn is_id(text: &str) -> bool {
    text.parse::<Uuid>().is_ok_and(|id| id.to_string() == text)
}

/// A text of an answer, or nothing.
pub fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
