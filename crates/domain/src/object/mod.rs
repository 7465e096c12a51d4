//! What every context may use: ids, names, labels, providers and manifests as data.

pub mod authority;
pub mod closed;
pub mod enrolment;
#[cfg(test)]
pub(crate) mod fixture;
pub mod id;
pub mod idempotency;
pub mod key;
pub mod kv;
pub mod label;
pub mod manifest;
pub mod name;
pub mod occupancy;
pub mod offender;
pub mod provider;
pub mod reasons;
pub mod slug;
pub(crate) mod text;
pub(crate) mod unknown;
