//! The settings of the shard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Span;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// The shard that manages machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// Address of the machine provider as host:port; empty means no shard.
    pub provider: String,
    /// Name of the provider in records.
    pub provider_name: String,
    /// Name of the shard, also toward the provider.
    pub shard: String,
    /// File of the client certificate for the provider; empty is none.
    pub tls_cert: String,
    /// File of the key of the client certificate.
    pub tls_key: String,
    /// File of the CA that signed the certificate of the provider.
    pub tls_ca: String,
    /// Whether plans are carried out.
    pub switch: SwitchMode,
    /// How often to list and plan without an event.
    pub cycle_interval: Span,
    /// How often to list changes while machines are in transition.
    pub passing_interval: Span,
    /// How often to make a full list instead of a list of changes.
    pub full_list_interval: Span,
    /// The longest requeue interval of a machine in transition.
    pub poll_interval: Span,
    /// How many machines are reconciled at a time.
    pub steps_max: u32,
    /// Timeout of a request about one machine.
    pub call_deadline: Span,
    /// Timeout of a list request.
    pub list_deadline: Span,
    /// Duration of the shard lease.
    pub lease: Span,
    /// How many percent of a cluster's nodes may be drained at once.
    pub reclaim_percent: u32,
    /// After this a missing host is requested again.
    pub create_deadline: Span,
    /// After this a machine that did not join is configured again.
    pub configure_deadline: Span,
    /// After this and its grace, a machine that did not leave is drained again.
    pub drain_deadline: Span,
    /// After this the deletion of a host that still exists is requested again.
    pub delete_deadline: Span,
    /// How long a failed machine is kept before it is salvaged.
    pub failed_wait: Span,
    /// How long an idle on-demand machine is kept.
    pub idle_on_demand: Span,
    /// How long an idle spot machine is kept.
    pub idle_spot: Span,
}

/// Whether plans are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchMode {
    Run,
    /// Plans are only reported.
    DryRun,
    /// Plans are only reported, and nothing new is started.
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
    /// Every duration with its minimum, and its maximum in seconds.
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

    /// Every number with its minimum and maximum.
    pub(super) const fn numbers(&self) -> [(&'static str, u32, u32, u32); 2] {
        [
            ("fleet.steps_max", self.steps_max, 1, 10_000),
            ("fleet.reclaim_percent", self.reclaim_percent, 0, 100),
        ]
    }
}
