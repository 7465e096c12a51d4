//! A world whose agents are real processes, kept by real keepers that can be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::broker::reconciler::Broker;
use usher_kernel::step;
use usher_local::composer::Agents;
use usher_local::object::Kind;
use usher_sim::contract::memory::Wish;
use usher_sim::contract::substrate::TestWorld as _;

use crate::plane::Plane;
use crate::running::running_below;
use crate::stage::LocalStage;

/// The program under test.
pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");
/// How long something real may take; less than the keepers' own net, which must catch nothing.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A world, the control plane its agents call, and its keepers.
pub(crate) struct Yard {
    pub(crate) stage: LocalStage,
    pub(crate) plane: Plane,
    keepers: Vec<Child>,
}

impl Yard {
    pub(crate) async fn new(wish: Wish) -> Self {
        let plane = Plane::start().await;
        let wish = Wish { api_url: plane.url(), ..wish };
        let mut stage = LocalStage::unkept(&wish, Agents::External).await;
        stage.plane = Some(plane.clone());
        Self { stage, plane, keepers: vec![] }
    }

    /// Starts a keeper with more arguments, which kills whoever hangs soon; which one it is.
    pub(crate) fn keep(&mut self, args: &[&str]) -> usize {
        self.keep_patiently("400", args)
    }

    /// Starts a keeper that leaves agents so many milliseconds to end; which one it is.
    pub(crate) fn keep_patiently(&mut self, grace_ms: &str, args: &[&str]) -> usize {
        let mut command = Command::new(USHER);
        command.arg("keep-world").arg(self.stage.root()).args(["--grace-ms", grace_ms]).args(args);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.keepers.push(child);
        self.keepers.len() - 1
    }

    /// Kills a keeper as `kill -9` does.
    pub(crate) fn kill(&mut self, keeper: usize) {
        self.keepers[keeper].kill().unwrap();
        self.keepers[keeper].wait().unwrap();
    }

    /// Stops a keeper in whatever it does.
    pub(crate) fn pause(&self, keeper: usize) {
        signal(i32::try_from(self.keepers[keeper].id()).unwrap(), Signal::STOP);
    }

    /// Whether a keeper has ended by itself.
    pub(crate) fn has_died(&mut self, keeper: usize) -> bool {
        self.keepers[keeper].try_wait().unwrap().is_some()
    }

    /// One step of every life, and a moment.
    pub(crate) async fn turn(&self) {
        let broker = Broker { interval: Duration::from_millis(1), ..Broker::default() };
        let stage = &self.stage;
        let _ =
            step(&provider_config::ProviderConfigReconciler::default(), stage, stage, stage.now())
                .await;
        let _ = step(&broker, stage, stage, stage.now()).await;
        stage.enrol().await;
        stage.pass().await;
    }

    /// Lets everything go on until something holds.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > TIMEOUT {
                let record = self.stage.resource();
                let rows = record.name_ledger.rows();
                panic!("never: {what}: {} {rows:?}", record.state.phase());
            }
            self.turn().await;
        }
    }

    pub(crate) fn resource(&self) -> Resource {
        self.stage.resource().state
    }

    pub(crate) async fn until_phase(&mut self, phase: Phase) {
        self.until(&phase.to_string(), |it| it.resource().phase() == phase).await;
    }

    /// Asks for deletion and waits until all is gone.
    pub(crate) async fn until_deleted(&mut self) {
        self.stage.retire().await;
        self.until_phase(Phase::Deleted).await;
        self.until_nothing_is_left().await;
    }

    /// Waits for the ProviderConfig, which goes last, and looks everywhere.
    pub(crate) async fn until_nothing_is_left(&mut self) {
        let gone = |it: &mut Self| it.stage.config().state.phase == provider_config::Phase::Gone;
        self.until("the ProviderConfig is gone", gone).await;
        assert_eq!(self.processes(), Vec::<i32>::new(), "no process");
        let mut kinds = Kind::ALL.map(Kind::folder).into_iter().chain(["process"]);
        let left = kinds.find(|folder| !self.is_empty(folder));
        assert_eq!(left, None, "nothing has a name");
        // What a keeper that was killed had not finished is swept by the next one, once that runs.
        let swept = |it: &mut Self| it.is_empty("aside") && it.is_empty("owned");
        self.until("nothing lies aside, and nothing is noted", swept).await;
        let record = self.stage.resource();
        let open = record.name_ledger.rows().iter().find(|row| !row.state.is_settled());
        assert_eq!(open, None, "every name is settled");
    }

    /// Whether nothing with a name lies in a folder of this world.
    fn is_empty(&self, folder: &str) -> bool {
        let entries = fs::read_dir(self.stage.root().join(folder)).unwrap();
        let mut names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.all(|it| it.starts_with('.'))
    }

    /// The processes that run in the folders of this world.
    pub(crate) fn processes(&self) -> Vec<i32> {
        running_below(&self.stage.root().join("process"), "")
    }

    /// The one process of this world, once it is enrolled and knows who it is: it throws its token
    /// away before it calls.
    pub(crate) async fn the_agent(&mut self) -> i32 {
        self.until_phase(Phase::Ready).await;
        self.until("it calls", |it| !it.plane.state().heartbeats.is_empty()).await;
        let processes = self.processes();
        assert_eq!(processes.len(), 1, "{processes:?}");
        processes[0]
    }

    /// The machine's part and the record of its process.
    pub(crate) fn machine(&self) -> (PathBuf, PathBuf) {
        let names = self.stage.world.registry().names(Kind::Part).unwrap();
        let name = names.into_iter().find(|it| it.contains("-machine-")).unwrap();
        let part = self.stage.world.registry().path(Kind::Part, &name);
        (part, self.stage.world.units().folder(&name))
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
        for number in self.processes() {
            signal(number, Signal::KILL);
        }
    }
}

pub(crate) fn signal(number: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(number) {
        let _ = kill_process(pid, signal);
    }
}

/// A program that does what a script says.
pub(crate) fn script(dir: &Path, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join("agent.sh");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
