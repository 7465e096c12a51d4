//! The local world on the fleet: a declaration becomes a machine, a host, an agent and a node, and
//! goes again without a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tokio::time::sleep;

use crate::caller::{Caller, SOON};
use crate::pair::{USHER, free_port, until_ready};
use crate::running::running_below;

const PATIENCE: Duration = Duration::from_mins(2);
const MACHINES: usize = 4;
const SETTINGS: [&str; 6] = [
    "local.agent=fleet",
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
    machines: usize,
    settings: Vec<&'static str>,
}

impl Server {
    fn up() -> Self {
        Self::with(MACHINES, &[])
    }

    /// A server with so many machines and these settings.
    fn with(machines: usize, settings: &[&'static str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let caller = Caller { port: free_port(), data: dir.path().join("data") };
        let settings = SETTINGS.iter().chain(settings).copied().collect();
        let mut server = Self { caller, dir, child: None, machines, settings };
        server.start();
        server
    }

    fn start(&mut self) {
        let log = self.dir.path().join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(USHER);
        command.arg("up").arg("--data-dir").arg(&self.caller.data);
        command.args(["--listen", &format!("127.0.0.1:{}", self.caller.port)]);
        command.args(["--set", &format!("local.machines={}", self.machines)]);
        for setting in &self.settings {
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

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A node that is ready on a machine.
    async fn ready(&self, name: &str) -> String {
        let id = self.caller.provision(name).await;
        self.caller.until_phase(&id, "Ready").await;
        id
    }

    /// Shows a node out, and waits until nothing is left.
    async fn show_out(&self, id: &str) {
        self.caller.deprovision(id).await;
        self.caller.until_phase(id, "Deleted").await;
        self.until_nothing_is_left().await;
    }

    /// What lies below a folder of the fleet.
    fn below(&self, folder: &str) -> PathBuf {
        let mut found = fs::read_dir(self.caller.data.join("fleet").join(folder)).unwrap();
        found.next().unwrap().unwrap().path()
    }

    /// Why a resource is where it is.
    async fn why(&self, id: &str) -> Value {
        let asked = self.caller.ask("GET", &format!("/v1/resources/{id}/why"), None).await;
        asked.map(|it| it.1).unwrap_or_default()
    }

    /// Waits until something holds.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !holds().await {
            assert!(begun.elapsed() < PATIENCE, "never {what}: {}", self.log());
            sleep(SOON).await;
        }
    }

    /// Waits until nothing is left: no host, no process, no orphan, and no machine that is held.
    async fn until_nothing_is_left(&self) {
        let begun = Instant::now();
        let hosts = self.caller.data.join("fleet");
        loop {
            let left = entries(&hosts.join("hosts")) + entries(&hosts.join("process"));
            let running = running_below(&self.caller.data, "").len();
            if left + running == 0 && self.machines("Speculative").await == (self.machines, 0) {
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

/// Red by: a Failed machine that is let go while its host and its node stand, or a FAILED that no
/// verb ends.
#[tokio::test]
async fn a_machine_that_its_provider_gave_up_on_is_shown_out_like_any_other() {
    for lost in ["hosts", "process"] {
        let server = Server::with(1, &["local.look_interval=100ms"]);
        until_ready(&server.caller).await;
        let id = server.ready("node-1").await;
        fs::remove_dir_all(server.below(lost)).unwrap();
        server.caller.until_phase(&id, "Failed").await;
        let why = server.why(&id).await["summary"].to_string();
        assert!(why.contains("local-slot-0000") && why.contains("is gone"), "{why}");
        assert_eq!(server.machines("Failed").await, (1, 1), "it is held until it is shown out");
        server.show_out(&id).await;
        // The slot is as good as before.
        let id = server.ready("node-2").await;
        server.show_out(&id).await;
    }
}

/// Red by: a substrate that is ready before it has a machine, or a wait that nobody explains.
#[tokio::test]
async fn whoever_finds_no_machine_free_says_so_and_gets_the_next_one() {
    let server = Server::with(1, &["broker.reconcile_interval=1h"]);
    until_ready(&server.caller).await;
    let first = server.ready("node-1").await;
    let second = server.caller.provision("node-2").await;
    server
        .until("a word about it", async || {
            let why = server.why(&second).await;
            let said = why["blockers"].to_string().contains("no machine of the fleet is free");
            said && why["resource"]["phase"] == "Provisioning"
        })
        .await;
    server.caller.deprovision(&first).await;
    server.caller.until_phase(&first, "Deleted").await;
    server.caller.until_phase(&second, "Ready").await;
    server.show_out(&second).await;
}

/// Red by: a part that is taken for absent while its machine is held, or a machine that is held
/// for a part that nobody gives back.
#[tokio::test]
async fn a_part_that_somebody_removed_does_not_leave_its_machine_behind() {
    let settings = [
        "mesh.drain_grace=1s",
        "mesh.acknowledgements=500ms",
        "local.agent_grace=300ms",
        "broker.reconcile_interval=1s",
    ];
    let server = Server::with(2, &settings);
    until_ready(&server.caller).await;
    let id = server.ready("node-1").await;
    let fleet = server.caller.data.join("fleet");
    for number in running_below(&fleet, "") {
        let pid = rustix::process::Pid::from_raw(number).unwrap();
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
    }
    server.caller.deprovision(&id).await;
    // The node cannot leave by itself, so that all of this stands for a while.
    for kind in ["part", "substrate"] {
        for found in fs::read_dir(server.caller.data.join("world").join(kind)).unwrap() {
            let found = found.unwrap().path();
            if !found.file_name().unwrap().to_string_lossy().starts_with('.') {
                fs::remove_dir_all(found).unwrap();
            }
        }
    }
    server.caller.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
}

/// Red by: a server that goes on without its machines, and says nothing.
#[tokio::test]
async fn a_state_that_cannot_be_written_ends_the_server_with_one_sentence() {
    let mut server = Server::with(1, &["local.forget_tokens=1s"]);
    until_ready(&server.caller).await;
    let state = server.caller.data.join("fleet/state");
    fs::remove_file(&state).unwrap();
    fs::create_dir_all(state.join("in-the-way")).unwrap();
    server.caller.provision("node-1").await;
    let mut child = server.child.take().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it goes on: {}", server.log());
        sleep(SOON).await;
    };
    assert_eq!(status.code(), Some(5));
    let log = server.log();
    let said = log.lines().last().unwrap_or_default();
    let sentence = "usher: cannot go on: the state of this machine's hosts could not be written";
    assert!(said.starts_with(sentence), "{log}");
}

/// Red by: a bootstrap token that lies in the provider's state for as long as that is short.
#[tokio::test]
async fn a_token_that_was_used_is_soon_forgotten_by_the_provider() {
    let server = Server::with(1, &["local.forget_tokens=100ms"]);
    until_ready(&server.caller).await;
    let id = server.ready("node-1").await;
    let state = server.caller.data.join("fleet/state");
    server
        .until("forgotten", async || {
            let bytes = fs::read(&state).unwrap();
            !String::from_utf8_lossy(&bytes).contains("ubt_")
        })
        .await;
    server.show_out(&id).await;
}
