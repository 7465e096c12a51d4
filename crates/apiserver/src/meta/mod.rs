//! Metadata: what every object has, how it is checked, and how a check is told.
//!
//! [`field`] holds the errors of fields, with the wording that clients of Kubernetes read; the
//! other folders reuse it. [`name`] holds the rules of names, [`object`] those of `metadata`.

pub mod field;
pub mod name;
pub mod object;

pub use field::{Cause, FieldError, Path};
