//! The client's verbs against a server that answers from a list.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod fleet;
mod server;
mod verbs;
