//! A kit for machine providers: an author implements [`Backend`], the kit does the rest.
//!
//! Read in this order: [`backend`] (what an author implements), [`state`] (the rules), [`journal`]
//! (durability), [`kit`] (both joined with a backend), [`service`] and [`server`] (gRPC). [`fake`]
//! is a backend without machines, [`conformance`] the test suite for providers.
//!
//! **Invariants**
//! - A crash never undoes what a response said.
//! - A response says that a verb was accepted, never that it has ended.
//!
//! **Absent on purpose**: everything of Usher but the wire. A provider knows machines, not their
//! use.

#![warn(missing_docs)]

pub mod backend;
pub mod conformance;
pub mod fake;
pub mod journal;
pub mod kit;
pub mod program;
pub mod server;
pub mod service;
pub mod state;

pub use backend::{Backend, Command, CreatedHost, Fault, LostHost};
pub use kit::{Kit, KitError, Options, StartError, Timeouts};
pub use server::{ServeError, serve};
pub use service::Service;
