//! Plays the requests of a seed against both servers, up to the first difference.

use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::{Difference, difference};
use crate::generate::Theme;
use crate::request::Request;
use crate::side::{Answer, Side, UNSEEN};
use crate::symbols::Symbols;
use crate::world::Kind;
use kube_client::Client;

/// Both servers.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) real: Client,
    pub(crate) embedded: Client,
    /// How long a collector or a watch may take.
    pub(crate) patience: Duration,
}

/// What a play found.
pub(crate) struct Played {
    /// How many requests were sent to each.
    pub(crate) sent: usize,
    /// The first difference and how many requests it needed.
    pub(crate) found: Option<(usize, Difference)>,
}

/// Plays the requests in a namespace, which is empty before and afterwards.
pub(crate) async fn play(
    pair: &Pair,
    namespace: &str,
    theme: &Theme,
    requests: &[Request],
) -> Played {
    let side = |client: &Client| Side {
        client: client.clone(),
        symbols: Symbols::new(namespace),
        patience: pair.patience,
    };
    let (mut real, mut embedded) = (side(&pair.real), side(&pair.embedded));
    let kinds = kinds(theme, requests);
    let mut starts = Vec::new();
    for kind in &kinds {
        starts.push(tokio::join!(real.revision(*kind), embedded.revision(*kind)));
    }
    let collects = requests.iter().any(Request::concerns_collector);
    let mut sent = 0;
    let mut found = None;
    for request in requests {
        sent += 1;
        let (expected, actual) = tokio::join!(real.ask(request), embedded.ask(request));
        found = difference(request, &expected, &actual);
        if found.is_none() && collects && request.writes() {
            found = settled(tokio::join!(real.settles(&kinds), embedded.settles(&kinds)));
        }
        if found.is_some() {
            break;
        }
    }
    if found.is_none() {
        found = end((&mut real, &mut embedded), &kinds, &starts).await;
    }
    tokio::join!(real.clean(&kinds), embedded.clean(&kinds));
    Played { sent, found: found.map(|found| (sent, found)) }
}

/// The kinds of a theme and of requests for others.
fn kinds(theme: &Theme, requests: &[Request]) -> Vec<Kind> {
    let used = |kind: &&Kind| {
        theme.kinds.contains(kind) || requests.iter().any(|it| it.plural == kind.plural)
    };
    crate::world::KINDS.iter().filter(used).copied().collect()
}

fn settled((real, embedded): (bool, bool)) -> Option<Difference> {
    if real == embedded {
        return None;
    }
    let lines = vec![format!("  settled: the real server {real}, the embedded one {embedded}")];
    Some(Difference { kind: "the collector does not settle".to_owned(), lines })
}

/// Compares all objects and all events.
async fn end(
    (real, embedded): (&mut Side, &mut Side),
    kinds: &[Kind],
    starts: &[(String, String)],
) -> Option<Difference> {
    let (expected, actual) = tokio::join!(real.all(kinds), embedded.all(kinds));
    let look = Request::new("GET", "objects", "objects at the end".to_owned());
    if let Some(found) = difference(&look, &answer(&expected), &answer(&actual)) {
        return Some(found);
    }
    for (kind, start) in kinds.iter().zip(starts) {
        let (expected, actual) =
            tokio::join!(real.events(*kind, &start.0), embedded.events(*kind, &start.1));
        let is_unseen = expected == actual && expected.to_string().contains(UNSEEN);
        assert!(!is_unseen, "no server showed the mark of {}", kind.plural);
        let watch = Request::new("WATCH", kind.plural, "events of the seed".to_owned());
        let found = difference(&watch, &answer(&expected), &answer(&actual));
        if found.is_some() {
            return found;
        }
    }
    None
}

fn answer(body: &Value) -> Answer {
    Answer { status: 200, media: String::new(), warnings: Vec::new(), body: json!({"all": body}) }
}

/// The fewest requests that still show a difference of the same kind.
pub(crate) async fn least(
    pair: &Pair,
    namespace: &str,
    theme: &Theme,
    (mut requests, mut found): (Vec<Request>, Difference),
) -> (Vec<Request>, Difference) {
    let mut size = requests.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < requests.len() {
            let mut fewer = requests.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            let played = play(pair, namespace, theme, &fewer).await;
            match played.found {
                Some((count, other)) if other.kind == found.kind => {
                    fewer.truncate(count);
                    (requests, found) = (fewer, other);
                }
                _ => at += size,
            }
        }
        size /= 2;
    }
    (requests, found)
}
