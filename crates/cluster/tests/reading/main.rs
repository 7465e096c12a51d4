//! What requests of a cluster say, against the embedded API server.

mod answers;
mod clients;
mod guards;
mod kinds;
mod presence;
mod rig;
mod watching;
