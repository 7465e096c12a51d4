//! What a blueprint is made of: its parameters, its composite type, how a token gets in.
//!
//! It is shared vocabulary: the catalog publishes these values, the broker pins and renders them.

pub mod injection;
pub mod parameter;
pub mod xrd;

pub use injection::{InjectionStrategy, MeshRole};
pub use parameter::{ParameterSchema, ParameterValues};
pub use xrd::CompositeType;
