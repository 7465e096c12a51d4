//! What should exist outside: every manifest the broker writes, a pure function of pinned values.
//!
//! **Invariants**
//! - Equal input gives equal bytes; nothing here does I/O, logs or waits.
//! - Every object carries the record and the installation it belongs to; all but the anchor are
//!   owned by the anchor of their generation.
//! - Operator values are under `spec.parameters` only, so none lands on a key of Crossplane's.
//! - A token is written to exactly one place; a credential to none.

pub mod agent;
pub mod anchor;
pub mod cloud_init;
pub mod daemon_set;
pub mod inject;
pub mod provider_config;
pub mod tags;
pub mod xr;

pub use agent::{Agent, AgentImage, ApiUrl};
pub use anchor::OwnerLabels;
pub use daemon_set::TokenDelivery;
pub use inject::inject;
pub use provider_config::{ProviderConfig, external_secret, provider_config};
pub use tags::{Reason, Skipped, Tags, tags};
pub use xr::{Xr, xr};
