//! Keeps a `default` service account in every active namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{BATCH, FIRST_RETRY, LAST_RETRY};
use crate::auth::User;
use crate::core::{Core, NAMESPACES, text};
use crate::managed;
use crate::status::Refusal;
use crate::store::{Change, TooOld};
use crate::verbs::RequestContext;
use crate::verbs::create::{self, Creation};

const MANAGER: &str = "kube-controller-manager";
const ACCOUNTS: &str = "serviceaccounts";
const NAME: &str = "default";

/// Runs until shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ending = core.ending.subscribe();
    let (spaces, accounts): (Arc<str>, Arc<str>) = (Arc::from(NAMESPACES), Arc::from(ACCOUNTS));
    let (listing, mut of_spaces) = core.store.list_and_follow(&spaces, "");
    let (_, mut of_accounts) = core.store.list_and_follow(&accounts, "");
    let mut due: BTreeSet<String> = listing.objects.keys().map(ToString::to_string).collect();
    let mut patience = FIRST_RETRY;
    loop {
        let failed = ensure_all(&core, &mut due).await;
        if !failed {
            patience = FIRST_RETRY;
        }
        let changed: Result<Vec<Arc<Change>>, TooOld> = tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => return,
            changes = of_spaces.next(BATCH) => changes,
            changes = of_accounts.next(BATCH) => changes,
            () = tokio::time::sleep(patience), if failed => {
                patience = (patience * 2).min(LAST_RETRY);
                continue;
            }
        };
        if let Ok(batch) = changed {
            due.extend(batch.iter().filter_map(|change| concerned(change)));
            continue;
        }
        let (listing, cursor) = core.store.list_and_follow(&spaces, "");
        due.extend(listing.objects.keys().map(ToString::to_string));
        of_spaces = cursor;
        of_accounts = core.store.list_and_follow(&accounts, "").1;
    }
}

/// The namespace that may lack its account: a new one, or one whose account is gone.
fn concerned(change: &Change) -> Option<String> {
    match change.key.split_once('/') {
        None => {
            change.new.as_ref().filter(|_| change.old.is_none()).map(|_| change.key.to_string())
        }
        Some((namespace, NAME)) if change.new.is_none() => Some(namespace.to_owned()),
        Some(_) => None,
    }
}

/// Creates the missing accounts; keeps those that failed, and returns whether any did.
async fn ensure_all(core: &Arc<Core>, due: &mut BTreeSet<String>) -> bool {
    for namespace in std::mem::take(due) {
        if let Err(refusal) = ensure(core, &namespace).await {
            tracing::warn!(namespace, why = refusal.message, "failed to create a service account");
            due.insert(namespace);
        }
    }
    !due.is_empty()
}

async fn ensure(core: &Arc<Core>, namespace: &str) -> Result<(), Refusal> {
    let Some(resource) = core.resource("", "v1", ACCOUNTS) else { return Ok(()) };
    let is_active = core
        .namespace(namespace)
        .is_some_and(|entry| text(&entry.value(), "/status/phase") == "Active");
    let there = core.store.get(ACCOUNTS, &resource.key(namespace, NAME)).is_some();
    if !is_active || there {
        return Ok(());
    }
    let user = User::service_account("kube-system", "service-account-controller");
    let mut ctx = RequestContext::new(core, &resource, (namespace, NAME), &user).by(MANAGER);
    let mut account = json!({
        "kind": "ServiceAccount",
        "apiVersion": "v1",
        "metadata": {"name": NAME, "namespace": namespace},
    });
    managed::on_create(&ctx, &mut account);
    match create::create(&mut ctx, account, Creation::Post).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.reason == "AlreadyExists" => Ok(()),
        Err(refusal) => {
            let active = core.namespace(namespace).is_some_and(|entry| !entry.is_deleting());
            if active { Err(refusal) } else { Ok(()) }
        }
    }
}
