//! A kit for providers of machines: an author writes a [`Backend`], and has the rest.
//!
//! Read in this order: [`backend`] (what an author writes), [`state`] (the rules), [`journal`] (how
//! they survive), [`kit`] (both joined with a substrate), [`service`] and [`server`] (the wire).
//! [`fake`] is a substrate without machines, [`conformance`] what every provider must do.
//!
//! **Invariants**
//! - Nothing is answered that a crash could take back.
//! - An answer says that something was accepted, never that it is done.
//!
//! **Absent on purpose**: everything of ours but the wire. A provider knows machines, not what they
//! are for.

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
