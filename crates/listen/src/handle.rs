//! What one connection shares with the listener: its activity, and its entry among all.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::counts::CloseReason;
use crate::deadline::{Activity, Deadlines};
use crate::limits::{Admission, Connections, Id};

/// The open connections of a listener.
pub(crate) type Open = Mutex<Connections<Arc<Eviction>>>;

/// Tells a connection to give way.
#[derive(Debug, Default)]
pub(crate) struct Eviction(Notify);

impl Eviction {
    pub(crate) fn tell(&self) {
        self.0.notify_one();
    }
}

/// One connection; its entry is removed with it.
#[derive(Debug)]
pub(crate) struct Handle {
    open: Arc<Open>,
    id: Id,
    deadlines: Deadlines,
    activity: Mutex<Activity>,
    changed: Notify,
    eviction: Arc<Eviction>,
}

impl Handle {
    /// Enters a new connection, for which an older one may have to give way; `None` without room.
    pub(crate) fn admit(open: &Arc<Open>, peer: IpAddr, deadlines: Deadlines) -> Option<Arc<Self>> {
        let eviction = Arc::<Eviction>::default();
        let id = match lock(open).admit(peer, Arc::clone(&eviction)) {
            Admission::Admitted(id) => id,
            Admission::Instead(id, older) => {
                older.tell();
                id
            }
            Admission::Refused => return None,
        };
        Some(Arc::new(Self {
            open: Arc::clone(open),
            id,
            deadlines,
            activity: Mutex::new(Activity::accepted(Instant::now())),
            changed: Notify::new(),
            eviction,
        }))
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Activity) -> T) -> T {
        read(&lock(&self.activity))
    }

    /// Changes the activity, and the entry with it; the deadline is read again.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Activity, Instant)) {
        self.update(change);
        self.changed.notify_one();
    }

    /// The same, for a change that brings no deadline forward.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Activity, Instant)) {
        let mut activity = lock(&self.activity);
        let before = (activity.waits(), activity.is_idle(), activity.is_authenticated());
        change(&mut activity, Instant::now());
        let after = (activity.waits(), activity.is_idle(), activity.is_authenticated());
        if before == after {
            return;
        }
        let mut all = lock(&self.open);
        if !before.2 && after.2 {
            all.authenticate(self.id);
        }
        if before.0 != after.0 {
            all.set_waiting(self.id, after.0);
        }
        if !before.1 && after.1 {
            all.renew(self.id);
        }
    }

    /// Waits until a deadline may have come forward.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    #[cfg(test)]
    pub(crate) fn evict(&self) {
        self.eviction.tell();
    }

    /// Waits until this connection has to give way.
    pub(crate) async fn evicted(&self) {
        self.eviction.0.notified().await;
    }

    pub(crate) fn deadline(&self) -> Option<(Instant, CloseReason)> {
        self.read(|it| it.deadline(&self.deadlines))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.open).remove(self.id);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
