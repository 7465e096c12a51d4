//! The event log, in pages or as a stream.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, header};
use serde::Deserialize;
use usher_domain::object::offender::shortened;
use usher_domain::operators::{Reach, Role};
use usher_wire::http::EVENTS_TYPE;
use usher_wire::operator as wire;

use crate::call::{Call, ok, paging};
use crate::ports::{Answer, Feed};
use crate::refusal::Refusal;
use crate::render;
use crate::route::{AFTER, Kind, LIMIT, QueryParam, Right, Route, param};
use crate::stream::{self, Source};
use crate::views::{Cursor, LogEntry, Subject};

const LAST_EVENT_ID: &str = "last-event-id";
/// Entries that are read at once before following begins.
const BATCH: u32 = 500;

const QUERY: &[QueryParam] = &[
    AFTER,
    LIMIT,
    param("project", Kind::Text, "Only of this project, by slug or id"),
    param("resource", Kind::Text, "Only of this resource, by id"),
    param("from", Kind::Text, "Where a stream starts: beginning, or end (default)"),
];

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    vec![
        Route::new((Method::GET, "/v1/events"), viewer, "List or stream events", events)
            .streams::<wire::Event>(QUERY),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    after: Option<String>,
    limit: Option<u32>,
    project: Option<String>,
    resource: Option<String>,
    #[serde(default)]
    from: From,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum From {
    Beginning,
    #[default]
    End,
}

async fn events(call: Call) -> Answer<Response<Body>> {
    let Params { after, limit, project, resource, from } = call.query()?;
    let paging = paging(after, limit)?;
    let reach = match call.project_filter(project.as_deref()).await? {
        Some(project) => Reach::Project(project),
        None => Reach::Installation,
    };
    let only = Filter { reach, resource };
    let after = last_event(&call.headers)?.or(paging.after).map(Cursor);
    if streams(&call.headers) {
        return follow(&call, after, from, only).await;
    }
    let entries = call.ports().events.page(after, paging.limit).await?;
    let full = u32::try_from(entries.len()).is_ok_and(|it| it >= paging.limit);
    let next_cursor = entries.last().filter(|_| full).map(|it| it.cursor.0.clone());
    let items: Vec<_> = entries.iter().filter(|it| only.matches(it)).map(render::event).collect();
    ok(&wire::List { items, next_cursor })
}

/// Which entries a reader gets.
struct Filter {
    reach: Reach,
    resource: Option<String>,
}

impl Filter {
    fn matches(&self, entry: &LogEntry) -> bool {
        match entry.subject {
            Subject::Resource(id, project) => {
                let about = self.resource.as_ref().is_none_or(|it| *it == id.to_string());
                about && self.reach.covers(project)
            }
            // Machines belong to no project and to no resource.
            Subject::Machine(_) => self.resource.is_none() && self.reach == Reach::Installation,
        }
    }
}

fn streams(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    accepted.flat_map(|it| it.split(',')).any(|it| {
        it.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(EVENTS_TYPE))
    })
}

fn last_event(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        let text = shortened(&String::from_utf8_lossy(value.as_bytes()));
        Refusal::CursorInvalid { text }
    })?;
    Ok(Some(text.to_owned()).filter(|it| !it.is_empty()))
}

/// Follows the log. From its beginning, the end is taken first: entries written while the old ones
/// are read are then neither lost nor sent twice.
async fn follow(
    call: &Call,
    after: Option<Cursor>,
    from: From,
    only: Filter,
) -> Answer<Response<Body>> {
    let events = &call.ports().events;
    let feed = events.follow(after.clone()).await?;
    let old = match (from, &after) {
        (From::Beginning, None) => events.page(None, BATCH).await?,
        (From::Beginning | From::End, _) => vec![],
    };
    let feed = match old.last() {
        Some(last) => events.follow(Some(last.cursor.clone())).await?,
        None => feed,
    };
    Ok(stream::answer(Following { feed, old: Some(old).filter(|it| !it.is_empty()), only }))
}

struct Following {
    feed: Box<dyn Feed>,
    old: Option<Vec<LogEntry>>,
    only: Filter,
}

impl Source for Following {
    async fn next(&mut self) -> Option<String> {
        loop {
            let entries = match self.old.take() {
                Some(old) => old,
                // A disconnected reader resumes with its last event id.
                None => self.feed.next().await.ok()?,
            };
            let matching = entries.iter().filter(|it| self.only.matches(it));
            let text: String = matching.map(rendered).collect();
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}

fn rendered(entry: &LogEntry) -> String {
    let event = render::event(entry);
    stream::event(Some(&entry.cursor.0), Some(&event.kind), &event)
}
