//! The processes: how they are started, disturbed and ended.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use usher_apiserver::ApiServer;

/// In a folder with this file the program is the API server.
pub(crate) const SERVER: &str = "server";
/// In a folder with this file it acts; the file has its name.
pub(crate) const ACTS: &str = "acts";
pub(crate) const KUBECONFIG: &str = "kubeconfig";
pub(crate) const STARTED: &str = "started";
const DATA: &str = "cluster.redb";
const CREDENTIALS: &str = "credentials";
/// The address that is kept over restarts.
const ADDRESS: &str = "address";

/// A child process that ends with its owner.
struct Process {
    child: Child,
    /// A process that acts stops when this is closed.
    stdin: Option<ChildStdin>,
}

/// The API server.
pub(crate) struct Server {
    folder: PathBuf,
    process: Process,
    copies: usize,
}

/// A process with an elector and a runner.
pub(crate) struct Actor {
    folder: PathBuf,
    pub(crate) name: String,
    process: Process,
}

impl Process {
    /// Starts this program in a folder, and waits until it says so.
    fn start(folder: &Path) -> Self {
        let name = "no_effect_of_an_overtaken_process_and_every_object_stepped";
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--nocapture"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let is_started = lines.any(|line| line.is_ok_and(|line| line == STARTED));
        assert!(is_started, "the process in {} does not start", folder.display());
        // Nothing may block because its output is not read.
        std::thread::spawn(move || lines.for_each(drop));
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("a signal");
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        let folder = root.join("apiserver");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join(SERVER), "").expect("a folder for the server");
        let process = Process::start(&folder);
        Self { folder, process, copies: 0 }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }

    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.process = Process::start(&self.folder);
    }

    /// A copy of the data as they are; the server is down while they are copied.
    pub(crate) async fn copy(&mut self) -> PathBuf {
        self.copies += 1;
        let copy = self.folder.join(format!("copy-{}", self.copies));
        self.process.kill();
        std::fs::copy(self.folder.join(DATA), &copy).expect("a copy");
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.process = Process::start(&self.folder);
        copy
    }

    /// Starts with an older copy of the data.
    pub(crate) async fn restore(&mut self, copy: &Path) {
        self.process.kill();
        std::fs::copy(copy, self.folder.join(DATA)).expect("the older data");
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.process = Process::start(&self.folder);
    }
}

impl Actor {
    pub(crate) fn start(root: &Path, number: usize) -> Self {
        let name = format!("actor-{number}");
        let folder = root.join(&name);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join(ACTS), &name).expect("a folder for a process");
        let kubeconfig = root.join("apiserver").join(KUBECONFIG);
        std::fs::copy(kubeconfig, folder.join(KUBECONFIG)).expect("a kubeconfig");
        let process = Process::start(&folder);
        Self { folder, name, process }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = Process::start(&self.folder);
    }

    pub(crate) fn suspend(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) {
        drop(self.process.stdin.take());
        let status = self.process.child.wait().expect("its end");
        assert!(status.success(), "{} ends with {status}", self.name);
    }
}

/// Says that this process has started.
pub(crate) fn say_started() {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{STARTED}").and_then(|()| out.flush()).expect("a listener");
}

/// Resolves when the other side has closed this process's input.
pub(crate) async fn stdin_closed() {
    let (closed, is_closed) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(closed);
    });
    let _ = is_closed.await;
}

/// Serves until it is killed, at the address of the time before.
pub(crate) async fn serve() {
    let builder = ApiServer::builder().file(DATA).credentials(CREDENTIALS);
    let server = builder.build().await.expect("a server");
    let before = std::fs::read_to_string(ADDRESS).ok().and_then(|it| it.parse().ok());
    let address = before.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    // The address of a process that was killed may be in use for a moment.
    let patience = Duration::from_mins(2);
    let serving = async {
        loop {
            match server.serve(address).await {
                Ok(address) => return address,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let address = tokio::time::timeout(patience, serving).await.expect("an address");
    std::fs::write(ADDRESS, address.to_string()).expect("a file");
    std::fs::write(KUBECONFIG, server.kubeconfig().expect("a kubeconfig")).expect("a file");
    say_started();
    // It ends with the test, also where that is killed.
    stdin_closed().await;
}
