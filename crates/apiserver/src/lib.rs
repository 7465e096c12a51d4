//! A Kubernetes-compatible API server to embed.

mod admission;
pub mod apply;
#[cfg(test)]
mod arbitrary;
mod auth;
mod bootstrap;
mod clock;
mod controllers;
mod core;
mod counters;
mod discovery;
mod events;
mod faults;
mod http;
pub mod jsonpath;
mod kinds;
mod managed;
pub mod meta;
mod openapi;
pub mod patch;
pub mod schema;
pub mod selector;
mod server;
mod shape;
mod status;
mod store;
mod strategy;
mod table;
mod verbs;
mod view;

pub use auth::User;
pub use counters::Counted;
pub use faults::{Asked, Fault};
pub use server::{ApiServer, Builder, StartError};
pub use store::{Durability, DurabilityError, FileDurability, Kept, Loaded, Record};
