//! HTTP: parse, ask a port, render.
//!
//! Read `ports` (what is asked for), `route` (what a route says of itself), `surface` (the way of a
//! request), then any file of `routes`.
//!
//! **Invariants**
//! - No rule of the domain stands here, and nothing is stored here.
//! - Nobody gets past a route without the right it names.
//! - Every refusal is a problem with a closed code, and every code has a status and a page.
//! - No secret is logged, and none is answered but by the call that made it.

mod call;
pub mod codes;
pub mod fleet;
mod log;
mod metrics;
pub mod openapi;
pub mod ports;
mod problem;
pub mod refusal;
mod render;
mod route;
mod routes;
mod stream;
mod surface;
pub mod views;

pub use call::{BODY_MAX, IDEMPOTENCY_KEY, LIMIT, LIMIT_MAX};
pub use metrics::Metrics;
pub use route::{Right, Route};
pub use routes::all as routes;
pub use surface::{REQUEST_ID, Surface};
