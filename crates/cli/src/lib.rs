//! The verbs that ask a running server.
//!
//! Read in this order: [`verbs`] (what a person can type), [`session`] (how a server is found, and
//! which resource a name means), [`client`] (calls to it), [`wait`], [`console`] (what is printed),
//! [`stop`] (exit codes), [`environment`].
//!
//! **Absent on purpose**: the server and its store. What a verb knows, it was answered.

pub mod client;
pub mod console;
pub mod environment;
pub mod session;
pub mod stop;
pub mod verbs;
pub mod wait;
