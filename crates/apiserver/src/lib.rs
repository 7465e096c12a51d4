//! A Kubernetes-compatible API server to embed.

#[cfg(test)]
mod arbitrary;

pub mod apply;
pub mod jsonpath;
pub mod meta;
pub mod patch;
pub mod schema;
pub mod selector;
