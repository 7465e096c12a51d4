//! The reference of all settings, generated from the settings.

use std::fmt::Write as _;

use super::{reference, variable_of};

/// The description of each setting, in the order of the file.
const MEANINGS: [(&str, &str); 72] = [
    ("agent_image", "image of the agents, where they run as containers"),
    ("api_url", "URL of this server for agents; empty is the address it listens on"),
    ("broker.drain_deadline", "after this a node that has not left is overdue"),
    ("broker.enrolment_deadline", "after this a node that has not registered is overdue"),
    ("broker.provisioning_deadline", "after this a substrate that is not ready is overdue"),
    ("broker.reconcile_interval", "the longest requeue interval of a resource in transition"),
    ("broker.teardown_deadline", "after this a substrate that still exists is overdue"),
    ("connections.body_deadline", "how long a request body may take; then it is answered with 408"),
    ("connections.header_deadline", "how long a request head may take, the TLS handshake included"),
    ("connections.idle_deadline", "how long a connection may be idle"),
    ("connections.idle_deadline_authenticated", "the same after a request with a valid token"),
    ("connections.per_peer", "the most connections from one address that have shown no token"),
    (
        "connections.unauthenticated",
        "the most connections that have shown no token; the oldest waiting one of the address with \
         the most gives way",
    ),
    (
        "connections.write_deadline",
        "how long a peer may read nothing of its answer, or without a token not all of it",
    ),
    ("data_dir", "where state is stored; empty is the data directory of the platform"),
    ("database.connections_max", "size of the connection pool of PostgreSQL or SQLite"),
    ("database.log_poll", "how often to poll PostgreSQL for events and drains of other servers"),
    ("database.statement_timeout", "timeout of one statement"),
    ("database.url", "URL of PostgreSQL; required by `usher serve`, unused by `usher up`"),
    ("fleet.call_deadline", "timeout of a request about one machine"),
    ("fleet.configure_deadline", "after this a machine that did not join is configured again"),
    ("fleet.create_deadline", "after this a missing host is requested again"),
    ("fleet.cycle_interval", "how often to list machines and plan without an event"),
    ("fleet.delete_deadline", "after this the deletion of a remaining host is requested again"),
    ("fleet.drain_deadline", "after this and its grace a remaining machine is drained again"),
    ("fleet.failed_wait", "how long a failed machine is kept before it is salvaged"),
    ("fleet.full_list_interval", "how often to list all machines instead of changes only"),
    ("fleet.idle_on_demand", "how long an idle on-demand machine is kept"),
    ("fleet.idle_spot", "how long an idle spot machine is kept"),
    ("fleet.lease", "duration of the shard lease"),
    ("fleet.list_deadline", "timeout of a list request"),
    ("fleet.passing_interval", "how often to list changes while machines are in transition"),
    ("fleet.poll_interval", "the longest requeue interval of a machine in transition"),
    ("fleet.provider", "address of the machine provider as host:port; empty is no shard"),
    ("fleet.provider_name", "name of the provider in records"),
    ("fleet.reclaim_percent", "how many percent of a cluster's nodes may be drained at once"),
    ("fleet.shard", "name of the shard, also toward the provider"),
    ("fleet.steps_max", "how many machines are reconciled at a time"),
    ("fleet.switch", "whether plans are carried out: `run`, `dry-run` or `paused`"),
    ("fleet.tls_ca", "file of the CA of the provider; set all three TLS files or none"),
    ("fleet.tls_cert", "file of the client certificate for the provider"),
    ("fleet.tls_key", "file of the key of the client certificate"),
    ("guard.count", "the mass-deletion guard trips if more than this many vanish unasked"),
    ("guard.percent", "and more than this many percent of what exists"),
    ("guard.window", "within this time"),
    ("keep.events", "how long events are retained at least"),
    ("keep.idempotency_keys", "how long idempotency keys are retained"),
    ("keep.tombstones", "how long a tombstone is watched and blocks its project"),
    (
        "key.file",
        "file of the keys that secrets are derived with, one per line; empty is `server.key` in \
        the data directory",
    ),
    ("listen", "address to listen on"),
    (
        "local.agent",
        "what runs the agents of the local world: machines of the `fleet`, a `process` of the \
        world itself, or an `external` program",
    ),
    ("local.agent_grace", "how long an agent may take to exit before it is killed"),
    (
        "local.forget_tokens",
        "how long the bootstrap token of a started machine stays in the state of the local \
        provider",
    ),
    ("local.look_interval", "how often the local provider checks for missing hosts and nodes"),
    ("local.machines", "number of machines of the local provider"),
    ("local.wait_interval", "how often a resource retries to get a machine without an event"),
    ("log", "log level on stderr: error, warn, info, debug or trace"),
    ("mesh.acknowledgements", "how long other nodes may take to acknowledge that a node left"),
    ("mesh.drain_grace", "how long a node may take to leave"),
    ("mesh.heartbeat", "heartbeat interval of a node"),
    ("mesh.missed_max", "a node is lost after this many missed heartbeats"),
    ("tls.certificate", "PEM file of the certificate and its intermediates; empty is no TLS"),
    ("tls.client_ca", "PEM file of the CA whose certificates agents must show; empty is none"),
    ("tls.key", "PEM file of the key; all three files are read again when they change"),
    ("tokens.lifetime", "how long a bootstrap token is valid once its substrate is ready"),
    ("worker.back_off_base", "the first back-off"),
    ("worker.back_off_max", "the longest back-off"),
    ("worker.due_query", "how often to query the queue without a wake-up"),
    ("worker.lease", "duration of a lease"),
    ("worker.request_bound", "how long a request may outlive the lease of its worker"),
    ("worker.step_deadline", "how long the steps under one lease may take; shorter than the lease"),
    ("worker.steps_max", "how many items are reconciled at a time"),
];

pub fn document() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         `usher up` and `usher serve` read a TOML file (`--config FILE`), then variables, then\n\
         `--set KEY=VALUE`; the later source wins. An unknown key or a value out of bounds is\n\
         refused at the start. `--dump-config` prints the effective configuration.\n\n\
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
    fn every_setting_is_described() {
        let mut keys: Vec<String> = reference().into_iter().map(|(key, _)| key).collect();
        keys.sort();
        let known: Vec<&str> = MEANINGS.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, known);
    }

    // Requirement: D-8
    #[test]
    fn the_committed_reference_matches_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(committed, document(), "run `cargo xtask generate`");
    }
}
