//! The store on both databases. Every test of the store runs on SQLite and on PostgreSQL; without
//! PostgreSQL that half is skipped with a message.

#[cfg(test)]
mod backup;
#[cfg(test)]
mod commit;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod control_plane;
#[cfg(test)]
mod declare;
#[cfg(test)]
mod demand;
#[cfg(test)]
mod enrolment;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod group;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod log;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod machine_commands;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod real;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod running;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod sink;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tenancy;
#[cfg(test)]
mod test_store;
#[cfg(test)]
mod trouble;

/// A setting of a soak, which is this program with larger numbers.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests have no Config; this is their one place")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A number that a soak sets, or the default of the tests.
#[cfg(test)]
fn asked(name: &str, default: u64) -> u64 {
    variable(name).map_or(default, |it| it.parse().unwrap())
}
