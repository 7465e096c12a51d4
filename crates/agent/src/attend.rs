//! The life of an enrolled node: it says that it lives, and leaves when it is told to.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use usher_wire::http::{
    Drain, HeartbeatRequest, HeartbeatResponse, LeaveRequest, heartbeat_path, leave_path,
};

use crate::client::{Client, Error};
use crate::identity::Node;
use crate::lock::{self, Lock};
use crate::pace::Pace;
use crate::stream::{self, Told};
use crate::{Ending, VERSION};

/// The grace of a node that was put out without a word.
const GRACE: Duration = Duration::from_secs(30);
/// The shortest pause between two signs of life, whatever it was told.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// How often work in flight is counted while it is waited for.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// An enrolled node.
pub struct Attendance {
    /// How the control plane is called.
    pub client: Arc<Client>,
    /// Who it is.
    pub node: Node,
    /// Every file in here is work in flight.
    pub in_flight: PathBuf,
    /// Its patience.
    pub pace: Pace,
}

/// What a sign of life brought back.
enum Beat {
    Well(HeartbeatResponse),
    Out,
    Unheard,
}

/// Stops a task that nobody waits for any more.
struct Listener(tokio::task::JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Attendance {
    /// Says that the node lives until it has left or is asked to stop.
    pub async fn run(
        &self,
        lock: &Lock,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Ending, lock::Error> {
        let (tell, mut told) = mpsc::channel(16);
        let client = Arc::clone(&self.client);
        let listening = stream::listen(client, self.node.clone(), self.pace, tell);
        let _listener = Listener(tokio::spawn(listening));
        let mut beats = interval(self.heartbeat());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut acknowledged = 0;
        loop {
            let told = tokio::select! {
                _ = stop.wait_for(|it| *it) => return Ok(Ending::Stopped),
                Some(told) = told.recv() => told,
                _ = beats.tick() => {
                    // Whoever cleared the place wants nothing of this node any more.
                    lock.check()?;
                    Told::Mesh(acknowledged)
                }
            };
            match self.answered(told, &mut acknowledged).await {
                Some(Told::Drain(drain)) => {
                    return Ok(self.leave(drain, acknowledged, stop).await);
                }
                Some(Told::Out) => return Ok(self.finish_out(stop).await),
                Some(Told::Mesh(_)) | None => {}
            }
        }
    }

    /// Answers what changes nothing with a sign of life, which may be answered with more.
    async fn answered(&self, told: Told, acknowledged: &mut u64) -> Option<Told> {
        let Told::Mesh(snapshot) = told else { return Some(told) };
        *acknowledged = snapshot.max(*acknowledged);
        match self.beat(*acknowledged, false).await {
            Beat::Well(response) => {
                *acknowledged = response.snapshot.max(*acknowledged);
                response.drain.map(Told::Drain)
            }
            Beat::Out => Some(Told::Out),
            Beat::Unheard => None,
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
        let call = self.client.post(&path, Some(&self.node.secret), &request);
        match timeout(self.pace.call, call).await.unwrap_or(Err(Error::TimedOut)) {
            Ok(response) => Beat::Well(response),
            Err(why) if why.is_out() => Beat::Out,
            Err(_) => Beat::Unheard,
        }
    }

    /// How much work is in flight. What cannot be counted is not waited for.
    fn count(&self) -> u64 {
        fs::read_dir(&self.in_flight).map_or(0, |it| it.count() as u64)
    }

    /// Finishes what is in flight within the grace, says goodbye, and is out.
    async fn leave(&self, drain: Drain, acknowledged: u64, stop: watch::Receiver<bool>) -> Ending {
        let until = Instant::now() + Duration::from_millis(drain.grace_ms);
        self.finish(until, Some(acknowledged), stop).await;
        let path = leave_path(&self.node.id);
        loop {
            let request = LeaveRequest { in_flight: self.count() };
            let call = self.client.tell(&path, Some(&self.node.secret), &request);
            match timeout(self.pace.call, call).await.unwrap_or(Err(Error::TimedOut)) {
                Ok(()) => return Ending::Left,
                Err(why) if why.is_out() || why.is_final() => return Ending::Left,
                // After the grace the control plane deregisters by itself.
                Err(_) if Instant::now() >= until => return Ending::Left,
                Err(_) => sleep(self.pace.first).await,
            }
        }
    }

    /// It is out already; what is in flight may still end.
    async fn finish_out(&self, stop: watch::Receiver<bool>) -> Ending {
        self.finish(Instant::now() + GRACE, None, stop).await;
        Ending::Left
    }

    /// Waits for what is in flight; `acknowledged` if it still says that it lives.
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
