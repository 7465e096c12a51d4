//! Simulated nodes for a server with `local.agent=external`: one process for all of them.
//!
//! `cargo run --example nodes -- DATA_DIR [--silent]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for tests, run by hand"
)]

#[path = "../tests/walk/fake_agents.rs"]
mod fake_agents;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// How often the counts are printed.
const SAY_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let Some(data) = std::env::args().nth(1).map(PathBuf::from).filter(|it| it.is_dir()) else {
        eprintln!("usage: nodes DATA_DIR [--silent]");
        return std::process::ExitCode::from(2);
    };
    let silent = std::env::args().any(|it| it == "--silent");
    let start = if silent {
        fake_agents::FakeAgents::gather_silent
    } else {
        fake_agents::FakeAgents::gather
    };
    let agents = start(&data);
    let mut printed = String::new();
    loop {
        let fake_agents::Counts { booted, enrolled, refused, left } = &*agents.counts;
        let [booted, enrolled, refused, left] =
            [booted, enrolled, refused, left].map(|it| it.load(Ordering::Relaxed));
        let text = format!("{booted} booted, {enrolled} enrolled, {refused} refused, {left} left");
        if text != printed {
            println!("{text}");
            printed = text;
        }
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return std::process::ExitCode::SUCCESS,
            () = tokio::time::sleep(SAY_EVERY) => {}
        }
    }
}
