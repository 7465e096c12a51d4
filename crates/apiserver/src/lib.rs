//! A Kubernetes-compatible API server to embed: one process, one file, no etcd.
//!
//! It serves custom resources and the built-in kinds that controllers need, to clients in the
//! process and behind TLS, and is judged by what a real server was recorded to answer.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use usher_apiserver::{ApiServer, Fault};
//!
//! let server = ApiServer::builder().file("cluster.redb").build().await?;
//! let client = server.client(); // a kube client without sockets
//! let address = server.serve(([127, 0, 0, 1], 0).into()).await?; // for everybody else
//! let kubeconfig = server.kubeconfig(); // for kubectl
//! server.set_faults(|request| match request.verb.as_str() {
//!     "update" => Fault::Refuse(500),
//!     _ => Fault::None,
//! });
//! server.shutdown().await;
//! # drop((client, address, kubeconfig));
//! # Ok(())
//! # }
//! ```
//!
//! **Invariants**
//!
//! - Revisions are one sequence, never given twice, also not after a restart.
//! - A write is answered when it is durable, and nobody sees it before.
//! - A watch tells every change after its revision once and in order, or ends; what is forgotten is
//!   told as 410.
//! - No lock is held while a webhook or a rule is asked; what they judged is checked again by its
//!   revision when the write is entered.
//! - Nothing is deleted for an owner whose kind is not served.
//!
//! **Absent on purpose**: pods and whatever runs them, mutating webhooks, conversion between
//! versions by webhook, and decisions of RBAC. Every user with a token may do everything. Protobuf
//! is read where `kubectl` sends it, and never written.

#![warn(missing_docs)]

// The pure parts are open to the tests that ask them what a real server was asked; they are no part
// of what is promised.
mod admission;
#[doc(hidden)]
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
#[doc(hidden)]
pub mod jsonpath;
mod kinds;
mod managed;
#[doc(hidden)]
pub mod meta;
mod normalize;
mod openapi;
#[doc(hidden)]
pub mod patch;
mod protobuf;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod selector;
mod serialize;
mod server;
mod status;
mod store;
mod strategy;
mod table;
mod verbs;
mod view;

pub use auth::User;
pub use counters::RequestKey;
pub use faults::{Fault, RequestInfo};
pub use server::{ApiServer, Builder, StartError};
pub use store::{Durability, DurabilityError, FileDurability, Loaded, Record, StoredObject};
