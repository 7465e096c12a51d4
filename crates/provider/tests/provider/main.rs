//! Providers asked over the wire, started as processes, and killed.

mod asked;
mod certified;
mod killed;
mod named;
mod stage;
