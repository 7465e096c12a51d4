//! The commands that call a running server.
//!
//! Read in this order: [`verbs`] (the commands), [`session`] (how a server is found, and which
//! resource a name resolves to), [`client`] (HTTP), [`wait`], [`console`] (output), [`error`] (exit
//! codes), [`environment`].
//!
//! **Absent on purpose**: the server and its store. A command knows only what the API returned.

pub mod client;
pub mod console;
pub mod environment;
pub mod error;
pub mod session;
pub mod verbs;
pub mod wait;
