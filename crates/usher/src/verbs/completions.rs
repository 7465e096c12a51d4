//! `usher completions`: completions for a shell.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The shell
    shell: Shell,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    let mut command = super::Args::command();
    clap_complete::generate(flags.shell, &mut command, "usher", &mut std::io::stdout());
    ExitCode::SUCCESS
}
