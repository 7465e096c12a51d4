//! Timeouts and back-off.

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first back-off.
    pub first: Duration,
    /// The longest back-off.
    pub max: Duration,
    /// How long one call may take.
    pub call: Duration,
    /// How long a stream may be silent.
    pub silence: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            max: Duration::from_mins(1),
            call: Duration::from_secs(10),
            silence: Duration::from_secs(90),
        }
    }
}

impl Pace {
    /// The back-off after this many failures; `share` in thousandths is the jitter.
    pub fn wait(&self, failures: u32, share: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(20));
        let whole = self.first.saturating_mul(doubled).min(self.max);
        whole / 2 + whole.saturating_mul(share.min(1_000)) / 2_000
    }

    /// The back-off after this many failures, with random jitter.
    pub fn jittered(&self, failures: u32) -> Duration {
        let mut bytes = [0; 2];
        // Without a random source there is no jitter.
        let _ = SystemRandom::new().fill(&mut bytes);
        self.wait(failures, u32::from(u16::from_be_bytes(bytes)) * 1_000 / u32::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: AG-5
    #[test]
    fn waits_double_up_to_their_end_and_are_spread_over_their_second_half() {
        let pace = Pace { first: Duration::from_secs(2), ..Pace::default() };
        let waits = |share| [1, 2, 3, 10, u32::MAX].map(|it| pace.wait(it, share).as_millis());
        assert_eq!(waits(1_000), [2_000, 4_000, 8_000, 60_000, 60_000]);
        assert_eq!(waits(0), [1_000, 2_000, 4_000, 30_000, 30_000]);
        assert_eq!(waits(9_999), waits(1_000));
        for _ in 0..100 {
            let wait = pace.jittered(1);
            assert!((1_000..=2_000).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
