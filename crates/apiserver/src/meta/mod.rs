//! Validation of `metadata`.
//!
//! [`field`] has the field errors with the messages of Kubernetes, which the other modules use;
//! [`name`] the rules of names, [`object`] those of `metadata`.

pub mod field;
pub mod name;
pub mod object;

pub use field::{Cause, FieldError, Path};
