//! A server under measurement: its processes, how long they take to be ready, their memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;

use crate::caller::Endpoint;
use crate::{machine, serve};

/// The pause between two looks at a server that is not ready.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a server may take to be ready on a loaded computer.
const PATIENCE: Duration = Duration::from_mins(5);

/// How a server is started.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    /// A kubeconfig in JSON, which may appear only when the server listens.
    pub(crate) kubeconfig: PathBuf,
    /// Its programs, in the order in which they are started.
    pub(crate) programs: Vec<Program>,
    /// Whether a commit is on the disk before it is answered.
    pub(crate) is_durable: bool,
    /// Whether memory is measured with many objects.
    pub(crate) is_filled: bool,
}

/// A program and its words.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) words: Vec<String>,
}

/// A server that runs; dropping it ends its processes.
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    /// From the start of its first process until it is ready.
    pub(crate) took: Duration,
    children: Vec<Child>,
}

impl Side {
    /// The embedded server of this program.
    pub(crate) fn embedded(folder: &Path, is_durable: bool) -> Self {
        let name = if is_durable { "durable" } else { "in memory" };
        let kubeconfig = folder.join(format!("kubeconfig-{is_durable}"));
        let mut words = vec![serve::KUBECONFIG.to_owned(), kubeconfig.display().to_string()];
        if is_durable {
            words.extend([serve::FILE.to_owned(), folder.join("objects").display().to_string()]);
        }
        let path = std::env::current_exe().expect("the path of this program");
        let programs = vec![Program { path, words }];
        Self { name: name.to_owned(), kubeconfig, programs, is_durable, is_filled: true }
    }

    /// Starts it and waits until `/readyz` answers with 200.
    pub(crate) async fn start(&self, folder: &Path) -> Running {
        let started = Instant::now();
        let children = self.programs.iter().map(|program| program.start(folder)).collect();
        let mut children = Ended(children);
        loop {
            if let Some(endpoint) = self.ready().await {
                let took = started.elapsed();
                return Running { endpoint, took, children: std::mem::take(&mut children.0) };
            }
            let ended =
                children.0.iter_mut().any(|child| child.try_wait().is_ok_and(|it| it.is_some()));
            assert!(!ended, "a program of \"{}\" has ended: see {}", self.name, folder.display());
            assert!(started.elapsed() < PATIENCE, "\"{}\" is not ready", self.name);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ready(&self) -> Option<Endpoint> {
        let config = std::fs::read_to_string(&self.kubeconfig).ok()?;
        let endpoint = Endpoint::read(&config);
        let mut caller = endpoint.try_connect().await?;
        let (status, _) = caller.try_call("GET", "/readyz", Bytes::new()).await?;
        (status == 200).then_some(endpoint)
    }
}

impl Program {
    fn start(&self, folder: &Path) -> Child {
        let name = self.path.file_name().expect("a name").to_string_lossy();
        let log = File::create(folder.join(format!("{name}.log"))).expect("a log file");
        let mut command = Command::new(&self.path);
        command.args(&self.words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("a process")
    }
}

impl Running {
    /// The resident memory of all its processes.
    pub(crate) fn resident(&self) -> usize {
        self.children.iter().map(|child| machine::resident_of(child.id())).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(Ended(std::mem::take(&mut self.children)));
    }
}

/// Processes that end with this value, the last started first.
struct Ended(Vec<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        for mut child in self.0.drain(..).rev() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
