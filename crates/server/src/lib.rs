//! What runs while a server runs.
//!
//! Read in this order: [`program`] (what is started and stopped), [`worker`] and [`steps`] (who
//! drives the lives), [`worlds`] and [`control_plane`] (how worlds are
//! reached, and what they ask), [`waker`] (who is woken by it), [`guard`],
//! [`mesh`] and [`alarm`] (what only this process remembers), [`housekeeping`], [`services`] (who
//! answers the routes), [`fleet`] (the shard that drives machines), [`place`] and [`seed`] (what
//! lies in a data directory). `usher-hosts` has the machines that `usher provider local` offers.

pub mod alarm;
pub mod clock;
pub mod config;
pub mod control_plane;
pub mod drains;
pub mod error;
pub mod fleet;
pub mod guard;
pub mod housekeeping;
pub mod mesh;
pub mod migrate;
pub mod place;
pub mod program;
pub mod seed;
pub mod services;
mod standings;
pub mod steps;
pub mod tally;
pub mod waker;
pub mod worker;
pub mod world_records;
pub mod worlds;
