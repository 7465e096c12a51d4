//! An agent and a small control plane on loopback.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod plane;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use usher_agent::pace::Pace;
use usher_agent::{Ending, Error, Flags, enrol, lock};
use usher_wire::http::{AgentEvent, Drain};

use plane::Plane;

const TOKEN: &str = "ubt_canary-token";

/// A machine with an agent's settings and token.
struct Machine {
    dir: tempfile::TempDir,
}

type Run = JoinHandle<Result<Ending, Error>>;

impl Machine {
    fn new(plane: &Plane) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Self { dir };
        let settings = serde_json::json!({
            "api_url": plane.url(),
            "project_id": "p",
            "resource_id": "r",
            "token_file": machine.path("token"),
        });
        fs::write(machine.path("agent.json"), settings.to_string()).unwrap();
        fs::write(machine.path("token"), format!("{TOKEN}\n")).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self) -> (Run, watch::Sender<bool>) {
        let flags = Flags {
            config: self.path("agent.json"),
            state_dir: self.path("state"),
            lock: Some(self.path("lock")),
        };
        let pace = Pace {
            first: Duration::from_millis(5),
            max: Duration::from_millis(20),
            call: Duration::from_mins(1),
            silence: Duration::from_mins(2),
        };
        let (stop, stopped) = watch::channel(false);
        (tokio::spawn(async move { usher_agent::run(&flags, pace, stopped).await }), stop)
    }

    fn has_left(&self) -> bool {
        self.path("state/left").exists()
    }

    fn work(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path("state/in-flight")).unwrap();
        let path = self.path("state/in-flight").join(name);
        fs::write(&path, "").unwrap();
        path
    }
}

async fn ended(run: Run) -> Result<Ending, Error> {
    tokio::time::timeout(Duration::from_mins(2), run).await.unwrap().unwrap()
}

// Requirement: AG-1
#[tokio::test]
async fn a_node_enrols_sends_heartbeats_and_leaves_when_drained() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, _stop) = machine.start();
    plane.until("heartbeats", |it| it.heartbeats.len() > 2).await;
    assert_eq!(plane.state().registrations[0].bootstrap_token.expose(), TOKEN);
    assert!(!machine.path("token").exists(), "a token that was redeemed is not kept");
    plane.until_listened_to().await;
    plane.send(AgentEvent::Drain(Drain { grace_ms: 5_000 }));
    assert_eq!(ended(run).await.unwrap(), Ending::Left);
    assert!(machine.has_left());
    assert_eq!(plane.state().leaves.len(), 1);
    assert_eq!(plane.state().nodes.len(), 1);
}

// Requirement: AG-1
#[tokio::test]
async fn a_drain_in_a_heartbeat_answer_is_followed_without_the_stream() {
    let plane = Plane::start().await;
    plane.state().drain = Some(Drain { grace_ms: 5_000 });
    let machine = Machine::new(&plane);
    let (run, _stop) = machine.start();
    assert_eq!(ended(run).await.unwrap(), Ending::Left);
}

/// Red by: a secret that is used before it is stored, so that a restart calls with the old one
/// after the control plane has stopped to accept it.
// Requirement: E-22
#[tokio::test]
async fn a_new_secret_is_stored_and_used_also_after_a_restart() {
    let plane = Plane::start().await;
    plane.state().rotated = Some("canary-rotated");
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    let rotated = |it: &plane::State| it.bearers.iter().any(|it| it == "canary-rotated");
    plane.until("a call with the new secret", rotated).await;
    let identity = fs::read_to_string(machine.path("state/identity.json")).unwrap();
    assert!(identity.contains("canary-rotated") && !identity.contains(plane::NODE_SECRET));
    stop.send(true).unwrap();
    assert_eq!(ended(run).await.unwrap(), Ending::Stopped);
    plane.state().bearers.clear();
    let (_run, _stop) = machine.start();
    plane.until("a heartbeat", |it| !it.bearers.is_empty()).await;
    assert_eq!(plane.state().bearers[0], "canary-rotated");
    assert_eq!(plane.state().registrations.len(), 1);
}

// Requirement: AG-2
#[tokio::test]
async fn a_registration_whose_answer_was_lost_is_repeated_unchanged() {
    let plane = Plane::start().await;
    plane.state().lose = 3;
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    {
        let state = plane.state();
        assert!(state.registrations.len() >= 4, "{}", state.registrations.len());
        assert!(state.registrations.windows(2).all(|it| it[0] == it[1]), "the same question");
        assert_eq!(state.nodes.len(), 1);
    }
    stop.send(true).unwrap();
    assert_eq!(ended(run).await.unwrap(), Ending::Stopped);
}

// Requirement: AG-2
#[tokio::test]
async fn an_agent_that_is_started_again_is_the_same_node() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    stop.send(true).unwrap();
    assert_eq!(ended(run).await.unwrap(), Ending::Stopped);
    assert!(!machine.has_left(), "a stopped agent may resume");
    let before = plane.state().heartbeats.len();
    let (run, stop) = machine.start();
    plane.until("heartbeats again", |it| it.heartbeats.len() > before).await;
    assert_eq!(plane.state().registrations.len(), 1, "it enrolled once");
    stop.send(true).unwrap();
    ended(run).await.unwrap();
}

