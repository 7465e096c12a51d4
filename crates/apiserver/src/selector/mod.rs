//! Selectors: the strings by which lists and watches are narrowed, parsed, printed and matched.

pub mod field;
pub mod label;
mod lexer;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// A selector that cannot be read; the text is what a client is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

#[cfg(test)]
mod tests;
