//! The reference of all settings as a document, made from the settings themselves.

use std::fmt::Write as _;

use super::{reference, variable_of};

/// Meaning of each setting, sorted by key.
const MEANINGS: [(&str, &str); 61] = [
    ("agent_image", "image from which agents run where they are containers"),
    ("api_url", "URL at which agents reach this server; empty is the address it listens on"),
    ("broker.drain_deadline", "a node that has not left by then is reported as overdue"),
    ("broker.enrolment_deadline", "a node that has not registered by then is reported as overdue"),
    (
        "broker.provisioning_deadline",
        "a substrate that is not ready by then is reported as overdue",
    ),
    ("broker.reconcile_interval", "the longest time between two steps in a transitional phase"),
    ("broker.teardown_deadline", "a substrate that is not gone by then is reported as overdue"),
    ("data_dir", "directory of the server's state; empty is the platform's data directory"),
    ("database.connections_max", "the most connections to PostgreSQL, or readers of SQLite"),
    ("database.log_poll", "how often to poll PostgreSQL for events and drains of other servers"),
    ("database.statement_timeout", "how long one statement may take"),
    ("database.url", "URL of PostgreSQL; required by `usher serve`, not used by `usher up`"),
    ("fleet.call_deadline", "how long a command to a provider, or a read of one machine, may take"),
    ("fleet.configure_deadline", "a Configure that has not ended by then is sent again"),
    ("fleet.create_deadline", "a Create that has not ended by then is sent again"),
    ("fleet.cycle_interval", "how often to list machines and to plan without a change"),
    ("fleet.delete_deadline", "a Delete that has not ended by then is sent again"),
    ("fleet.drain_deadline", "a Drain that has not ended by then, after its grace, is sent again"),
    ("fleet.failed_wait", "how long a machine stays failed before it is salvaged"),
    ("fleet.full_list_interval", "how often to list all machines, not only those that changed"),
    ("fleet.idle_on_demand", "how long an on-demand machine is kept idle"),
    ("fleet.idle_spot", "how long a spot machine is kept idle"),
    ("fleet.lease", "how long the lease of the shard lasts"),
    ("fleet.list_deadline", "how long a list of machines may take"),
    ("fleet.passing_interval", "how often to list changes while machines are in transition"),
    ("fleet.poll_interval", "the longest time between two steps of a machine in transition"),
    ("fleet.provider", "address of the machine provider, as host:port; empty runs no shard"),
    ("fleet.provider_name", "name of the provider in records"),
    (
        "fleet.reclaim_percent",
        "share of a cluster's nodes that may drain at once because they are surplus",
    ),
    ("fleet.shard", "name of the shard, also sent to the provider"),
    ("fleet.steps_max", "the most machines that are reconciled at a time"),
    ("fleet.switch", "whether plans are carried out: `run`, `dry-run` or `paused`"),
    (
        "fleet.tls_ca",
        "file of the CA certificates that verify the provider; all three files or none",
    ),
    ("fleet.tls_cert", "file of the client certificate for the provider"),
    ("fleet.tls_key", "file of the client certificate's key"),
    ("keep.events", "how long events are kept at least"),
    ("keep.idempotency_keys", "how long idempotency keys are remembered"),
    (
        "keep.tombstones",
        "how long a deleted resource is watched and keeps its project from being deleted",
    ),
    ("listen", "address to listen on"),
    (
        "local.agent",
        "what runs the agents of the local world: machines of the `fleet`, a `process` of this \
        server, or an `external` program",
    ),
    ("local.agent_grace", "how long an agent may take to exit before it is killed"),
    (
        "local.forget_tokens",
        "how long the bootstrap token of a started machine may stay in the journal of this \
        computer's hosts",
    ),
    (
        "local.look_interval",
        "how often to check whether hosts and nodes of this computer still exist",
    ),
    ("local.machines", "how many machines this computer's fleet has, if it runs the agents"),
    (
        "local.wait_interval",
        "how often to retry when no machine of the fleet was free, if no event came meanwhile",
    ),
    ("log", "level of the log on stderr: error, warn, info, debug or trace"),
    ("mesh.acknowledgements", "how long other nodes may take to acknowledge that one left"),
    ("mesh.drain_grace", "how long a node may take to leave"),
    ("mesh.heartbeat", "how often a node sends a heartbeat"),
    ("mesh.missed_max", "a node is lost after missing this many heartbeats"),
    (
        "rail.count",
        "the mass-deletion guard trips if more than this many objects vanish unrequested",
    ),
    ("rail.percent", "and they are more than this share of the existing ones"),
    ("rail.window", "within this time"),
    ("tokens.lifetime", "how long a bootstrap token is valid after its substrate is ready"),
    ("worker.back_off_base", "the first back-off"),
    ("worker.back_off_max", "the longest back-off"),
    ("worker.due_query", "how often to query due work without a wake-up"),
    ("worker.lease", "how long a lease lasts"),
    ("worker.request_bound", "how long a request may outlive its worker's lease"),
    ("worker.step_deadline", "how long the steps under one lease may take; shorter than the lease"),
    ("worker.steps_max", "the most steps at a time"),
];

/// The document.
pub fn document() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         `usher up` and `usher serve` read a TOML file (`--config FILE`), then environment\n\
         variables, then `--set KEY=VALUE`; later values win. Unknown keys and values out of\n\
         bounds are refused at the start. `--dump-config` prints the effective values.\n\n\
         | setting | default | variable | meaning |\n|---|---|---|---|\n",
    );
    for (key, default) in reference() {
        let meaning = MEANINGS.iter().find(|(it, _)| *it == key).map_or("", |(_, it)| it);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{key}` | `{default}` | `{}` | {meaning} |", variable_of(&key));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_meaning() {
        let mut keys: Vec<String> = reference().into_iter().map(|(key, _)| key).collect();
        keys.sort();
        let known: Vec<&str> = MEANINGS.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, known);
    }

    // Requirement: D-8
    #[test]
    fn the_committed_reference_is_the_one_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(committed, document(), "run `cargo xtask generate`");
    }
}
