//! A store on one of the two databases, and the shapes that most of its verbs have.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use usher_kernel::Timestamp;

use super::group::GroupCommit;
use super::machines::rows as machines;
use super::resources::accept::Declared;
use super::resources::commit::Step;
use super::{Pool, events, idempotency, record};
use crate::error::Error;
use crate::port::Installation;
use crate::retention::{Retention, Swept};
use crate::settings::Settings;
use crate::signal::Signals;

/// Verbs that are one read each.
macro_rules! reads {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                let $conn = &mut *self.pool.read().await?;
                $call.await
            }
        )+}
    };
}

/// Verbs that are one transaction each and make nothing due.
macro_rules! writes {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                self.pool.write(move |$conn| Box::pin(async move { $call.await })).await
            }
        )+}
    };
}

/// Verbs that are one transaction each and may make an item of the queue due.
macro_rules! wakes {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                let written = self.pool.write(move |$conn| Box::pin(async move { $call.await }));
                self.notifying_due(written.await)
            }
        )+}
    };
}

/// As `wakes`, with a row of the audit log in the same transaction if the caller gave one.
macro_rules! audited {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(
                &self,
                $($arg: $kind,)*
                audit: Option<usher_domain::audit::Entry>,
            ) -> Result<$answer, Error> {
                let written = self.pool.write(move |$conn| {
                    Box::pin(async move {
                        let done = $call.await?;
                        Self::write_audit($conn, audit.as_ref()).await?;
                        Ok(done)
                    })
                });
                self.notifying_due(written.await)
            }
        )+}
    };
}

/// A store on one of the two databases.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) pool: Pool,
    pub(crate) settings: Settings,
    pub(crate) installation: Installation,
    pub(crate) signals: Arc<Signals>,
    /// Whether the last claim found anything due.
    pub(super) busy: AtomicBool,
    pub(super) accepts: Arc<GroupCommit<Declared>>,
    pub(super) commits: Arc<GroupCommit<Step>>,
}

reads! {
    fn now() -> Timestamp = |conn| record::now(conn);
}

impl Port {
    pub(crate) fn new(pool: Pool, settings: Settings, installation: Installation) -> Self {
        Self {
            accepts: GroupCommit::new(settings.group_max),
            commits: GroupCommit::new(settings.group_max),
            pool,
            settings,
            installation,
            signals: Arc::default(),
            busy: AtomicBool::new(false),
        }
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Wakes the readers of the log, unless it is certain that no event was written.
    pub(super) fn notify_log<T>(&self, written: &Result<T, Error>) {
        self.signals.log_written(written);
    }

    /// Wakes the worker, unless it is certain that nothing became due.
    pub(super) fn notify_due<T>(&self, written: &Result<T, Error>) {
        self.signals.due_written(written);
    }

    pub(super) fn notifying_due<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        self.notify_due(&written);
        written
    }

    /// Reads before it writes: while idle there is no write transaction.
    pub(crate) async fn sweep(&self, retention: Retention) -> Result<Swept, Error> {
        let Retention { events: kept, batch, .. } = retention;
        let (old, has_old_keys, has_old_machines) = {
            let conn = &mut *self.pool.read().await?;
            let now = record::now(conn).await?;
            let old = events::old(conn, now.before(kept), batch).await?;
            let has_old_machines = machines::has_forgotten(conn).await?;
            (old, idempotency::has_expired(conn).await?, has_old_machines)
        };
        let mut swept = Swept { held_by: old.held_by, ..Swept::default() };
        if old.rows > 0 {
            swept.events = self
                .pool
                .write(move |conn| {
                    Box::pin(async move {
                        let now = record::now(conn).await?;
                        events::forget(conn, now.before(kept), batch).await
                    })
                })
                .await?;
        }
        if has_old_keys {
            swept.keys = self.forget_keys(batch).await?;
        }
        if has_old_machines {
            let forget = self.pool.write(move |conn| Box::pin(machines::forget(conn, batch)));
            swept.machines = forget.await?;
        }
        self.retire_keys().await?;
        let most = swept.events.max(swept.keys).max(swept.machines);
        swept.more = most >= u64::from(batch);
        Ok(swept)
    }
}
