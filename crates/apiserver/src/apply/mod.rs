//! Server-side apply.
//!
//! [`set`] has field sets, [`view`] how values are merged, [`typed`] the operations on a value in a
//! view, [`managed`] the `managedFields` of an object, and [`ownership`] the two operations
//! [`update`] and [`apply`].

pub mod builtin;
mod last_applied;
pub mod managed;
mod merge;
pub mod ownership;
pub mod set;
pub mod typed;
pub mod view;

pub use ownership::{Applied, Refusal, Request, Reset, apply, described, rescale, update};
pub use set::{Element, Set};
pub use view::View;

#[cfg(test)]
mod tests;
