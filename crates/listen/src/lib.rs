//! One listener for every server of ours: accept, limit, TLS with reload.
//!
//! ```text
//!   accept ─▶ room? ─▶ TLS ─▶ head ─▶ service ─▶ answer ─▶ idle ─┐
//!               │                      ▲                        │
//!               └─ the oldest          └──────── next head ◀────┘
//!                  waiting one
//!                  gives way           every arrow has a deadline
//! ```
//!
//! Read `limits` (who gives way to whom) and `deadline` (how long a peer may take), which are pure;
//! then `connection` (one connection under both) and `listener` (the accept loop).
//!
//! **Invariants**
//! - A peer that sends or reads nothing is cut; a stream that a token opened lives on.
//! - A new connection is answered as long as one without a token only waits.
//! - Descriptors are left for the rest of the process.
//! - A certificate that does not load never replaces one that works.

mod body;
mod connection;
mod counts;
mod deadline;
mod descriptors;
mod handle;
mod limits;
mod listener;
mod service;
mod tls;
mod watched_io;

pub use body::{BodyTimeout, RequestBody};
pub use counts::{CloseReason, Counts};
pub use deadline::Deadlines;
pub use descriptors::{connections_max, descriptors_max, raise_descriptors};
pub use limits::Limits;
pub use listener::{Settings, bind, serve};
pub use service::{Authenticated, ClientCertificate};
pub use tls::{Tls, TlsError, TlsFiles};
