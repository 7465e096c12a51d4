//! Lists: current, at a revision, or paged.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::select::Selection;
use crate::core::Core;
use crate::faults::Fault;
use crate::http::negotiate::Form;
use crate::http::route::Place;
use crate::http::{Answer, Call, Query};
use crate::kinds::Resource;
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;
use crate::store::{Entry, Listing};
use crate::view::{self, Page};

/// How long a list waits for a future revision.
const WAIT: std::time::Duration = std::time::Duration::from_secs(3);

/// Like Go, ignores trailing bits of continue tokens.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// Serves a list.
pub(super) async fn list(
    core: &Core,
    call: &Call,
    place: &Place,
    resource: &Arc<Resource>,
    form: &Form,
) -> Result<Answer, Refusal> {
    let query = &call.query;
    let limit = query.number("limit")?.unwrap_or_default();
    query.number("timeoutSeconds")?;
    check(query, false)?;
    let selection = Selection::read(query, resource)?;
    let (listing, start) = read(core, call, resource, &place.namespace).await?;
    let after = listing.objects.into_iter().filter(|(key, _)| match &start {
        Some(start) => key.as_ref() >= start.as_str(),
        None => true,
    });
    let mut after = after.peekable();
    let unpaged = query.get("resourceVersion") == Some("0") && start.is_none();
    let most = usize::try_from(limit).ok().filter(|most| *most > 0 && !unpaged);
    let mut items: Vec<Arc<Entry>> = Vec::new();
    let mut last: Option<Arc<str>> = None;
    while most.is_none_or(|most| items.len() < most) {
        let Some((key, entry)) = after.next() else { break };
        if selection.matches(&entry) {
            items.push(entry);
        }
        last = Some(key);
    }
    let mut page = Page { revision: listing.revision, next: None, remaining: None };
    // As Kubernetes, a page ends without asking whether any of the rest matches.
    if after.peek().is_some() {
        let key = last.as_deref().unwrap_or_default();
        page.next = Some(token(listing.revision, resource, &place.namespace, key));
        let rest = after.count();
        page.remaining = selection.is_empty().then_some(rest);
    }
    view::many(resource, &items, &page, (form, query))
}

/// The objects of a query, and the start of the page.
async fn read(
    core: &Core,
    call: &Call,
    resource: &Resource,
    namespace: &str,
) -> Result<(Listing, Option<String>), Refusal> {
    let query = &call.query;
    let prefix = resource.prefix(namespace);
    let table = &resource.table;
    if let Some(given) = query.get("continue") {
        let (revision, start) = parse_token(given)?;
        if query.get("resourceVersion").is_some_and(|version| version != "0") {
            return Err(Refusal::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let start = format!("{prefix}{start}");
        let Some(revision) = revision else {
            return Ok((core.store.list(table, &prefix), Some(start)));
        };
        let listing = core.store.list_at(table, &prefix, revision);
        let listing = listing.map_err(|_| expired_page(&start, &prefix))?;
        return Ok((listing, Some(start)));
    }
    let given = query.get("resourceVersion");
    let version = given.map(parse_version).transpose().map_err(|why| {
        let given = given.unwrap_or_default();
        Refusal::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{given}\": {why}"
        ))
    })?;
    let version = version.unwrap_or_default();
    reached(core, version).await?;
    let exact = match query.get("resourceVersionMatch") {
        Some("Exact") => true,
        // As Kubernetes, the first page of a list at a revision.
        None | Some("") => version > 0 && query.number("limit")?.is_some_and(|limit| limit > 0),
        Some(_) => false,
    };
    if exact {
        let listing = core.store.list_at(table, &prefix, version).map_err(|_| {
            Refusal::expired("The resourceVersion for the provided list is too old.")
        })?;
        return Ok((listing, None));
    }
    if let Fault::ReadBehind(revisions) = call.fault {
        return Ok((core.store.list_behind(table, &prefix, revisions), None));
    }
    Ok((core.store.list(table, &prefix), None))
}

/// Waits for a future revision.
pub(super) async fn reached(core: &Core, version: u64) -> Result<(), Refusal> {
    if version <= core.store.head() {
        return Ok(());
    }
    let waited = tokio::time::timeout(WAIT, core.store.published(version)).await;
    if waited.unwrap_or_default() {
        return Ok(());
    }
    Err(ahead(version, core.store.head()))
}

/// The error of a future revision.
pub(super) fn ahead(version: u64, head: u64) -> Refusal {
    let message = format!("Too large resource version: {version}, current: {head}");
    let mut refusal = Refusal::new(504, "Timeout", message).about(json!({
        "causes": [{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }],
    }));
    refusal.retry_after = Some(1);
    refusal
}

