//! Metrics of a shard. Every label value is from a closed set.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use usher_domain::fleet::accept::Report;
use usher_domain::fleet::aggregate::{Machine, Target};
use usher_domain::fleet::effect::Verb;
use usher_domain::fleet::error::ErrorClass;
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{self, Cause, HeldBack};
use usher_domain::fleet::reason::Reason;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::fleet::verdict::EffectKind;
use usher_kernel::words;

use super::lists::{Scope, Wrong};

/// How many of the last completions the exact quantiles cover.
const LAST: usize = 1_024;

words! {
    /// The purpose of a command.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Kind {
        /// Create a host.
        Provision = "Provision",
        /// Join a cluster.
        Bootstrap = "Bootstrap",
        /// Leave a cluster for another one.
        Preempt = "Preempt",
        /// Leave a cluster without a successor.
        Reclaim = "Reclaim",
        /// Delete a host.
        Delete = "Delete",
        /// Delete what is left of a failed machine.
        Salvage = "Salvage",
    }
}

words! {
    /// The outcome of a command.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Outcome {
        /// It was accepted.
        Success = "success",
        /// It timed out.
        TooSlow = "too_slow",
        /// A newer token was used before.
        Fenced = "fenced",
        /// A transient error of the provider.
        ProviderError = "provider_error",
        /// There is no such machine.
        NotFound = "not_found",
        /// The provider does not implement the command, or does not permit it.
        Unsupported = "unsupported",
        /// The provider refused the request.
        Invalid = "invalid",
        /// The machine is not in the state where the command applies.
        StaleState = "stale_state",
        /// It was not sent: the lease may have expired.
        Superseded = "superseded",
        /// Its result would have been an invalid row.
        TransitionError = "transition_error",
    }
}

/// Counters without labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Reads of one machine.
    Gets,
    /// Reads and lists without a response.
    Unanswered,
    /// Steps that exceeded their deadline.
    TooSlow,
    Panicked,
    /// Machines adopted.
    Adopted,
    /// Aims whose rows had changed.
    AimsMoved,
    /// Plans.
    Cycles,
}

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The metrics of one process.
#[derive(Debug)]
pub struct Tally {
    outcomes: Family<Labels<2>, Counter>,
    aims: Family<Labels<1>, Counter>,
    held_back: Family<Labels<1>, Counter>,
    rejected: Family<Labels<1>, Counter>,
    lists: Family<Labels<2>, Counter>,
    crossings: Family<Labels<1>, Counter>,
    counters: Vec<Counter>,
    machines: Family<Labels<1>, Gauge>,
    needs: Family<Labels<1>, Gauge>,
    inflight: Gauge,
    waiting: Gauge,
    epoch: Gauge,
    paused: Gauge,
    list_quarantined: Gauge,
    cycle: Histogram,
    lists_taken: Family<Labels<1>, Histogram, fn() -> Histogram>,
    calls: Family<Labels<1>, Histogram, fn() -> Histogram>,
    completions: Family<Labels<1>, Histogram, fn() -> Histogram>,
    quantiles: Family<Labels<2>, Gauge<f64, std::sync::atomic::AtomicU64>>,
    last: Mutex<Vec<(Phase, VecDeque<Duration>)>>,
}

impl Kind {
    /// The purpose of this command for this machine.
    pub const fn of(verb: &Verb, machine: &Machine) -> Self {
        match (verb, &machine.wanted().target) {
            (Verb::Create, _) => Self::Provision,
            (Verb::Configure { .. }, _) => Self::Bootstrap,
            (Verb::Drain { .. }, Target::Bind(_)) => Self::Preempt,
            (Verb::Drain { .. }, Target::Unbound | Target::Release) => Self::Reclaim,
            (Verb::Delete, _) => Self::Delete,
            (Verb::Salvage, _) => Self::Salvage,
        }
    }
}

impl Outcome {
    /// The outcome of an error class.
    pub const fn of(class: ErrorClass, too_slow: bool) -> Self {
        match class {
            ErrorClass::Retryable if too_slow => Self::TooSlow,
            ErrorClass::Retryable => Self::ProviderError,
            ErrorClass::Fenced => Self::Fenced,
            ErrorClass::NotFound => Self::NotFound,
            ErrorClass::Unsupported => Self::Unsupported,
            ErrorClass::Invalid => Self::Invalid,
            ErrorClass::OutOfPosition => Self::StaleState,
        }
    }
}

