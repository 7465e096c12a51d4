//! One watch, kept open for as long as an item is interested.

use std::sync::Arc;
use std::time::Duration;

use kube_client::core::params::{ListParams, WatchParams};
use kube_client::core::{ObjectList, PartialObjectMeta};
use tokio::sync::Notify;
use tokio::time::Instant;
use usher_kernel::schedule::back_off;

use super::stream::{Change, Shown, Stream};
use super::{Feeds, Hearing, Settings, Subject};
use crate::answer::{Failure, Row};
use crate::kinds::Kind;
use crate::pin;
use crate::read::{Cluster, is_segment};

/// After so many attempts an interruption lasts: its items are woken, to be polled.
const LASTING: u32 = 3;

/// What a watch needs.
pub(super) struct Feed {
    pub(super) cluster: Arc<Cluster>,
    pub(super) feeds: Arc<Feeds>,
    pub(super) settings: Settings,
    pub(super) subject: Arc<Subject>,
    /// Told when a kind that was not served is.
    pub(super) served: Arc<Notify>,
}

/// Where a watch goes on.
#[derive(Clone, Copy)]
struct Resume {
    revision: u64,
    /// Whether the cluster may be behind this revision.
    is_doubtful: bool,
}

/// How a watch ended.
enum End {
    /// It goes on from a revision.
    Resume(Resume),
    /// Changes may be missed, but the next request may follow at once.
    Relist,
    /// The cluster did not answer, or not well; how long it asks to wait.
    Broken {
        after: Option<Duration>,
    },
    /// There is no right to watch it.
    Deaf,
    NotServed,
}

impl Feed {
    pub(super) async fn run(self) {
        let mut from = None;
        let mut attempts = 0;
        loop {
            let opened = Instant::now();
            let (end, is_alive) = self.follow(from.take()).await;
            // A watch that ends as soon as it is opened must not be opened in a loop.
            let term = self.cluster.client.bounds().watch / 2;
            attempts = if is_alive || opened.elapsed() >= term { 0 } else { attempts + 1 };
            match end {
                End::Resume(resume) => {
                    from = Some(resume);
                    self.pause(attempts, None).await;
                }
                End::Relist => self.pause(attempts.saturating_sub(1), None).await,
                End::Broken { after } => {
                    attempts = attempts.max(1);
                    self.hear(Hearing::Interrupted);
                    if attempts == LASTING {
                        self.feeds.wake_all(&self.subject);
                    }
                    self.pause(attempts, after).await;
                }
                End::Deaf => {
                    attempts = 0;
                    self.wake_if_new(Hearing::Deaf);
                    tokio::time::sleep(self.settings.deaf).await;
                }
                End::NotServed => {
                    self.wake_if_new(Hearing::NotServed);
                    // It may be served since discovery was read, and is not told again then.
                    match self.cluster.kinds.of(&self.subject.resource) {
                        None => self.served.notified().await,
                        Some(_) => self.pause(attempts, None).await,
                    }
                }
            }
        }
    }

    /// Opens a watch and follows it to its end; also whether it showed anything.
    async fn follow(&self, from: Option<Resume>) -> (End, bool) {
        let kind = match self.kind().await {
            Ok(kind) => kind,
            Err(end) => return (end, false),
        };
        let (mut stream, is_resumed) = match self.open(&kind, from).await {
            Ok(opened) => opened,
            Err(failure) => return (self.judge(&failure).await, false),
        };
        self.hear(Hearing::Live);
        if !is_resumed {
            // What happened before the watch began was perhaps missed.
            self.feeds.wake_all(&self.subject);
        }
        let end = loop {
            match stream.next().await {
                Shown::Change(change) | Shown::Deleted(change) => {
                    self.feeds.wake(&self.subject, &change);
                }
                Shown::Bookmark => {}
                Shown::End => {
                    let (revision, is_doubtful) = (stream.revision, stream.is_early());
                    break End::Resume(Resume { revision, is_doubtful });
                }
                Shown::Expired => break End::Relist,
                Shown::Broken(failure) => {
                    tracing::debug!(subject = %self.subject, ?failure, "watch broken");
                    break End::Broken { after: None };
                }
            }
        };
        (end, stream.is_alive)
    }

