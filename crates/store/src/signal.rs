//! Signals inside one process: something was written, so whoever waits for it looks again.

use tokio::sync::watch;

use crate::error::Error;

/// Whom a store's own writes wake.
#[derive(Debug)]
pub(crate) struct Signals {
    told: watch::Sender<u64>,
    due: watch::Sender<u64>,
    sinks: watch::Sender<u64>,
}

impl Default for Signals {
    fn default() -> Self {
        let signal = || watch::Sender::new(0);
        Self { told: signal(), due: signal(), sinks: signal() }
    }
}

impl Signals {
    /// Something may have been told. Called after the commit, also if its outcome is unknown.
    pub(crate) fn tell(&self) {
        self.told.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Somebody may be due. Called after the commit, also if its outcome is unknown.
    pub(crate) fn stir(&self) {
        self.due.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Wakes whoever follows the log, unless it is certain that nothing was told.
    pub(crate) fn tell_of<T>(&self, written: &Result<T, Error>) {
        if matches!(written, Ok(_) | Err(Error::OutcomeUnknown { .. })) {
            self.tell();
        }
    }

    /// Wakes whoever waits for work, unless it is certain that nobody became due.
    pub(crate) fn stir_of<T>(&self, written: &Result<T, Error>) {
        if matches!(written, Ok(_) | Err(Error::OutcomeUnknown { .. })) {
            self.stir();
        }
    }

    /// The sinks may have changed.
    pub(crate) fn sinks_changed(&self) {
        self.sinks.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Sees what is told from now on.
    pub(crate) fn told(&self) -> Signal {
        Signal(self.told.subscribe())
    }

    /// Sees who becomes due from now on.
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
    /// Forgets what came until now. Whoever looks after this misses nothing.
    pub fn clear(&mut self) {
        self.0.borrow_and_update();
    }

    /// Ends with the next signal; without a store there is none, ever.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
