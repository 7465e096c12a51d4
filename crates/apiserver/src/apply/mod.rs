//! Server-side apply: who owns which fields, and what an applied configuration makes of an object.
//!
//! [`set`] holds field sets, [`view`] how values are merged, [`typed`] what can be done with a
//! value in that view, [`managed`] the `managedFields` of an object, and [`ownership`] the two
//! operations on them: [`update`] and [`apply`].

pub mod builtin;
pub mod managed;
mod merge;
pub mod ownership;
pub mod set;
pub mod typed;
pub mod view;

pub use ownership::{Applied, Refusal, Request, Reset, apply, update};
pub use set::{Element, Set};
pub use view::View;

#[cfg(test)]
mod tests;
