//! HTTP: parse, call a port, render.
//!
//! Read `ports` (what the server implements), `route` (how a route is declared), `router` (the path
//! of a request), then any file of `routes`.
//!
//! **Invariants**
//! - No rule of the domain is decided here, and nothing is stored here.
//! - A request reaches a route only with the right that the route declares.
//! - Every refusal is a problem with a closed code, and every code has a status and a page.
//! - No secret is logged, and none is returned but by the call that created it.

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
mod router;
mod routes;
mod stream;
pub mod views;

pub use call::{BODY_MAX, IDEMPOTENCY_KEY, LIMIT, LIMIT_MAX};
pub use metrics::Metrics;
pub use route::{Right, Route};
pub use router::{AppState, REQUEST_ID};
pub use routes::all as routes;
