//! Mishaps on demand, for tests of those who call.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::status::Refusal;

/// A request, as a fault hook sees it. What the garbage collector does passes the hook, too: it
/// deletes, patches, and watches every resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// Who asks.
    pub user: String,
    /// The verb, as authorisation names it.
    pub verb: String,
    /// `plural.group`; empty for what is no resource.
    pub resource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

/// What befalls a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is refused with this status before anything happens. A deed of the collector is tried
    /// again with growing patience; a resource that it may not watch it does not see.
    Refuse(u16),
    /// It is done, and the caller is told this status instead of the answer.
    LoseAnswer(u16),
    /// It is done, and the caller hears nothing until the server ends.
    NeverAnswer,
    /// It waits before anything happens.
    Delay(Duration),
    /// A watch ends after so many events.
    EndWatchAfter(usize),
    /// A get or a list shows what was there so many revisions ago.
    ReadBehind(u64),
}

type Hook = Arc<dyn Fn(&RequestInfo) -> Fault + Send + Sync>;

/// The hook that decides what goes wrong.
pub(crate) struct Faults {
    hook: RwLock<Option<Hook>>,
    changed: watch::Sender<u64>,
}

impl Faults {
    pub(crate) fn set(&self, hook: Option<Hook>) {
        *self.hook.write().unwrap_or_else(PoisonError::into_inner) = hook;
        self.changed.send_modify(|count| *count += 1);
    }

    /// What befalls a request, which is only described when somebody wants to know.
    pub(crate) fn for_request(&self, request: impl FnOnce() -> RequestInfo) -> Fault {
        let hook = self.hook.read().unwrap_or_else(PoisonError::into_inner).clone();
        hook.map_or(Fault::None, |hook| hook(&request()))
    }

    /// Told whenever another hook decides.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self { hook: RwLock::default(), changed: watch::Sender::new(0) }
    }
}

impl Fault {
    /// Does a deed as far as the fault lets it happen and be told.
    pub(crate) async fn apply<T>(
        self,
        operation: impl Future<Output = Result<T, Refusal>>,
        ending: &watch::Sender<bool>,
    ) -> Result<T, Refusal> {
        let injected = |code: u16| Refusal::new(code, "InternalError", "an injected fault");
        match self {
            Self::None | Self::EndWatchAfter(_) | Self::ReadBehind(_) => operation.await,
            Self::Refuse(code) => Err(injected(code)),
            Self::Delay(wait) => {
                tokio::time::sleep(wait).await;
                operation.await
            }
            Self::LoseAnswer(code) => {
                let _ = operation.await;
                Err(injected(code))
            }
            Self::NeverAnswer => {
                let _ = operation.await;
                let _ = ending.subscribe().wait_for(|ending| *ending).await;
                Err(injected(503))
            }
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faults")
    }
}
