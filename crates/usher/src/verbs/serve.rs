//! `usher serve`: the production server.

use std::process::ExitCode;

use super::up::{self, Flags};
use usher_server::program::Role;

pub(super) fn run(flags: &Flags) -> ExitCode {
    up::run(flags, Role::Serve)
}
