//! The counters of a server, and whether its database answers.

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use usher_listen::{CloseReason, Counts};
use usher_store::Store;

use super::mesh::Mesh;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Steps that were finished.
    Steps,
    /// Steps that failed.
    Troubles,
    /// Steps that were cut off at their deadline.
    TooSlow,
    /// Steps that panicked.
    Panicked,
    /// Items that were parked because their rows are corrupt.
    Parked,
    /// Observations of a world.
    Observations,
    /// Effects applied to a world.
    Effects,
    /// Steps that wrote.
    Commits,
    /// Declarations that were accepted.
    Accepted,
    /// Wake-ups by a world's watch.
    Wakes,
    /// Mass-deletion guards that tripped.
    GuardsTripped,
    /// Nodes that were lost.
    NodesLost,
}

impl Count {
    /// Everything that is counted.
    pub const ALL: [Self; 12] = [
        Self::Steps,
        Self::Troubles,
        Self::TooSlow,
        Self::Panicked,
        Self::Parked,
        Self::Observations,
        Self::Effects,
        Self::Commits,
        Self::Accepted,
        Self::Wakes,
        Self::GuardsTripped,
        Self::NodesLost,
    ];

    /// The name of the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "usher_steps",
            Self::Troubles => "usher_step_troubles",
            Self::TooSlow => "usher_steps_too_slow",
            Self::Panicked => "usher_steps_panicked",
            Self::Parked => "usher_lives_parked",
            Self::Observations => "usher_world_observations",
            Self::Effects => "usher_world_effects",
            Self::Commits => "usher_store_commits",
            Self::Accepted => "usher_declarations_accepted",
            Self::Wakes => "usher_world_wakes",
            Self::GuardsTripped => "usher_mass_deletion_guards_tripped",
            Self::NodesLost => "usher_nodes_lost",
        }
    }

    /// The help text of the metric.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Steps => "Steps that were finished",
            Self::Troubles => "Steps that failed",
            Self::TooSlow => "Steps that were cut off at their deadline",
            Self::Panicked => "Steps that panicked",
            Self::Parked => "Items that were parked because their rows are corrupt",
            Self::Observations => "Observations of a world",
            Self::Effects => "Effects applied to a world",
            Self::Commits => "Steps that wrote",
            Self::Accepted => "Declarations that were accepted",
            Self::Wakes => "Wake-ups by the watch of a world",
            Self::GuardsTripped => "Mass-deletion guards that tripped",
            Self::NodesLost => "Nodes that were lost",
        }
    }
}

/// The counters of one process.
#[derive(Debug)]
pub struct Tally {
    counters: Vec<Counter>,
    database: Mutex<Option<String>>,
}

impl Default for Tally {
    fn default() -> Self {
        let counters = Count::ALL.iter().map(|_| Counter::default()).collect();
        Self { counters, database: Mutex::default() }
    }
}

impl Tally {
    pub fn count(&self, what: Count) {
        if let Some(counter) = self.counter(what) {
            counter.inc();
        }
    }

    pub fn read(&self, what: Count) -> u64 {
        self.counter(what).map_or(0, Counter::get)
    }

    pub fn register(&self, registry: &mut Registry) {
        for (what, counter) in Count::ALL.into_iter().zip(&self.counters) {
            registry.register(what.as_str(), what.help(), counter.clone());
        }
    }

    /// The worker's last query was answered.
    pub(super) fn answered(&self) {
        self.set(None);
    }

    /// The worker's last query failed.
    pub(super) fn unanswered(&self, error: &usher_store::Error) {
        self.set(Some(error.to_string()));
    }

    /// The error of the worker's last query, if it failed.
    pub fn trouble(&self) -> Option<String> {
        let database = self.database.lock();
        database.unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn set(&self, trouble: Option<String>) {
        let database = self.database.lock();
        *database.unwrap_or_else(std::sync::PoisonError::into_inner) = trouble;
    }

    fn counter(&self, what: Count) -> Option<&Counter> {
        let index = Count::ALL.iter().position(|it| *it == what)?;
        self.counters.get(index)
    }
}

/// The counters of the store.
#[derive(Debug)]
pub struct StoreTally(pub Arc<Store>);

impl Collector for StoreTally {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let writes = ConstCounter::new(self.0.writes());
        let (name, help) = ("usher_store_writes", "Writes requested of the store");
        writes.encode(encoder.encode_descriptor(name, help, None, writes.metric_type())?)
    }
}

/// The counters of the listener.
#[derive(Debug)]
pub struct ConnectionTally(pub Arc<Counts>);

impl Collector for ConnectionTally {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let open = ConstGauge::new(i64::try_from(self.0.open()).unwrap_or(i64::MAX));
        let (name, help) = ("http_connections", "Open connections");
        open.encode(encoder.encode_descriptor(name, help, None, open.metric_type())?)?;
        let (name, help) = ("http_connections_closed", "Closed connections");
        let mut closed = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for reason in CloseReason::ALL {
            let count = ConstCounter::new(self.0.closed(reason));
            count.encode(closed.encode_family(&[("reason", reason.as_str())])?)?;
        }
        let (name, help) = ("http_certificate_loads", "Changed certificates that were read");
        let mut loads = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let outcomes =
            [("loaded", self.0.certificates_loaded()), ("failed", self.0.certificates_failed())];
        for (outcome, count) in outcomes {
            ConstCounter::new(count).encode(loads.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}

/// The nodes that no present server hears.
#[derive(Debug)]
pub struct MeshTally(pub Arc<Mesh>);

impl Collector for MeshTally {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let unclaimed = ConstGauge::new(u64::try_from(self.0.unclaimed()).unwrap_or(u64::MAX));
        let (name, help) = ("usher_nodes_unknown", "Nodes that no present server hears");
        unclaimed.encode(encoder.encode_descriptor(name, help, None, unclaimed.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_exported_once_under_its_name() {
        let tally = Tally::default();
        tally.count(Count::Commits);
        tally.count(Count::Commits);
        assert_eq!((tally.read(Count::Commits), tally.read(Count::Steps)), (2, 0));
        let mut registry = Registry::default();
        tally.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("\nusher_store_commits_total 2\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), Count::ALL.len());
    }

    #[test]
    fn connections_are_exported_by_the_reason_of_their_end() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ConnectionTally(Arc::default())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("\nhttp_connections 0\n"), "{text}");
        for reason in CloseReason::ALL {
            let line = format!("http_connections_closed_total{{reason=\"{}\"}} 0", reason.as_str());
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("http_certificate_loads_total{outcome=\"failed\"} 0"), "{text}");
    }
}
