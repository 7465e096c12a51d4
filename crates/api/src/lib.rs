//! HTTP: parse, ask a port, render.
//!
//! **Invariants**
//! - No rule of the domain stands here, and nothing is stored here.
//! - Nobody gets past a route without the right it names.
//! - Every refusal is a problem with a closed code, and every code has a status and a page.
//! - No secret is logged, and none is answered but by the call that made it.

pub mod ports;
pub mod refusal;
pub mod views;
