//! An enrolled node: sends heartbeats, drains and leaves when the control plane requests it.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use usher_wire::http::{
    Drain, HeartbeatRequest, HeartbeatResponse, LeaveRequest, Secret, heartbeat_path, leave_path,
};

use crate::client::{Client, Error};
use crate::identity::{Identity, Node};
use crate::lock::{self, Lock};
use crate::pace::Pace;
use crate::stream::{self, Command};
use crate::{Ending, VERSION};

/// The drain grace of a node that was deregistered without being drained.
const GRACE: Duration = Duration::from_secs(30);
/// The shortest heartbeat interval, whatever the control plane requests.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// How often work in flight is counted during a drain.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// A node that has enrolled.
pub struct EnrolledNode {
    pub client: Arc<Client>,
    pub node: Node,
    /// The secret it calls with, which the control plane may replace.
    secret: watch::Sender<Secret>,
    /// Where a new secret is stored before it is used, if anywhere.
    identity: Option<Mutex<Identity>>,
    /// Every file in here is work in flight.
    pub in_flight: PathBuf,
    pub pace: Pace,
}

/// The outcome of one heartbeat.
enum Beat {
    Answered(HeartbeatResponse),
    Deregistered,
    Failed,
}

/// Aborts the task that reads the event stream when it is dropped.
struct Listener(tokio::task::JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EnrolledNode {
    pub fn new(client: Client, node: Node, in_flight: PathBuf, pace: Pace) -> Self {
        let secret = watch::Sender::new(node.secret.clone());
        Self { client: Arc::new(client), node, secret, identity: None, in_flight, pace }
    }

    /// The node with its identity on the disk.
    #[must_use]
    pub fn stored_in(self, identity: Identity) -> Self {
        Self { identity: Some(Mutex::new(identity)), ..self }
    }

    /// Sends heartbeats until the node has left or the process is asked to stop.
    pub async fn run(
        &self,
        lock: &Lock,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Ending, lock::Error> {
        let (sender, mut commands) = mpsc::channel(16);
        let client = Arc::clone(&self.client);
        let caller = (self.node.id.clone(), self.secret.subscribe());
        let listening = stream::listen(client, caller, self.pace, sender);
        let _listener = Listener(tokio::spawn(listening));
        let mut beats = interval(self.heartbeat());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut acknowledged = 0;
        loop {
            let command = tokio::select! {
                _ = stop.wait_for(|it| *it) => return Ok(Ending::Stopped),
                Some(command) = commands.recv() => command,
                _ = beats.tick() => {
                    // A lock file that was removed means that the node was removed.
                    lock.check()?;
                    Command::Mesh(acknowledged)
                }
            };
            match self.acknowledge(command, &mut acknowledged).await {
                Some(Command::Drain(drain)) => {
                    return Ok(self.leave(drain, acknowledged, stop).await);
                }
                Some(Command::Stop) => return Ok(self.finish_deregistered(stop).await),
                Some(Command::Mesh(_)) | None => {}
            }
        }
    }

    /// Acknowledges a mesh snapshot with a heartbeat, whose answer may carry another command.
    async fn acknowledge(&self, command: Command, acknowledged: &mut u64) -> Option<Command> {
        let Command::Mesh(snapshot) = command else { return Some(command) };
        *acknowledged = snapshot.max(*acknowledged);
        match self.beat(*acknowledged, false).await {
            Beat::Answered(response) => {
                *acknowledged = response.snapshot.max(*acknowledged);
                response.drain.map(Command::Drain)
            }
            Beat::Deregistered => Some(Command::Stop),
            Beat::Failed => None,
        }
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.node.heartbeat_ms).max(HEARTBEAT_MIN)
    }

    async fn beat(&self, acknowledged: u64, draining: bool) -> Beat {
        let request = HeartbeatRequest {
            acknowledged,
            in_flight: self.count(),
            draining,
            agent_version: VERSION.to_owned(),
        };
        let path = heartbeat_path(&self.node.id);
        let secret = self.secret.borrow().clone();
        let call = self.client.post::<_, HeartbeatResponse>(&path, Some(&secret), &request);
        match timeout(self.pace.call, call).await.unwrap_or(Err(Error::TimedOut)) {
            Ok(response) => {
                if let Some(secret) = &response.node_secret {
                    self.replace_secret(secret);
                }
                Beat::Answered(response)
            }
            Err(why) if why.is_deregistered() => Beat::Deregistered,
            Err(_) => Beat::Failed,
        }
    }

    /// Calls with a new secret once it is stored; until then the old one is valid.
    fn replace_secret(&self, secret: &Secret) {
        let node = Node { secret: secret.clone(), ..self.node.clone() };
        let stored = self.identity.as_ref().map_or(Ok(()), |identity| {
            identity.lock().unwrap_or_else(PoisonError::into_inner).store_node(node)
        });
        match stored {
            Ok(()) => {
                self.secret.send_replace(secret.clone());
            }
            Err(why) => eprintln!("usher agent: failed to store the new secret: {why}"),
        }
    }

    /// How much work is in flight; zero if the directory cannot be read.
    fn count(&self) -> u64 {
        fs::read_dir(&self.in_flight).map_or(0, |it| it.count() as u64)
    }

    /// Finishes the work in flight within the grace, then deregisters the node.
    async fn leave(&self, drain: Drain, acknowledged: u64, stop: watch::Receiver<bool>) -> Ending {
        let until = Instant::now() + Duration::from_millis(drain.grace_ms);
        self.finish(until, Some(acknowledged), stop).await;
        let path = leave_path(&self.node.id);
        loop {
            let request = LeaveRequest { in_flight: self.count() };
            let secret = self.secret.borrow().clone();
            let call = self.client.post_no_content(&path, Some(&secret), &request);
            match timeout(self.pace.call, call).await.unwrap_or(Err(Error::TimedOut)) {
                Ok(()) => return Ending::Left,
                Err(why) if why.is_deregistered() || why.is_final() => return Ending::Left,
                // After the grace the control plane deregisters by itself.
                Err(_) if Instant::now() >= until => return Ending::Left,
                Err(_) => sleep(self.pace.first).await,
            }
        }
    }

    /// The node is deregistered already; its work in flight may still end.
    async fn finish_deregistered(&self, stop: watch::Receiver<bool>) -> Ending {
        self.finish(Instant::now() + GRACE, None, stop).await;
        Ending::Left
    }

    /// Waits for the work in flight, with heartbeats if `acknowledged` is given.
    async fn finish(
        &self,
        until: Instant,
        acknowledged: Option<u64>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut beat_at = Instant::now();
        while self.count() > 0 && Instant::now() < until {
            if let Some(acknowledged) = acknowledged
                && Instant::now() >= beat_at
            {
                beat_at = Instant::now() + self.heartbeat();
                self.beat(acknowledged, true).await;
            }
            tokio::select! {
                _ = stop.wait_for(|it| *it) => return,
                () = sleep(COUNT_EVERY) => {}
            }
        }
    }
}
