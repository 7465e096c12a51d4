//! Everything that speaks to a Kubernetes API.
//!
//! It is the one room in which rules meet Kubernetes: what a request asks, what an answer means,
//! where a record is kept, and which replica acts.

pub mod answer;
pub mod client;
pub mod guard;
pub mod kinds;
pub mod pin;
pub mod read;
pub mod watches;
