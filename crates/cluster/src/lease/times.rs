//! The times of a lease, and which of them keep its promise.

use std::time::Duration;

use thiserror::Error;

/// How much of a lease has to be left when the last request has ended, as its share: clocks of two
/// machines do not run equally fast.
const MARGIN: u32 = 20;

/// The times of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    lease: Duration,
    renew: Duration,
    send: Duration,
    request: Duration,
}

/// Why times would not keep two processes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimesError {
    #[error("a lease of {0:?} is too short: it has to last at least 1 s")]
    Lease(Duration),
    #[error("{what} is zero")]
    Zero { what: &'static str },
    #[error(
        "requests may be sent for {send:?} and take {request:?}, and a lease of {lease:?} ends \
         before the last of them: send and request have to be {most:?} at most together"
    )]
    Overlap { lease: Duration, send: Duration, request: Duration, most: Duration },
    #[error(
        "a lease that is renewed every {renew:?} stops all requests in between, since they may be \
         sent for {send:?} only: renew has to be less"
    )]
    Gaps { renew: Duration, send: Duration },
    #[error(
        "the client waits up to {client:?} for an answer, and a request of a lease holder may take \
         {request:?} at most"
    )]
    Client { client: Duration, request: Duration },
}

impl Default for Times {
    fn default() -> Self {
        let [lease, renew, send, request] = [30, 10, 18, 10].map(Duration::from_secs);
        Self { lease, renew, send, request }
    }
}

impl Times {
    /// A lease that lasts for `lease` and is renewed every `renew`. Requests may be sent for `send`
    /// after each renewal and take `request` at most.
    pub fn new(
        lease: Duration,
        renew: Duration,
        (send, request): (Duration, Duration),
    ) -> Result<Self, TimesError> {
        if lease < Duration::from_secs(1) {
            return Err(TimesError::Lease(lease));
        }
        let all = [("the time between renewals", renew), ("send", send), ("request", request)];
        if let Some((what, _)) = all.into_iter().find(|(_, it)| it.is_zero()) {
            return Err(TimesError::Zero { what });
        }
        let most = lease.saturating_sub(lease / MARGIN);
        if send.saturating_add(request) > most {
            return Err(TimesError::Overlap { lease, send, request, most });
        }
        if renew >= send {
            return Err(TimesError::Gaps { renew, send });
        }
        Ok(Self { lease, renew, send, request })
    }

    /// The default times in proportion to a lease of another length.
    pub fn of(lease: Duration) -> Result<Self, TimesError> {
        Self::new(lease, lease / 3, (lease * 3 / 5, lease / 3))
    }

    /// How long a lease lasts after a renewal, and how long a successor waits.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    pub fn renew(&self) -> Duration {
        self.renew
    }

    /// How long after a renewal a request may be sent.
    pub fn send(&self) -> Duration {
        self.send
    }

    /// How long a request may take.
    pub fn request(&self) -> Duration {
        self.request
    }

    /// The first pause after a request about the lease that failed.
    pub(super) fn pause(&self) -> Duration {
        self.renew / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    // Requirement: KA-18
    /// Red by: a last request that ends after the lease.
    #[test]
    fn times_that_do_not_keep_two_processes_apart_are_refused() {
        let new = |lease, renew, send, request| {
            Times::new(secs(lease), secs(renew), (secs(send), secs(request)))
        };
        assert_eq!(new(30, 10, 18, 10), Ok(Times::default()));
        assert_eq!(Times::of(secs(30)), Ok(Times::default()));
        assert!(Times::of(secs(2)).is_ok());
        let most = Duration::from_millis(28_500);
        let overlap =
            TimesError::Overlap { lease: secs(30), send: secs(19), request: secs(10), most };
        assert_eq!(new(30, 10, 19, 10), Err(overlap));
        assert_eq!(new(30, 18, 18, 10), Err(TimesError::Gaps { renew: secs(18), send: secs(18) }));
        assert_eq!(new(0, 10, 18, 10), Err(TimesError::Lease(secs(0))));
        assert_eq!(new(30, 0, 18, 10), Err(TimesError::Zero { what: "the time between renewals" }));
        assert_eq!(new(30, 10, 0, 10), Err(TimesError::Zero { what: "send" }));
        assert_eq!(new(30, 10, 18, 0), Err(TimesError::Zero { what: "request" }));
        assert!(Times::new(secs(30), secs(1), (secs(2), Duration::MAX)).is_err());
    }
}
