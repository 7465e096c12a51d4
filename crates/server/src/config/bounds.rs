//! Default and bounds of every setting.

use std::time::Duration;

use super::{
    AgentMode, Broker, Config, Connections, Database, Error, Fleet, GuardConfig, Keep, Key, Local,
    Mesh, Tls, Tokens, Worker,
};
use crate::config::span::Span;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7420".to_owned(),
            data_dir: String::new(),
            api_url: String::new(),
            agent_image: concat!("usher.dev/agent:", env!("CARGO_PKG_VERSION")).to_owned(),
            log: "info".to_owned(),
            connections: Connections::default(),
            tls: Tls::default(),
            database: Database::default(),
            worker: Worker::default(),
            broker: Broker::default(),
            tokens: Tokens::default(),
            mesh: Mesh::default(),
            guard: GuardConfig::default(),
            keep: Keep::default(),
            key: Key::default(),
            local: Local::default(),
            fleet: Fleet::default(),
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: String::new(),
            connections_max: 16,
            statement_timeout: Span::secs(10),
            log_poll: Span::secs(5),
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            steps_max: 32,
            lease: Span::secs(30),
            step_deadline: Span::secs(20),
            request_bound: Span::secs(10),
            due_query: Span::secs(1),
            back_off_base: Span::secs(1),
            back_off_max: Span::secs(5 * MINUTE),
        }
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            reconcile_interval: Span::secs(30),
            provisioning_deadline: Span::secs(30 * MINUTE),
            enrolment_deadline: Span::secs(15 * MINUTE),
            drain_deadline: Span::secs(5 * MINUTE),
            teardown_deadline: Span::secs(30 * MINUTE),
        }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { lifetime: Span::secs(HOUR) }
    }
}

impl Default for Mesh {
    fn default() -> Self {
        Self {
            heartbeat: Span::secs(10),
            missed_max: 3,
            drain_grace: Span::secs(30),
            acknowledgements: Span::secs(10),
        }
    }
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { count: 10, percent: 20, window: Span::secs(MINUTE) }
    }
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            events: Span::secs(30 * DAY),
            idempotency_keys: Span::secs(DAY),
            tombstones: Span::secs(DAY),
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self {
            agent: AgentMode::Fleet,
            agent_grace: Span::secs(30),
            machines: 64,
            forget_tokens: Span::secs(60),
            look_interval: Span::secs(30),
            wait_interval: Span::secs(30),
        }
    }
}

impl Config {
    /// Refuses the first setting that is out of bounds.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { database, worker, broker, tokens, mesh, guard, keep, local, fleet, .. } = self;
        let connections = &self.connections;
        let tenth = Duration::from_millis(100);
        let spans = [
            ("database.statement_timeout", database.statement_timeout, tenth, HOUR),
            ("database.log_poll", database.log_poll, tenth, HOUR),
            ("worker.lease", worker.lease, Duration::from_secs(1), HOUR),
            ("worker.step_deadline", worker.step_deadline, tenth, HOUR),
            ("worker.request_bound", worker.request_bound, tenth, HOUR),
            ("worker.due_query", worker.due_query, Duration::from_millis(10), MINUTE),
            ("worker.back_off_base", worker.back_off_base, Duration::from_millis(1), MINUTE),
            ("worker.back_off_max", worker.back_off_max, tenth, DAY),
            ("broker.reconcile_interval", broker.reconcile_interval, tenth, DAY),
            ("broker.provisioning_deadline", broker.provisioning_deadline, tenth, 30 * DAY),
            ("broker.enrolment_deadline", broker.enrolment_deadline, tenth, 30 * DAY),
            ("broker.drain_deadline", broker.drain_deadline, tenth, 30 * DAY),
            ("broker.teardown_deadline", broker.teardown_deadline, tenth, 30 * DAY),
            ("tokens.lifetime", tokens.lifetime, Duration::from_mins(5), DAY),
            ("mesh.heartbeat", mesh.heartbeat, Duration::from_millis(10), HOUR),
            ("mesh.drain_grace", mesh.drain_grace, tenth, HOUR),
            ("mesh.acknowledgements", mesh.acknowledgements, tenth, HOUR),
            ("guard.window", guard.window, Duration::from_secs(1), DAY),
            ("keep.events", keep.events, Duration::from_hours(1), 3_650 * DAY),
            ("keep.idempotency_keys", keep.idempotency_keys, Duration::from_mins(1), 30 * DAY),
            ("keep.tombstones", keep.tombstones, Duration::from_mins(1), 365 * DAY),
            ("local.agent_grace", local.agent_grace, tenth, HOUR),
            ("local.forget_tokens", local.forget_tokens, tenth, HOUR),
            ("local.look_interval", local.look_interval, tenth, HOUR),
            ("local.wait_interval", local.wait_interval, tenth, HOUR),
        ];
        for (key, value, min, max_secs) in
            spans.into_iter().chain(fleet.spans()).chain(connections.spans())
        {
            within(key, value, (Span(min), Span::secs(max_secs)))?;
        }
        let numbers = [
            ("database.connections_max", database.connections_max, 2, 1_000),
            ("worker.steps_max", worker.steps_max, 1, 10_000),
            ("mesh.missed_max", mesh.missed_max, 1, 1_000),
            ("local.machines", local.machines, 1, 10_000),
            ("guard.count", guard.count, 0, 1_000_000),
            ("guard.percent", guard.percent, 0, 100),
        ];
        for (key, value, min, max) in
            numbers.into_iter().chain(fleet.numbers()).chain(connections.numbers())
        {
            within(key, value, (min, max))?;
        }
        self.check_order()
    }

    /// Refuses a duration that is not shorter than the one it must fit into.
    fn check_order(&self) -> Result<(), Error> {
        let (worker, mesh) = (&self.worker, &self.mesh);
        let pairs = [
            ("worker.step_deadline", worker.step_deadline, "worker.lease", worker.lease),
            (
                "worker.back_off_base",
                worker.back_off_base,
                "worker.back_off_max",
                worker.back_off_max,
            ),
            ("mesh.acknowledgements", mesh.acknowledgements, "mesh.drain_grace", mesh.drain_grace),
        ];
        for (key, value, other, longer) in pairs {
            if value >= longer {
                let why = format!("must be shorter than {other} = {longer}");
                return Err(Error::Bounds { key, value: value.to_string(), why });
            }
        }
        Ok(())
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    (min, max): (T, T),
) -> Result<(), Error> {
    if value >= min && value <= max {
        return Ok(());
    }
    let why = format!("must be between {min} and {max}");
    Err(Error::Bounds { key, value: value.to_string(), why })
}
