//! The settings of the shard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Span;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// The shard of machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// Where the provider of its machines listens; without one there is no shard.
    pub provider: String,
    /// What the provider is called in rows.
    pub provider_name: String,
    /// What the shard is called, toward the provider as well.
    pub shard: String,
    /// The certificate shown to the provider; empty is none.
    pub tls_cert: String,
    /// Its key.
    pub tls_key: String,
    /// Who vouches for the provider.
    pub tls_ca: String,
    /// Whether plans are acted upon.
    pub switch: SwitchMode,
    /// How often to list and to plan although nothing was heard.
    pub cycle_interval: Span,
    /// How often to list what changed while machines are on their way.
    pub passing_interval: Span,
    /// How often to list everything, and not only what changed.
    pub full_list_interval: Span,
    /// The longest rest of a machine that is on its way.
    pub poll_interval: Span,
    /// The most machines that are worked on at a time.
    pub steps_max: u32,
    /// How long a verb, or a question about one machine, may take.
    pub call_deadline: Span,
    /// How long a list may take.
    pub list_deadline: Span,
    /// How long the lease of the shard runs.
    pub lease: Span,
    /// The share of a cluster's nodes that may be on their way out at once.
    pub reclaim_percent: u32,
    /// After this a host that was not made is asked for again.
    pub create_deadline: Span,
    /// After this a machine that did not join is asked again.
    pub configure_deadline: Span,
    /// After this, and its grace, a machine that did not leave is asked again.
    pub drain_deadline: Span,
    /// After this a host that was not given back is asked again.
    pub delete_deadline: Span,
    /// How long a failed machine is left alone.
    pub failed_wait: Span,
    /// How long what is paid for while it stands is kept idle.
    pub idle_on_demand: Span,
    /// How long what may be taken away is kept idle.
    pub idle_spot: Span,
}

/// Whether plans are acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchMode {
    /// They are.
    Run,
    /// They are only told.
    DryRun,
    /// They are only told, and nothing new is begun.
    Paused,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            provider: String::new(),
            provider_name: "default".to_owned(),
            shard: "shard-0".to_owned(),
            tls_cert: String::new(),
            tls_key: String::new(),
            tls_ca: String::new(),
            switch: SwitchMode::Run,
            cycle_interval: Span::secs(10),
            passing_interval: Span(Duration::from_millis(500)),
            full_list_interval: Span::secs(5 * MINUTE),
            poll_interval: Span::secs(30),
            steps_max: 32,
            call_deadline: Span::secs(30),
            list_deadline: Span::secs(2 * MINUTE),
            lease: Span::secs(30),
            reclaim_percent: 5,
            create_deadline: Span::secs(10 * MINUTE),
            configure_deadline: Span::secs(10 * MINUTE),
            drain_deadline: Span::secs(15 * MINUTE),
            delete_deadline: Span::secs(10 * MINUTE),
            failed_wait: Span::secs(10 * MINUTE),
            idle_on_demand: Span::secs(10 * MINUTE),
            idle_spot: Span::secs(MINUTE),
        }
    }
}

impl Fleet {
    /// Every span with its least and its most, in seconds.
    pub(super) const fn spans(&self) -> [(&'static str, Span, Duration, u64); 14] {
        let (ms, second) = (Duration::from_millis(10), Duration::from_secs(1));
        let tenth = Duration::from_millis(100);
        [
            ("fleet.cycle_interval", self.cycle_interval, ms, HOUR),
            ("fleet.passing_interval", self.passing_interval, ms, HOUR),
            ("fleet.full_list_interval", self.full_list_interval, ms, DAY),
            ("fleet.poll_interval", self.poll_interval, ms, HOUR),
            ("fleet.call_deadline", self.call_deadline, tenth, HOUR),
            ("fleet.list_deadline", self.list_deadline, tenth, HOUR),
            ("fleet.lease", self.lease, second, HOUR),
            ("fleet.create_deadline", self.create_deadline, tenth, 30 * DAY),
            ("fleet.configure_deadline", self.configure_deadline, tenth, 30 * DAY),
            ("fleet.drain_deadline", self.drain_deadline, tenth, 30 * DAY),
            ("fleet.delete_deadline", self.delete_deadline, tenth, 30 * DAY),
            ("fleet.failed_wait", self.failed_wait, tenth, 30 * DAY),
            ("fleet.idle_on_demand", self.idle_on_demand, second, 365 * DAY),
            ("fleet.idle_spot", self.idle_spot, second, 365 * DAY),
        ]
    }

    /// Every number with its least and its most.
    pub(super) const fn numbers(&self) -> [(&'static str, u32, u32, u32); 2] {
        [
            ("fleet.steps_max", self.steps_max, 1, 10_000),
            ("fleet.reclaim_percent", self.reclaim_percent, 0, 100),
        ]
    }
}