impl Done {
    const ALL: [Self; 7] = [
        Self::Gets,
        Self::Unanswered,
        Self::TooSlow,
        Self::Panicked,
        Self::Adopted,
        Self::AimsMoved,
        Self::Cycles,
    ];

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Gets => ("gets", "Reads of one machine"),
            Self::Unanswered => ("unanswered", "Reads and lists without a response"),
            Self::TooSlow => ("steps_too_slow", "Steps that exceeded their deadline"),
            Self::Panicked => ("steps_panicked", "Steps that panicked"),
            Self::Adopted => ("machines_adopted", "Machines adopted from a provider's list"),
            Self::AimsMoved => ("aims_moved", "Aims not written because their rows had changed"),
            Self::Cycles => ("cycles", "Planning cycles"),
        }
    }
}

impl Default for Tally {
    fn default() -> Self {
        let tally = Self {
            outcomes: Family::default(),
            aims: Family::default(),
            held_back: Family::default(),
            rejected: Family::default(),
            lists: Family::default(),
            crossings: Family::default(),
            counters: Done::ALL.iter().map(|_| Counter::default()).collect(),
            machines: Family::default(),
            needs: Family::default(),
            inflight: Gauge::default(),
            waiting: Gauge::default(),
            epoch: Gauge::default(),
            paused: Gauge::default(),
            list_quarantined: Gauge::default(),
            cycle: seconds(),
            lists_taken: Family::new_with_constructor(seconds),
            calls: Family::new_with_constructor(seconds),
            completions: Family::new_with_constructor(seconds),
            quantiles: Family::default(),
            last: Mutex::default(),
        };
        // Every series starts at zero, so that alerts on it work.
        for kind in Kind::ALL {
            for outcome in Outcome::ALL {
                drop(tally.of_outcome(kind, outcome));
            }
        }
        tally
    }
}

