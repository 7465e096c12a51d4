//! A Kubernetes-compatible API server to embed: one process, one file, no etcd.
//!
//! It serves custom resources and the built-in kinds that controllers need, to in-process clients
//! and over TLS. Recorded responses of a real server are its reference.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use usher_apiserver::{ApiServer, Fault};
//!
//! let server = ApiServer::builder().file("cluster.redb").build().await?;
//! let client = server.client(); // a kube client without sockets
//! let address = server.serve(([127, 0, 0, 1], 0).into()).await?; // for clients of other processes
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
//! A test of a controller starts with such a server, gives `server.client()` to the controller, and
//! waits for what it should do; `examples/controller.rs` is a complete one with kube-rs's own
//! `Controller`, and `docs/apiserver.md` a page for beginners. Every test has a cluster of its own,
//! and no sockets, files or processes.
//!
//! **Invariants**
//!
//! - Revisions are one sequence and never reused, even after a restart.
//! - A write is answered when it is durable, and not visible before.
//! - A watch delivers every change after its revision once and in order, or ends; a compacted
//!   revision is answered with 410.
//! - No lock is held while a webhook or a rule runs; the write is refused if the object's revision
//!   has changed since.
//! - Nothing is deleted because of an owner whose kind is not served.
//! - A user does what a role allows. The in-process client and the kubeconfig are of an
//!   administrator.
//!
//! **Absent on purpose**: pods and their controllers, mutating webhooks and conversion webhooks.
//! Protobuf is accepted where `kubectl` sends it, and returned for the `OpenAPI` v2 document only.

#![warn(missing_docs)]

// The pure modules are public for the replay tests; they are not part of the stable interface.
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
mod credentials;
mod discovery;
mod events;
mod faults;
mod health;
mod http;
#[doc(hidden)]
pub mod jsonpath;
mod kinds;
mod managed;
#[doc(hidden)]
pub mod meta;
mod metrics;
mod normalize;
mod openapi;
#[doc(hidden)]
pub mod patch;
mod protobuf;
mod rbac;
mod reviews;
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
pub use faults::{COLLECTOR, Fault, RequestKind};
pub use server::{ApiServer, Builder, StartError};
pub use store::{Durability, DurabilityError, FileDurability, Loaded, Record, StoredObject};