// Requirement: AG-4
#[tokio::test]
async fn work_in_flight_is_finished_within_the_grace() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let work = machine.work("job");
    let (run, _stop) = machine.start();
    plane.until_listened_to().await;
    plane.send(AgentEvent::Drain(Drain { grace_ms: 600_000 }));
    plane.until("it reports that it drains", |it| it.heartbeats.iter().any(|it| it.draining)).await;
    assert_eq!(plane.state().leaves, []);
    fs::remove_file(work).unwrap();
    assert_eq!(ended(run).await.unwrap(), Ending::Left);
    assert_eq!(plane.state().leaves[0].in_flight, 0);
}

// Requirement: AG-4
#[tokio::test]
async fn work_in_flight_after_the_grace_is_abandoned_and_reported() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    machine.work("endless");
    let (run, _stop) = machine.start();
    plane.until_listened_to().await;
    let begun = Instant::now();
    plane.send(AgentEvent::Drain(Drain { grace_ms: 300 }));
    assert_eq!(ended(run).await.unwrap(), Ending::Left);
    assert!(begun.elapsed() >= Duration::from_millis(300), "not before");
    assert_eq!(plane.state().leaves[0].in_flight, 1);
}

// Requirement: AG-3
#[tokio::test]
async fn a_node_whose_key_is_revoked_leaves_without_a_call() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, _stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    plane.state().revoked = true;
    assert_eq!(ended(run).await.unwrap(), Ending::Left);
    assert!(machine.has_left());
    let (again, _stop) = machine.start();
    assert_eq!(ended(again).await.unwrap(), Ending::Left, "a node that left does not rejoin");
}

// Requirement: AG-3
#[tokio::test]
async fn errors_and_silence_do_not_deregister_a_node() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    for (status, code) in [(503, "store_unavailable"), (401, ""), (404, "not_found"), (410, "")] {
        plane.state().refuse = Some((5, status, code));
        plane.until("all are refused", |it| it.refuse.is_none()).await;
    }
    plane.state().lose = 5;
    plane.until("all are lost", |it| it.lose == 0).await;
    let before = plane.state().heartbeats.len();
    plane.until("heartbeats again", |it| it.heartbeats.len() > before).await;
    assert!(!machine.has_left());
    stop.send(true).unwrap();
    assert_eq!(ended(run).await.unwrap(), Ending::Stopped);
}

// Requirement: AG-5
#[tokio::test]
async fn errors_while_enrolling_are_retried() {
    let plane = Plane::start().await;
    plane.state().refuse = Some((4, 503, "store_unavailable"));
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    stop.send(true).unwrap();
    ended(run).await.unwrap();
}

// Requirement: AG-5
#[tokio::test]
async fn a_refusal_ends_it_with_the_code_and_without_the_token() {
    let plane = Plane::start().await;
    plane.state().refuse = Some((1, 403, "token_revoked"));
    let machine = Machine::new(&plane);
    let (run, _stop) = machine.start();
    let why = ended(run).await.unwrap_err();
    assert!(matches!(&why, Error::Enrol(enrol::Error::Refused(_))));
    let text = why.chain();
    let expected = "failed to enrol: the control plane rejected the registration: \
                    refused with status 403 and code \"token_revoked\"";
    assert_eq!(text, expected);
    assert!(!format!("{why:?}").contains("canary"), "{why:?}");
    assert!(machine.path("token").exists(), "it was not redeemed");
    assert_eq!(why.exit_code(), 3);
}

// Requirement: AG-5
#[tokio::test]
async fn without_a_token_there_is_no_registration() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    fs::remove_file(machine.path("token")).unwrap();
    let why = ended(machine.start().0).await.unwrap_err();
    assert!(matches!(why, Error::Enrol(enrol::Error::Token { .. })));
    assert_eq!(plane.state().registrations, []);
}

// Requirement: LW-15
#[tokio::test]
async fn a_node_whose_lock_file_was_removed_ends() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, _stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    fs::remove_file(machine.path("lock")).unwrap();
    let why = ended(run).await.unwrap_err();
    assert!(matches!(why, Error::Lock(lock::Error::Gone { .. })));
    assert!(!machine.has_left());
}

// Requirement: AG-6
#[tokio::test]
async fn a_change_of_the_mesh_is_acknowledged() {
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until_listened_to().await;
    plane.send(AgentEvent::Mesh { snapshot: 42 });
    plane
        .until("it is acknowledged", |it| it.heartbeats.iter().any(|it| it.acknowledged == 42))
        .await;
    stop.send(true).unwrap();
    ended(run).await.unwrap();
}

// Requirement: AG-7
#[tokio::test]
async fn secrets_are_stored_for_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let plane = Plane::start().await;
    let machine = Machine::new(&plane);
    let (run, stop) = machine.start();
    plane.until("heartbeats", |it| !it.heartbeats.is_empty()).await;
    stop.send(true).unwrap();
    ended(run).await.unwrap();
    for entry in fs::read_dir(machine.path("state")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert!(!text.contains(TOKEN), "{}", path.display());
        if text.contains(plane::NODE_SECRET) {
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
}
