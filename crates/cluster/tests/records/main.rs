//! Definitions and records, against the embedded API server and, if `USHER_TEST_KUBECONFIG` names
//! one, against another cluster.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod contract;
mod definitions;
mod ending;
mod lamp;
mod ledger;
mod rig;
mod shapes;
