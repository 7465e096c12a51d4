//! `usher provider` as a person runs it: real hosts, real nodes, and a provider that is killed.

mod house;
mod local;
