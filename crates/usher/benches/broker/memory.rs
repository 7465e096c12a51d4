//! Memory of a server with many resources.

use std::time::Instant;

use crate::Sizes;
use crate::caller::Caller;
use crate::crowd::Crowd;
use crate::follow::Follower;
use crate::ground::Ground;
use crate::house::House;
use crate::report::say;
use crate::together::side_by_side;

/// Concurrent provisions.
const AT_A_TIME: u64 = 32;
/// Number of measurements on the way.
const LOOKS: u64 = 4;

/// Fills a server with nodes that enrolled and send no heartbeats.
pub(crate) async fn measure(ground: &Ground, sizes: Sizes) {
    let mut house = ground.house("memory").await;
    let _crowd = Crowd::gather_silent(&house.data());
    say("\n| resources | resident MB | at most MB | made per second |");
    say("|---:|---:|---:|---:|");
    let follower = Follower::new(&house).await;
    told(&house, 0, 0.0);
    for look in 0..LOOKS {
        let share = sizes.resources / LOOKS;
        let begun = Instant::now();
        fill(house.caller(), &follower, (look * share, share)).await;
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = share as f64 / begun.elapsed().as_secs_f64();
        told(&house, (look + 1) * share, rate);
    }
    drop(follower);
    house.stop().await;
    house.start(None);
    house.until_ready().await;
    say(format_args!("after a restart: {:.0} MB resident", megabytes(&house, "VmRSS")));
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

fn told(house: &House, resources: u64, rate: f64) {
    let [now, most] = ["VmRSS", "VmHWM"].map(|it| megabytes(house, it));
    say(format_args!("| {resources} | {now:.0} | {most:.0} | {rate:.1} |"));
}

/// A value of `/proc/PID/status` in MB.
fn megabytes(house: &House, key: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", house.pid())).unwrap();
    let line = status.lines().find(|it| it.starts_with(key)).unwrap();
    let kilobytes: f64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}
