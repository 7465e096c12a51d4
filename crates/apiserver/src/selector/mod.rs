//! Label and field selectors.

pub mod field;
pub mod label;
mod lexer;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// An invalid selector, with the message for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

#[cfg(test)]
mod tests;
