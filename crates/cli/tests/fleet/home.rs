//! The local world on the fleet: a declaration becomes a machine, a host, an agent and a node, and
//! goes again without a trace.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::caller::{Caller, SOON};
use crate::pair::{USHER, free_port, until_ready};
use crate::running::running_below;

const PATIENCE: Duration = Duration::from_mins(2);
const SETTINGS: [&str; 7] = [
    "local.agent=fleet",
    "local.machines=4",
    "fleet.passing_interval=100ms",
    "mesh.heartbeat=200ms",
    "worker.lease=1s",
    "worker.step_deadline=700ms",
    "worker.request_bound=100ms",
];

struct Server {
    caller: Caller,
    dir: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    fn up() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let caller = Caller { port: free_port(), data: dir.path().join("data") };
        let mut server = Self { caller, dir, child: None };
        server.start();
        server
    }

    fn start(&mut self) {
        let log = self.dir.path().join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(USHER);
        command.arg("up").arg("--data-dir").arg(&self.caller.data);
        command.args(["--listen", &format!("127.0.0.1:{}", self.caller.port)]);
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        command.env_remove("USHER_FAILPOINT").stdin(Stdio::null());
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// How many machines of the fleet are in a phase, and how many of them a resource holds.
    async fn machines(&self, phase: &str) -> (usize, usize) {
        let machines = self.caller.list("/v1/fleet/machines").await;
        let found: Vec<_> = machines.iter().filter(|it| it["phase"] == phase).collect();
        (found.len(), found.iter().filter(|it| !it["holder"].is_null()).count())
    }

    /// Waits until nothing is left: no host, no process, no orphan, and no machine that is held.
    async fn until_nothing_is_left(&self) {
        let begun = Instant::now();
        let hosts = self.caller.data.join("fleet");
        loop {
            let left = entries(&hosts.join("hosts")) + entries(&hosts.join("process"));
            let running = running_below(&self.caller.data, "").len();
            if left + running == 0 && self.machines("Speculative").await == (4, 0) {
                break;
            }
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{left} left, {running} run: {log}");
            sleep(SOON).await;
        }
        self.caller.nothing_is_left_inside().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        for number in running_below(&self.caller.data, "") {
            let pid = rustix::process::Pid::from_raw(number).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |all| {
        all.filter(|it| !it.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count()
    })
}

#[tokio::test]
async fn a_node_comes_and_goes_on_a_machine_of_the_fleet() {
    let server = Server::up();
    until_ready(&server.caller).await;
    let begun = Instant::now();
    let id = server.caller.provision("node-1").await;
    server.caller.until_phase(&id, "Ready").await;
    println!("a node is ready {:.1?} after it was declared", begun.elapsed());
    // The node was heard before the shard looked again.
    while server.machines("Configured").await != (1, 1) {
        assert!(begun.elapsed() < PATIENCE, "never a machine that a resource holds");
        sleep(SOON).await;
    }
    assert_eq!(running_below(&server.caller.data.join("fleet"), "").len(), 1);
    server.caller.deprovision(&id).await;
    server.caller.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_node_on_the_fleet_outlives_its_server_and_is_shown_out_by_the_next() {
    let mut server = Server::up();
    until_ready(&server.caller).await;
    let id = server.caller.provision("node-1").await;
    server.caller.until_phase(&id, "Ready").await;
    let before = running_below(&server.caller.data.join("fleet"), "");
    server.kill();
    assert_eq!(running_below(&server.caller.data.join("fleet"), ""), before, "it goes on");
    server.start();
    until_ready(&server.caller).await;
    server.caller.deprovision(&id).await;
    server.caller.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
}
