//! The reference of all settings as a document, made from the settings themselves.

use std::fmt::Write as _;

use super::{reference, variable_of};

/// What each setting means, in the order of the file.
const MEANINGS: [(&str, &str); 61] = [
    ("agent_image", "what agents run from, where they are containers"),
    ("api_url", "where agents find this server; empty is the address it listens on"),
    ("broker.drain_deadline", "a node that has not left by then is told as overdue"),
    ("broker.enrolment_deadline", "a node that has not registered by then is told as overdue"),
    ("broker.provisioning_deadline", "a substrate that is not ready by then is told as overdue"),
    ("broker.reconcile_interval", "the longest rest in a passing phase"),
    ("broker.teardown_deadline", "a substrate that has not gone by then is told as overdue"),
    ("data_dir", "where state lies; empty is the data directory of the platform"),
    ("database.connections_max", "the most connections to PostgreSQL, or readers of SQLite"),
    ("database.log_poll", "how often to ask PostgreSQL what other servers told, and who leaves"),
    ("database.statement_timeout", "how long one statement may take"),
    ("database.url", "where PostgreSQL is; only `usher serve` uses it, and needs it"),
    ("fleet.call_deadline", "how long a verb, or a question about one machine, may take"),
    ("fleet.configure_deadline", "a machine that did not join by then is asked again"),
    ("fleet.create_deadline", "a host that was not made by then is asked for again"),
    ("fleet.cycle_interval", "how often to list machines and to plan although nothing was heard"),
    ("fleet.delete_deadline", "a host that was not given back by then is asked for again"),
    ("fleet.drain_deadline", "a machine that did not leave by then, and its grace, is asked again"),
    ("fleet.failed_wait", "how long a failed machine is left alone before it is salvaged"),
    ("fleet.full_list_interval", "how often to list all machines, and not only what changed"),
    ("fleet.idle_on_demand", "how long a machine that is paid for while it stands is kept idle"),
    ("fleet.idle_spot", "how long a machine that may be taken away is kept idle"),
    ("fleet.lease", "how long the lease of the shard runs"),
    ("fleet.list_deadline", "how long a list of machines may take"),
    ("fleet.passing_interval", "how often to list what changed while machines are on their way"),
    ("fleet.poll_interval", "the longest rest of a machine that is on its way"),
    ("fleet.provider", "where the provider of machines listens, as host:port; empty is no shard"),
    ("fleet.provider_name", "what the provider is called in rows"),
    (
        "fleet.reclaim_percent",
        "the share of a cluster's nodes that may be on their way out at once",
    ),
    ("fleet.shard", "what the shard is called, toward the provider as well"),
    ("fleet.steps_max", "the most machines that are worked on at a time"),
    ("fleet.switch", "whether plans are acted upon: `run`, `dry-run` or `paused`"),
    ("fleet.tls_ca", "the file of who vouches for the provider; all three files or none"),
    ("fleet.tls_cert", "the file of the certificate that is shown to the provider"),
    ("fleet.tls_key", "the file of its key"),
    ("keep.events", "how long events are kept at least"),
    ("keep.idempotency_keys", "how long idempotency keys are remembered"),
    ("keep.tombstones", "how long a deleted resource is watched and holds its project"),
    ("listen", "where to listen"),
    (
        "local.agent",
        "who runs the agents of the local world: machines of the `fleet`, the world itself as a \
        `process`, or somebody `external`",
    ),
    ("local.agent_grace", "how long an agent may take to end before it is killed"),
    (
        "local.forget_tokens",
        "how long the bootstrap token of a started machine may stay in the file of this machine's \
        hosts",
    ),
    ("local.look_interval", "how often vanished hosts and nodes of this machine are looked for"),
    ("local.machines", "how many machines the fleet of this machine has, where it runs the agents"),
    (
        "local.wait_interval",
        "how often whoever found no machine of the fleet free looks again, although nothing was \
        heard of one",
    ),
    ("log", "how much is told on stderr: error, warn, info, debug or trace"),
    ("mesh.acknowledgements", "how long other nodes may take to acknowledge that one left"),
    ("mesh.drain_grace", "how long a node may take to leave"),
    ("mesh.heartbeat", "how often a node says that it lives"),
    ("mesh.missed_max", "a node is lost after missing this many"),
    ("rail.count", "more than this many must vanish unasked to trip the rail"),
    ("rail.percent", "and more than this share of what stands"),
    ("rail.window", "within this time"),
    ("tokens.lifetime", "how long a bootstrap token lives once its substrate is ready"),
    ("worker.back_off_base", "the first back-off"),
    ("worker.back_off_max", "the longest back-off"),
    ("worker.due_query", "how often to look who is due although nothing was heard"),
    ("worker.lease", "how long a lease runs"),
    ("worker.request_bound", "how long a request may outlive its driver's lease"),
    ("worker.step_deadline", "how long the steps under one lease may take; shorter than it"),
    ("worker.steps_max", "the most steps at a time"),
];

/// The document.
pub fn document() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         `usher up` and `usher serve` read a TOML file (`--config FILE`), then variables, then\n\
         `--set KEY=VALUE`; what comes later wins. A key that nobody knows and a figure out of\n\
         its bounds are refused at the start. `--dump-config` prints what would be used.\n\n\
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
