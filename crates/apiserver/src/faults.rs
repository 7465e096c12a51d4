//! Injected faults, for tests of clients.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::status::Refusal;

/// The user name of the garbage collector, as fault hooks and audit lines see it.
pub const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// A request, as a fault hook sees it. The garbage collector's own requests pass the hook, too: as
/// [`COLLECTOR`] it deletes, patches, and watches every resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKind {
    /// The user.
    pub user: String,
    /// The authorization verb.
    pub verb: String,
    /// `plural.group`; empty if it is not a resource.
    pub resource: String,
    /// `status`, `scale`, `token` …; empty for the object itself.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

/// The fault of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// The request is refused with this status. The collector retries with back-off; a resource
    /// that it may not watch is hidden from it until the hook is replaced.
    Refuse(u16),
    /// The request is refused with this status, and may be repeated after so many seconds: in the
    /// `Retry-After` header and in `details.retryAfterSeconds`.
    RetryAfter {
        /// The status, as 429.
        code: u16,
        /// The seconds.
        seconds: u64,
    },
    /// The request is executed, and the caller gets this status instead of the response.
    LoseAnswer(u16),
    /// The request is executed, and the caller gets no response until shutdown.
    NeverAnswer,
    /// The request is delayed before it is executed.
    Delay(Duration),
    /// A watch ends after this many events.
    EndWatchAfter(usize),
    /// After this many events of a watch the connection breaks in the middle of the next one.
    BreakWatchAfter(usize),
    /// A watch delivers each event, in order, so long after it happened.
    DelayEvents(Duration),
    /// A get or list reads this many revisions back.
    ReadBehind(u64),
}

type Hook = Arc<dyn Fn(&RequestKind) -> Fault + Send + Sync>;

/// The current fault hook.
pub(crate) struct Faults {
    hook: RwLock<Option<Hook>>,
    changed: watch::Sender<u64>,
}

impl Faults {
    pub(crate) fn set(&self, hook: Option<Hook>) {
        *self.hook.write().unwrap_or_else(PoisonError::into_inner) = hook;
        self.changed.send_modify(|count| *count += 1);
    }

    /// The fault of a request; `request` is only called if there is a hook.
    pub(crate) fn for_request(&self, request: impl FnOnce() -> RequestKind) -> Fault {
        let hook = self.hook.read().unwrap_or_else(PoisonError::into_inner).clone();
        hook.map_or(Fault::None, |hook| hook(&request()))
    }

    /// Notified when the hook is replaced.
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
    /// Runs an operation under this fault.
    pub(crate) async fn apply<T>(
        self,
        operation: impl Future<Output = Result<T, Refusal>>,
        ending: &watch::Sender<bool>,
    ) -> Result<T, Refusal> {
        match self {
            Self::None
            | Self::EndWatchAfter(_)
            | Self::BreakWatchAfter(_)
            | Self::DelayEvents(_)
            | Self::ReadBehind(_) => operation.await,
            Self::Refuse(code) => Err(injected(code)),
            Self::RetryAfter { code, seconds } => {
                let mut refusal = injected(code);
                refusal.retry_after = Some(seconds);
                Err(refusal)
            }
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

/// The error of an injected fault, with the reason that Kubernetes gives for its status.
fn injected(code: u16) -> Refusal {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    Refusal::new(code, reason, "an injected fault")
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faults")
    }
}
