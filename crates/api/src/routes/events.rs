//! The log: by pages, or followed as it grows.

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
use crate::route::{AFTER, Asked, Kind, LIMIT, Right, Route, asked};
use crate::stream::{self, Source};
use crate::views::{Cursor, Subject, Told};

/// The header by which a reader says what it read last.
const LAST_EVENT_ID: &str = "last-event-id";
/// How many rows are read at once before following begins.
const BATCH: u32 = 500;

const ASKED: &[Asked] = &[
    AFTER,
    LIMIT,
    asked("project", Kind::Text, "Only of this project, by slug or id"),
    asked("resource", Kind::Text, "Only about this resource"),
    asked("from", Kind::Text, "Of a stream: beginning or end, which is what it begins with"),
];

pub(super) fn routes() -> Vec<Route> {
    let looks = Right::Project(Role::Viewer);
    vec![
        Route::new((Method::GET, "/v1/events"), looks, "Read or follow the log", events)
            .streams::<wire::Event>(ASKED),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
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
    let Wanted { after, limit, project, resource, from } = call.query()?;
    let paging = paging(after, limit)?;
    let reach = match call.confined(project.as_deref()).await? {
        Some(project) => Reach::Project(project),
        None => Reach::Installation,
    };
    let only = Only { reach, resource };
    let after = last_event(&call.headers)?.or(paging.after).map(Cursor);
    if streams(&call.headers) {
        return follow(&call, after, from, only).await;
    }
    let told = call.ports().events.page(after, paging.limit).await?;
    let full = u32::try_from(told.len()).is_ok_and(|it| it >= paging.limit);
    let next_cursor = told.last().filter(|_| full).map(|it| it.cursor.0.clone());
    let items: Vec<_> = told.iter().filter(|it| only.admits(it)).map(render::event).collect();
    ok(&wire::List { items, next_cursor })
}

/// Whose rows a reader gets.
struct Only {
    reach: Reach,
    resource: Option<String>,
}

impl Only {
    fn admits(&self, told: &Told) -> bool {
        match told.subject {
            Subject::Resource(id, project) => {
                let about = self.resource.as_ref().is_none_or(|it| *it == id.to_string());
                about && self.reach.covers(project)
            }
            // Whoever asks for one project, or one resource, does not ask for machines.
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

/// Follows the log. From its beginning, the end is taken first: what is told while the old rows are
/// read is then neither lost nor told twice.
async fn follow(
    call: &Call,
    after: Option<Cursor>,
    from: From,
    only: Only,
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
    old: Option<Vec<Told>>,
    only: Only,
}

impl Source for Following {
    async fn next(&mut self) -> Option<String> {
        loop {
            let told = match self.old.take() {
                Some(old) => old,
                // A reader that is cut off comes back with the last id it read.
                None => self.feed.next().await.ok()?,
            };
            let admitted = told.iter().filter(|it| self.only.admits(it));
            let written: String = admitted.map(written).collect();
            if !written.is_empty() {
                return Some(written);
            }
        }
    }
}

fn written(told: &Told) -> String {
    let event = render::event(told);
    stream::event(Some(&told.cursor.0), Some(&event.kind), &event)
}
