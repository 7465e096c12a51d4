//! What requests of a cluster say, against the embedded API server.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod answers;
mod clients;
mod guards;
mod kinds;
mod presence;
mod rig;
mod watching;
