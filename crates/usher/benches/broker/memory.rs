//! Memory of a server with many resources.

use std::time::Instant;

use crate::Sizes;
use crate::bench_env::BenchEnv;
use crate::caller::Caller;
use crate::fake_agents::FakeAgents;
use crate::follow::Follower;
use crate::report::say;
use crate::test_server::TestServer;
use crate::together::side_by_side;

/// Concurrent provisions.
const AT_A_TIME: u64 = 32;
/// Number of intermediate measurements.
const LOOKS: u64 = 4;

/// Fills a server with nodes that enrolled and send no heartbeats.
pub(crate) async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    let mut server = bench_env.server("memory").await;
    let _agents = FakeAgents::gather_silent(&server.data());
    say("\n| resources | resident MB | at most MB | made per second |");
    say("|---:|---:|---:|---:|");
    let follower = Follower::new(&server).await;
    print_row(&server, 0, 0.0);
    for round in 0..LOOKS {
        let share = sizes.resources / LOOKS;
        let begun = Instant::now();
        fill(server.caller(), &follower, (round * share, share)).await;
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = share as f64 / begun.elapsed().as_secs_f64();
        print_row(&server, (round + 1) * share, rate);
    }
    drop(follower);
    server.stop().await;
    server.start(None);
    server.until_ready().await;
    say(format_args!("after a restart: {:.0} MB resident", megabytes(&server, "VmRSS")));
}

async fn fill(caller: &Caller, follower: &Follower, (first, count): (u64, u64)) {
    let makers = (0..AT_A_TIME).map(|maker| async move {
        for number in (first..first + count).filter(|it| it % AT_A_TIME == maker) {
            let id = caller.provision(&format!("node-{number}")).await;
            follower.until(&id, "Ready").await;
        }
    });
    side_by_side(makers).await;
}

fn print_row(server: &TestServer, resources: u64, rate: f64) {
    let [now, most] = ["VmRSS", "VmHWM"].map(|it| megabytes(server, it));
    say(format_args!("| {resources} | {now:.0} | {most:.0} | {rate:.1} |"));
}

/// A value of `/proc/PID/status` in MB.
fn megabytes(server: &TestServer, key: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|it| it.starts_with(key)).unwrap();
    let kilobytes: f64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}
