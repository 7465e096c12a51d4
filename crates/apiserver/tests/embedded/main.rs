//! The embedded server.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod access;
#[path = "../rig/call.rs"]
mod call;
mod client;
mod cluster;
mod differences;
mod disturbed;
mod events;
mod faults;
#[path = "../replay/hook.rs"]
mod hook;
mod limits;
mod ordering;
mod policies;
mod rebuilt;
mod reviews;
mod shown;
mod terminating;
mod tls;
mod validation;
mod watches;
mod webhooks;
mod writes;

pub(crate) use call::call;
