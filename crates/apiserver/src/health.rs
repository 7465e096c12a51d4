//! `/healthz`, `/livez` and `/readyz`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::core::Core;
use crate::http::{Answer, Query};
use crate::status::Refusal;

/// A check: its name, and whether it passes.
type Check = (&'static str, bool);

/// The answer of an endpoint, or of one of its checks.
pub(crate) fn answer(
    core: &Core,
    (endpoint, check): (&str, &str),
    query: &Query,
) -> Result<Answer, Refusal> {
    let checks = checks(core);
    if check.is_empty() {
        return Ok(all(endpoint, &checks, query));
    }
    let found = checks.iter().find(|(name, _)| *name == check);
    match found.ok_or_else(Refusal::no_such_page)? {
        (_, true) => Ok(Answer::text(200, "ok")),
        (name, false) => {
            Ok(Answer::text(500, format!("internal server error: {name} has failed\n")))
        }
    }
}

fn checks(core: &Core) -> [Check; 3] {
    [
        ("ping", true),
        ("storage", !core.store.has_failed()),
        ("bootstrap", core.ready.load(Ordering::Acquire)),
    ]
}

/// One line if all checks pass; one per check on failure, or if the query asks for them.
fn all(endpoint: &str, checks: &[Check], query: &Query) -> Answer {
    let excluded = query.all("exclude");
    let mut lines = String::new();
    let mut failed = false;
    for (name, passes) in checks {
        let _ = match (excluded.contains(name), passes) {
            (true, _) => writeln!(lines, "[+]{name} excluded: ok"),
            (false, true) => writeln!(lines, "[+]{name} ok"),
            (false, false) => writeln!(lines, "[-]{name} failed: reason withheld"),
        };
        failed |= !passes && !excluded.contains(name);
    }
    let unknown = excluded.iter().filter(|name| checks.iter().all(|(known, _)| known != *name));
    let unknown: Vec<String> = unknown.map(|name| format!("\"{name}\"")).collect();
    if !unknown.is_empty() {
        let list = unknown.join(",");
        let why = "some health checks cannot be excluded: no matches for";
        let _ = writeln!(lines, "warn: {why} {list}");
    }
    if failed {
        return Answer::text(500, format!("{lines}{endpoint} check failed\n"));
    }
    if query.has("verbose") {
        return Answer::text(200, format!("{lines}{endpoint} check passed\n"));
    }
    Answer::text(200, "ok")
}
