//! Measurements of this machine.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const TRIES: usize = 101;

/// How long it takes to write 4 KiB to the end of a file and sync it: the middle of many tries.
pub(crate) fn sync(folder: &Path) -> Duration {
    let mut file = File::create(folder.join("sync")).expect("a file");
    let mut times: Vec<Duration> = (0..TRIES)
        .map(|_| {
            let started = Instant::now();
            file.write_all(&[7; 4096]).expect("written");
            file.sync_data().expect("synced");
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[TRIES / 2]
}

/// The CPU time of this process.
pub(crate) fn busy() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a status");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(2);
    TICK * ticks.map(|ticks| ticks.parse::<u32>().expect("a number")).sum()
}

/// The resident memory of this process.
pub(crate) fn resident() -> usize {
    resident_of(std::process::id())
}

/// The resident memory of a process.
pub(crate) fn resident_of(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}