    async fn kind(&self) -> Result<Arc<Kind>, End> {
        let kinds = &self.cluster.kinds;
        if let Some(kind) = kinds.of(&self.subject.resource) {
            return Ok(kind);
        }
        if let Err(failure) = kinds.refresh().await {
            return Err(broken(&failure));
        }
        kinds.of(&self.subject.resource).ok_or(End::NotServed)
    }

    /// Opens a watch where it goes on, or from now; whether it goes on.
    async fn open(
        &self,
        kind: &Kind,
        from: Option<Resume>,
    ) -> Result<(Stream<Change>, bool), Failure> {
        let (client, only) = (&self.cluster.client, self.subject.only.as_ref());
        if only.is_some_and(|(namespace, name)| !is_segment(namespace) || !is_segment(name)) {
            return Err(Failure::NoAnswer("no object can have this name".to_owned()));
        }
        let request = kind.request(only.map_or("", |(namespace, _)| namespace));
        let fields = only.map(|(_, name)| format!("metadata.name={name}"));
        let mut resumed = from.filter(|it| !it.is_doubtful).map(|it| it.revision);
        let revision = if let Some(revision) = resumed {
            revision
        } else {
            let params =
                ListParams { field_selector: fields.clone(), limit: Some(1), ..Default::default() };
            let list: ObjectList<PartialObjectMeta> =
                client.object(request.list_metadata(&params)).await?;
            let revision = list.metadata.resource_version.as_deref().and_then(pin::revision);
            let revision = revision
                .ok_or_else(|| Failure::NoAnswer("a list without a revision".to_owned()))?;
            resumed = from.map(|it| it.revision).filter(|it| *it <= revision);
            resumed.unwrap_or(revision)
        };
        let watch = client.bounds().watch;
        // Watches that were opened together must not be renewed together.
        let watch = watch.mul_f64(1.0 - 0.1 * self.settings.share());
        let seconds = u32::try_from(watch.as_secs().max(1)).unwrap_or(u32::MAX);
        let params = WatchParams {
            field_selector: fields,
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let body = client.watch(request.watch_metadata(&params, &revision.to_string())).await?;
        let stream = Stream::new(body, revision, (watch, client.bounds().request));
        Ok((stream, resumed.is_some()))
    }

    /// What a refused list or watch says.
    async fn judge(&self, failure: &Failure) -> End {
        match failure.row() {
            Row::NoRight => End::Deaf,
            // If its kind is gone, the next attempt learns it from what was just read.
            Row::PathAbsent => match self.cluster.kinds.refresh().await {
                Ok(()) => End::Broken { after: None },
                Err(failure) => broken(&failure),
            },
            Row::Unavailable { .. } if is_expired(failure) => End::Relist,
            Row::ObjectAbsent
            | Row::NamespaceTerminating
            | Row::DeniedByUs
            | Row::DeniedByAnother { .. }
            | Row::Exists
            | Row::Conflict
            | Row::Precondition
            | Row::Invalid
            | Row::Unavailable { .. } => broken(failure),
        }
    }

    async fn pause(&self, attempts: u32, after: Option<Duration>) {
        let settings = &self.settings;
        let pause = match attempts {
            0 => Duration::ZERO,
            attempts => back_off(&settings.pace, attempts, (settings.jitter)()),
        };
        let pause = pause.max(after.unwrap_or_default().min(settings.pace.max));
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    fn hear(&self, hearing: Hearing) -> bool {
        self.feeds.hear(&self.subject, hearing)
    }

    /// Items rest on a watch that ends for long: they are woken once to learn it.
    fn wake_if_new(&self, hearing: Hearing) {
        if self.hear(hearing) {
            tracing::warn!(subject = %self.subject, ?hearing, "watch ended");
            self.feeds.wake_all(&self.subject);
        }
    }
}

fn broken(failure: &Failure) -> End {
    match failure.row() {
        Row::NoRight => End::Deaf,
        Row::Unavailable { after } => End::Broken { after },
        Row::ObjectAbsent
        | Row::PathAbsent
        | Row::NamespaceTerminating
        | Row::DeniedByUs
        | Row::DeniedByAnother { .. }
        | Row::Exists
        | Row::Conflict
        | Row::Precondition
        | Row::Invalid => End::Broken { after: None },
    }
}

fn is_expired(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(refusal) if refusal.code == 410)
}