/// Parses a revision; the error is Go's.
pub(super) fn parse_version(given: &str) -> Result<u64, String> {
    given.parse().map_err(|_| format!("strconv.ParseUint: parsing \"{given}\": invalid syntax"))
}

/// Refuses invalid combinations of options.
pub(super) fn check(query: &Query, watch: bool) -> Result<(), Refusal> {
    let matching = query.get("resourceVersionMatch");
    let version = query.get("resourceVersion");
    let initial = query.get("sendInitialEvents");
    let path = Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    let forbidden = |why: &str| FieldError::forbidden(&path, why);
    if watch {
        check_watch(query, (matching, initial), &mut errors);
    } else {
        if initial.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        if let Some(matching) = matching {
            if version.is_none() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(forbidden(why));
            }
            if query.get("continue").is_some() {
                errors
                    .push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let supported = ["Exact", "NotOlderThan", ""].map(str::to_owned);
                errors.push(FieldError::not_supported(&path, &json!(matching), &supported));
            }
            if matching == "Exact" && version == Some("0") {
                errors.push(forbidden(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid_kind("meta.k8s.io", "ListOptions", "", &errors))
}

fn check_watch(
    query: &Query,
    (matching, initial): (Option<&str>, Option<&str>),
    errors: &mut Vec<FieldError>,
) {
    let path = Path::new("resourceVersionMatch");
    let forbidden = |why: &str| FieldError::forbidden(&path, why);
    if query.get("continue").is_some() {
        errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
    }
    if initial.is_some() && matching != Some("NotOlderThan") {
        errors.push(forbidden(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    let Some(matching) = matching else { return };
    if initial.is_none() {
        errors.push(forbidden(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if matching != "NotOlderThan" {
        let supported = ["NotOlderThan".to_owned()];
        errors.push(FieldError::not_supported(&path, &json!(matching), &supported));
    }
}

/// The continue token after a key.
fn token(revision: u64, resource: &Resource, namespace: &str, key: &str) -> String {
    let rest = key.strip_prefix(&resource.prefix(namespace)).unwrap_or(key);
    let start = format!("/{rest}\0");
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

/// The revision and start of a page; without a revision the current one.
fn parse_token(given: &str) -> Result<(Option<u64>, String), Refusal> {
    let invalid = |why: &str| {
        Refusal::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = LENIENT.decode(given).map_err(|error| invalid(&error.to_string()))?;
    let token: Value = serde_json::from_slice(&bytes)
        .map_err(|error| invalid(&super::json::sentence(&bytes, &error)))?;
    if token["v"].as_str() != Some("meta.k8s.io/v1") {
        let version = token["v"].as_str().unwrap_or_default();
        return Err(Refusal::bad_request(format!(
            "continue key is not valid: server does not recognize this encoded version \
             \"{version}\""
        )));
    }
    let start = token["start"].as_str().unwrap_or_default();
    let revision = token["rv"].as_i64().unwrap_or_default();
    let revision = u64::try_from(revision).ok().filter(|revision| *revision > 0);
    Ok((revision, start.trim_start_matches('/').to_owned()))
}

/// The error of a compacted page; its token continues at the current revision.
fn expired_page(start: &str, prefix: &str) -> Refusal {
    let rest = start.strip_prefix(prefix).unwrap_or(start);
    let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": format!("/{rest}")});
    let message = "The provided continue parameter is too old to display a consistent list \
                   result. You can start a new list without the continue parameter, or use the \
                   continue token in this response to retrieve the remainder of the results. \
                   Continuing with the provided token results in an inconsistent list - objects \
                   that were created, modified, or deleted between the time the first chunk was \
                   returned and now may show up in the list.";
    let mut refusal = Refusal::expired(message);
    let mut status = refusal.to_status();
    status["metadata"] = json!({"continue": URL_SAFE_NO_PAD.encode(token.to_string())});
    refusal.status = Some(Box::new(status));
    refusal
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Requirement: AS-15
        #[test]
        fn no_continue_token_makes_parsing_panic(
            text in ".{0,20}",
            revision in any::<i64>(),
            start in ".{0,8}",
        ) {
            let _ = parse_token(&text);
            let path = format!("/{start}");
            let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": path});
            let read = parse_token(&URL_SAFE_NO_PAD.encode(token.to_string()));
            let wanted = u64::try_from(revision).ok().filter(|revision| *revision > 0);
            prop_assert_eq!(read.ok(), Some((wanted, start.trim_start_matches('/').to_owned())));
        }
    }
}
