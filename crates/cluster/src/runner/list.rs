//! Follows the sources of a runner: lists them when changes may have been missed.

use std::sync::Arc;

use kube_client::core::params::ListParams;
use kube_client::core::{ObjectList, PartialObjectMeta, Request};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use usher_kernel::schedule::back_off;

use super::queue::Queue;
use super::{Config, Count, Item, Source, Tally};
use crate::answer::{Failure, Row};
use crate::read::Cluster;
use crate::watches::{Hearing, Interest, Object, Selection, Watches};

/// One source that is followed for one term; it ends when it is dropped.
pub(super) struct Following(JoinHandle<()>);

/// What following needs.
struct Follower<I: Item> {
    item: Arc<I>,
    cluster: Arc<Cluster>,
    queue: Arc<Queue<I::Key>>,
    source: Source,
    config: Config,
    tally: Arc<Tally>,
}

impl Following {
    pub(super) fn start<I: Item>(
        (item, queue): (&Arc<I>, &Arc<Queue<I::Key>>),
        watches: &Watches,
        source: Source,
        (config, tally): (&Config, &Arc<Tally>),
    ) -> Self {
        let missed = Arc::new(Notify::new());
        let interest = {
            let (item, queue) = (Arc::clone(item), Arc::clone(queue));
            let (missed, resource) = (Arc::clone(&missed), source.resource.clone());
            let each = move |object: Option<Object<'_>>| match object {
                None => missed.notify_one(),
                Some(object) => {
                    if let Some(key) = item.key(&resource, object) {
                        queue.add(key);
                    }
                }
            };
            watches.follow(&source.resource, source.selection.clone(), Arc::new(each))
        };
        let follower = Follower {
            item: Arc::clone(item),
            cluster: Arc::clone(watches.cluster()),
            queue: Arc::clone(queue),
            source,
            config: config.clone(),
            tally: Arc::clone(tally),
        };
        Self(tokio::spawn(async move {
            // Sources that are too broad were refused when the runner was made.
            if let Ok(interest) = interest {
                follower.run(&interest, &missed).await;
            }
        }))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<I: Item> Follower<I> {
    async fn run(&self, interest: &Interest, missed: &Notify) {
        // A watch that was there before does not say that it begins, or that it is refused.
        let hearing = interest.hearing();
        if hearing == Hearing::Live || hearing.needs_poll() {
            missed.notify_one();
        }
        loop {
            if interest.hearing().needs_poll() {
                let _ = tokio::time::timeout(self.config.deaf, missed.notified()).await;
            } else {
                missed.notified().await;
            }
            let mut failures = 0;
            while let Err(failure) = self.list().await {
                failures += 1;
                self.tally.count(Count::ListsFailed);
                let resource = &self.source.resource;
                let trouble = failure.trouble();
                tracing::warn!(%resource, %trouble, "failed to list the objects of a runner");
                let after =
                    if let Row::Unavailable { after } = failure.row() { after } else { None };
                let pace = &self.config.pace;
                let pause = back_off(pace, failures, (self.config.jitter)());
                let pause = pause.max(after.unwrap_or_default().min(pace.max));
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Makes each item of the source due, and each item that is known: what is not listed may be
    /// gone.
    async fn list(&self) -> Result<(), Failure> {
        self.tally.count(Count::Lists);
        let Source { resource, selection } = &self.source;
        let kinds = &self.cluster.kinds;
        if kinds.of(resource).is_none() {
            kinds.refresh().await?;
        }
        let keys = match kinds.of(resource) {
            // Its definition wakes the watch.
            None => Vec::new(),
            Some(kind) => {
                let (namespace, params) = params(selection, self.config.page);
                self.keys(&kind.request(namespace), params).await?
            }
        };
        self.queue.wake_all();
        for key in keys {
            self.queue.add(key);
        }
        Ok(())
    }

    /// The items of all pages of a list.
    async fn keys(
        &self,
        request: &Request,
        mut params: ListParams,
    ) -> Result<Vec<I::Key>, Failure> {
        let mut keys = Vec::new();
        loop {
            let page: ObjectList<PartialObjectMeta> =
                self.cluster.client.object(request.list_metadata(&params)).await?;
            keys.extend(page.items.iter().filter_map(|it| {
                let meta = &it.metadata;
                let object = Object {
                    namespace: meta.namespace.as_deref().unwrap_or_default(),
                    name: meta.name.as_deref().unwrap_or_default(),
                    uid: meta.uid.as_deref().unwrap_or_default(),
                };
                self.item.key(&self.source.resource, object)
            }));
            let next = page.metadata.continue_.filter(|it| !it.is_empty());
            let Some(next) = next else { return Ok(keys) };
            params.continue_token = Some(next);
        }
    }
}

fn params(selection: &Selection, page: u32) -> (&str, ListParams) {
    let params = ListParams { limit: Some(page), ..ListParams::default() };
    match selection {
        Selection::Any => ("", params),
        Selection::Labelled { namespace, labels } => {
            (namespace.as_deref().unwrap_or_default(), params.labels(&labels.to_string()))
        }
        Selection::Object { namespace, name } => {
            (namespace, params.fields(&format!("metadata.name={name}")))
        }
    }
}
