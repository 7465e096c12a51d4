//! The Lease and the object runner, against the embedded API server and, where
//! `USHER_TEST_KUBECONFIG` names one, against a real cluster.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod contract;
mod disturbed;
mod item;
mod leases;
mod rig;
mod stepping;
mod terms;
