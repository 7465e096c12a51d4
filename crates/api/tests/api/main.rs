//! The API against ports in memory.

mod agents;
mod bed;
mod bodies;
mod document;
mod events;
mod fake;
mod fuzz;
mod listings;
mod refusals;
mod rights;
mod service;
