//! The processes of the lane. They are known by their command lines, which name its folder, so that
//! also those of a run that crashed are found.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::peers::{API_SERVER, CONTROLLERS, ETCD};
use crate::failure::{Failure, Outcome};

/// How long a process may take to end by itself.
const ENDING: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// The servers, in the order in which they are stopped.
pub(super) const SERVERS: [&str; 3] = [CONTROLLERS, API_SERVER, ETCD];

/// A process of the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) name: &'static str,
    pub(super) pid: Pid,
}

/// Every process whose command line names this folder, in the order of [`SERVERS`].
pub(super) fn running(folder: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<Process> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some(Process { name: server(&String::from_utf8_lossy(&line), folder)?, pid })
        })
        .collect();
    found.sort_by_key(|process| SERVERS.iter().position(|name| *name == process.name));
    found
}

/// The server that a command line starts, if it names the folder.
fn server(line: &str, folder: &Path) -> Option<&'static str> {
    let program = line.split('\0').next()?.rsplit('/').next()?;
    let inside = format!("{}/", folder.display());
    line.contains(&inside).then_some(())?;
    SERVERS.into_iter().find(|name| *name == program)
}

/// Starts a server that outlives this program and writes into a log file.
pub(super) fn start(program: &Path, words: &[String], log: &Path) -> Result<Child, Failure> {
    let failed = |cause: std::io::Error| {
        Failure::message(format!("cannot start {}: {cause}", program.display()))
    };
    let output = File::create(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(output).stderr(errors);
    // An interrupt of the terminal is not meant for it.
    command.process_group(0).spawn().map_err(failed)
}

/// Stops every process of the folder, one after another.
pub(super) fn stop(folder: &Path) -> Outcome {
    for process in running(folder) {
        let _gone = rustix::process::kill_process(process.pid, Signal::TERM);
        if until(ENDING, || !running(folder).contains(&process)) {
            continue;
        }
        let _gone = rustix::process::kill_process(process.pid, Signal::KILL);
        if !until(ENDING, || !running(folder).contains(&process)) {
            let pid = process.pid.as_raw_nonzero();
            return Err(Failure::message(format!("cannot stop {} ({pid})", process.name)));
        }
    }
    Ok(())
}

/// Waits until something is so; `false` if it never was.
#[expect(clippy::disallowed_methods, reason = "a foreign process sends no event when it is ready")]
pub(super) fn until(end: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if started.elapsed() > end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ports of loopback on which nothing listens.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N], Failure> {
    let failed = |cause: std::io::Error| Failure::message(format!("no free port: {cause}"));
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        *port = listener.local_addr().map_err(failed)?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_program_and_the_folder_in_its_words() {
        let folder = Path::new("/r/target/real");
        let line = |text: &str| server(&text.replace(' ', "\0"), folder);
        assert_eq!(line("/c/bin/etcd --data-dir /r/target/real/etcd"), Some(ETCD));
        assert_eq!(line("/c/bin/etcd --data-dir /r/target/reality/etcd"), None);
        assert_eq!(line("/bin/cat /r/target/real/etcd"), None);
    }
}
