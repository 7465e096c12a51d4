//! The client commands against a server with canned responses.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod fleet;
mod server;
mod tokens;
mod verbs;
