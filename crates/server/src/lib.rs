//! The running server.
//!
//! Read in this order: [`program`] (what is started and stopped), [`worker`] and [`steps`]
//! (reconciliation), [`worlds`] and [`control_plane`] (access to worlds, and what worlds need of
//! the server), [`waker`] (wake-ups by a watch), [`guard`], [`mesh`] and [`alarm`] (state in
//! memory), [`presence`] and [`drains`] (other servers), [`housekeeping`], [`services`] (the API),
//! [`fleet`] (the shard that manages machines), [`place`] and [`seed`] (the data directory).
//! `usher-hosts` has the machines that `usher provider local` offers.

pub mod alarm;
pub mod clock;
pub mod config;
pub mod control_plane;
pub mod drains;
pub mod error;
pub mod fleet;
pub mod guard;
pub mod housekeeping;
pub mod key_file;
pub mod keyring;
mod listener;
pub mod mesh;
pub mod migrate;
pub mod place;
pub mod presence;
pub mod program;
pub mod seed;
pub mod services;
pub mod steps;
pub mod tally;
pub mod waker;
pub mod worker;
pub mod world_records;
mod world_snapshot;
pub mod worlds;