impl Tally {
    /// Registers every metric.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("usher_fleet");
        let what = "Commands by outcome";
        registry.register("action_execute_outcomes", what, self.outcomes.clone());
        registry.register("actions", "Aims written", self.aims.clone());
        let what = "Aims planned and held back";
        registry.register("actions_suppressed", what, self.held_back.clone());
        let what = "Machine records refused, whole or in part";
        registry.register("machines_rejected", what, self.rejected.clone());
        registry.register("lists", "Lists applied", self.lists.clone());
        registry.register("crossings", "Phase changes by new phase", self.crossings.clone());
        for (done, counter) in Done::ALL.into_iter().zip(&self.counters) {
            let (name, help) = done.words();
            registry.register(name, help, counter.clone());
        }
        registry.register("inventory_machines", "Machines by phase", self.machines.clone());
        registry.register("needs", "Needs by outcome", self.needs.clone());
        registry.register("execute_inflight", "Running steps", self.inflight.clone());
        registry.register(
            "action_queue_depth",
            "Due machines that wait for a step",
            self.waiting.clone(),
        );
        registry.register("epoch", "The epoch of the shard's lease", self.epoch.clone());
        registry.register("actuation_paused", "Whether the shard is paused", self.paused.clone());
        let what = "Whether the last full list is not trusted";
        registry.register("list_quarantined", what, self.list_quarantined.clone());
        let unit = || Unit::Seconds;
        let what = "Duration of a planning cycle";
        registry.register_with_unit("cycle_duration", what, unit(), self.cycle.clone());
        let what = "Duration of a list, until it is applied";
        registry.register_with_unit("list_duration", what, unit(), self.lists_taken.clone());
        let what = "Response time of commands";
        registry.register_with_unit("call_duration", what, unit(), self.calls.clone());
        let what = "Time from a command to the observation of its end";
        registry.register_with_unit("completion", what, unit(), self.completions.clone());
        let what = "Exact quantiles of completion, over the last 1024 of each edge";
        registry.register_with_unit("completion_exact", what, unit(), self.quantiles.clone());
    }

    /// Adds one.
    pub fn count(&self, what: Done) {
        self.count_many(what, 1);
    }

    /// Adds this many.
    pub fn count_many(&self, what: Done, many: usize) {
        let index = Done::ALL.iter().position(|it| *it == what);
        if let Some(counter) = index.and_then(|it| self.counters.get(it)) {
            counter.inc_by(many as u64);
        }
    }

    /// Counts the outcome of a command.
    pub fn outcome(&self, kind: Kind, outcome: Outcome) {
        self.of_outcome(kind, outcome).inc();
    }

    /// How many commands of a kind had this outcome.
    pub fn outcomes(&self, kind: Kind, outcome: Outcome) -> u64 {
        self.of_outcome(kind, outcome).get()
    }

    /// Counts a command whose result would have been an invalid row.
    pub fn transition_error(&self, before: &Machine) {
        let kind = match before.phase() {
            Phase::Speculative | Phase::Creating => Kind::Provision,
            Phase::Idle | Phase::Configuring => Kind::Bootstrap,
            Phase::Configured | Phase::Draining => {
                Kind::of(&Verb::Drain { grace: Duration::ZERO }, before)
            }
            Phase::Failed => Kind::Salvage,
            Phase::Deleting | Phase::Gone => Kind::Delete,
        };
        self.outcome(kind, Outcome::TransitionError);
    }

    /// Records the response time of a command.
    pub fn called(&self, verb: EffectKind, took: Duration) {
        self.calls.get_or_create(&[("verb", verb.as_str())]).observe(took.as_secs_f64());
    }

    /// Counts a written row.
    pub fn crossed(&self, before: &Machine, after: &Machine, reason: Reason) {
        if before.phase() == after.phase() {
            return;
        }
        self.crossings.get_or_create(&[("phase", after.phase().as_str())]).inc();
        if reason == Reason::CommandCompleted {
            let took = after.fields().phase_since.since(before.fields().commanded_at);
            self.completed(before.phase(), took);
        }
    }

    /// Counts a record that was refused.
    pub fn read(&self, report: Result<Report, Refusal>) -> Result<Report, Refusal> {
        let wrong = match &report {
            Ok(report) => report.offer().err(),
            Err(why) => Some(why),
        };
        if let Some(why) = wrong {
            self.rejected.get_or_create(&[("reason", why.code())]).inc();
        }
        report
    }

    /// Counts an applied list.
    pub fn listed(&self, scope: Scope, credence: Option<Credence>, took: Duration) {
        let word = scope.as_str();
        let credence = credence.map_or("None", Credence::as_str);
        self.lists.get_or_create(&[("scope", word), ("credence", credence)]).inc();
        self.lists_taken.get_or_create(&[("scope", word)]).observe(took.as_secs_f64());
    }

    /// Counts refused records of a list.
    pub fn reject(&self, wrong: &[Wrong]) {
        for it in wrong {
            self.rejected.get_or_create(&[("reason", it.as_str())]).inc();
        }
    }

    /// Counts the results of a plan, and its duration.
    pub fn planned(&self, report: &plan::Report, took: Duration) {
        self.count(Done::Cycles);
        self.cycle.observe(took.as_secs_f64());
        for outcome in plan::Outcome::ALL {
            let count = i64::try_from(report.count(*outcome)).unwrap_or(i64::MAX);
            self.needs.get_or_create(&[("outcome", outcome.as_str())]).set(count);
        }
        for why in &report.held_back {
            let aims = if *why == HeldBack::ListQuarantined { 0 } else { report.aims as u64 };
            self.held_back.get_or_create(&[("why", why.as_str())]).inc_by(aims);
        }
        for cluster in &report.clusters {
            if let Some(why) = cluster.held_back {
                let kept = u64::from(cluster.surplus - cluster.reclaimed);
                self.held_back.get_or_create(&[("why", why.as_str())]).inc_by(kept);
            }
        }
    }

    /// Counts a written aim.
    pub fn aimed(&self, cause: Cause) {
        self.aims.get_or_create(&[("kind", cause.as_str())]).inc();
    }

    /// Sets the gauges of machines and steps.
    pub fn set_machines(&self, phases: &[usize], (running, waiting): (usize, usize)) {
        let gauge = |many: usize| i64::try_from(many).unwrap_or(i64::MAX);
        for (phase, count) in Phase::ALL.iter().zip(phases) {
            self.machines.get_or_create(&[("state", phase.as_str())]).set(gauge(*count));
        }
        self.inflight.set(gauge(running));
        self.waiting.set(gauge(waiting));
    }

    /// Sets the gauges of the epoch and of what holds the shard back.
    pub fn holds(&self, epoch: u64, is_paused: bool, is_list_trusted: bool) {
        self.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        self.paused.set(i64::from(is_paused));
        self.list_quarantined.set(i64::from(!is_list_trusted));
    }

    /// Records the time from a command to the observation of its end.
    fn completed(&self, edge: Phase, took: Duration) {
        let word = edge.as_str();
        self.completions.get_or_create(&[("edge", word)]).observe(took.as_secs_f64());
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|it| it.0 == edge).unwrap_or_else(|| {
            all.push((edge, VecDeque::new()));
            all.len() - 1
        });
        let Some((_, last)) = all.get_mut(at) else { return };
        if last.len() == LAST {
            last.pop_front();
        }
        last.push_back(took);
        let mut sorted: Vec<Duration> = last.iter().copied().collect();
        drop(all);
        sorted.sort_unstable();
        for (name, percent) in [("0.5", 50), ("0.99", 99), ("1", 100)] {
            let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            if let Some(value) = sorted.get(rank) {
                let labels = [("edge", word), ("quantile", name)];
                self.quantiles.get_or_create(&labels).set(value.as_secs_f64());
            }
        }
    }

    fn of_outcome(&self, kind: Kind, outcome: Outcome) -> Counter {
        let labels = [("kind", kind.as_str()), ("outcome", outcome.as_str())];
        self.outcomes.get_or_create(&labels).clone()
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 20))
}
