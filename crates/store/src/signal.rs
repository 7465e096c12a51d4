//! Signals inside one process: a write wakes the tasks that wait for it.

use tokio::sync::watch;

use crate::error::Error;

/// What a store's own writes wake.
#[derive(Debug)]
pub(crate) struct Signals {
    log: watch::Sender<u64>,
    due: watch::Sender<u64>,
    sinks: watch::Sender<u64>,
}

impl Default for Signals {
    fn default() -> Self {
        let signal = || watch::Sender::new(0);
        Self { log: signal(), due: signal(), sinks: signal() }
    }
}

impl Signals {
    /// An event may have been written. Called after the commit, also if its outcome is unknown.
    pub(crate) fn notify_log(&self) {
        self.log.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// An item may be due. Called after the commit, also if its outcome is unknown.
    pub(crate) fn notify_due(&self) {
        self.due.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Wakes the readers of the log, unless it is certain that no event was written.
    pub(crate) fn log_written<T>(&self, written: &Result<T, Error>) {
        if matches!(written, Ok(_) | Err(Error::OutcomeUnknown { .. })) {
            self.notify_log();
        }
    }

    /// Wakes the worker, unless it is certain that nothing became due.
    pub(crate) fn due_written<T>(&self, written: &Result<T, Error>) {
        if matches!(written, Ok(_) | Err(Error::OutcomeUnknown { .. })) {
            self.notify_due();
        }
    }

    /// The sinks may have changed.
    pub(crate) fn sinks_changed(&self) {
        self.sinks.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Sees events from now on.
    pub(crate) fn log(&self) -> Signal {
        Signal(self.log.subscribe())
    }

    /// Sees what becomes due from now on.
    pub(crate) fn due(&self) -> Signal {
        Signal(self.due.subscribe())
    }

    /// Sees changes of the sinks from now on.
    pub(crate) fn sinks(&self) -> Signal {
        Signal(self.sinks.subscribe())
    }
}

/// Waits for a signal; one that came before the wait is not lost.
#[derive(Debug)]
pub struct Signal(watch::Receiver<u64>);

impl Signal {
    /// Clears earlier signals. A reader that reads after this misses nothing.
    pub fn clear(&mut self) {
        self.0.borrow_and_update();
    }

    /// Ends with the next signal; never, if the store is gone.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
