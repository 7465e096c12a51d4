//! Processor time as the kernel counts it: on a busy machine it is more stable than wall time.

use std::fs;

/// Kernel clock ticks per second.
const TICKS: f64 = 100.0;

/// Processor milliseconds of a process.
pub(crate) fn own(pid: u32) -> f64 {
    let [user, system, ..] = times(pid).unwrap_or_default();
    (user + system) * 1e3 / TICKS
}

/// Processor milliseconds of a process and its children, running or reaped.
pub(crate) fn family(pid: u32) -> f64 {
    let ended: f64 = times(pid).unwrap_or_default()[2..].iter().sum();
    own(pid) + ended * 1e3 / TICKS + children(pid).map(own).sum::<f64>()
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

fn children(of: u32) -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|it| it.file_name().to_str()?.parse().ok());
    numbers.filter(move |it| parent(*it) == Some(of))
}

/// User and system time, then those of reaped children, in ticks.
fn times(pid: u32) -> Option<[f64; 4]> {
    let fields = stat(pid)?;
    let ticks: Vec<f64> = fields.get(11..15)?.iter().filter_map(|it| it.parse().ok()).collect();
    ticks.try_into().ok()
}

/// The fields of `/proc/PID/stat`, from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}
