//! The kit with substrates that fail, come late, or vanish.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tonic::Code;
use usher_provider::fake::{Fake, Settings};
use usher_provider::state::{Refusal, Token, TransitionRequest, Verb};
use usher_provider::{Backend, Command, CreatedHost, Fault, Kit, KitError, Options, Timeouts};
use usher_wire::fleet::{self, ListFilter, Machine, MachineState as State};

use super::stage;

fn request(machine: &str, verb: Verb) -> TransitionRequest {
    TransitionRequest { machine: machine.to_owned(), token: Token::default(), verb }
}

fn first_slot() -> String {
    "fake-slot-000000".to_owned()
}

/// Lets everything happen that can, in a time that does not pass.
async fn rest() {
    tokio::time::sleep(Duration::from_hours(1)).await;
}

fn without_polling() -> Options {
    Options { poll_interval: None, ..Options::default() }
}

// Requirement: PM-11
#[tokio::test(start_paused = true)]
async fn a_host_that_comes_too_late_is_taken_away() {
    let late_after = Duration::from_secs(15);
    let settings = Settings { late: 1.0, late_after, ..Settings::default() };
    let timeouts = Timeouts::all(Duration::from_secs(10));
    let options = Options { timeouts, ..without_polling() };
    let kit = Kit::start(Fake::new(settings).unwrap(), options).await.unwrap();
    kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let failed = kit.get(&first_slot()).await.unwrap();
    assert_eq!(
        (failed.state(), failed.last_error.as_str()),
        (State::Failed, "create took too long")
    );
    rest().await;
    assert_eq!(kit.backend().hosts().unwrap(), Vec::<String>::new());
    assert_eq!(kit.get(&first_slot()).await.unwrap(), failed);
}

/// Red by: a FAILED that nothing ends, or a host that stands although its slot is offered again.
// Requirement: F-76
#[tokio::test(start_paused = true)]
async fn what_failed_is_given_back_with_the_host_that_nobody_heard_of() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    let late_after = Duration::from_secs(15);
    let settings =
        Settings { late: 1.0, late_after, folder: Some(hosts.clone()), ..Settings::default() };
    let timeouts = Timeouts::all(Duration::from_secs(10));
    let options = Options { timeouts, ..without_polling() };
    let kit = Kit::start(Fake::new(settings).unwrap(), options).await.unwrap();
    let offered = kit.get(&first_slot()).await.unwrap();
    let accepted = kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    rest().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Failed);
    // A provider that died meanwhile did not take away what came late.
    std::fs::write(hosts.join(format!("host-{}", accepted.operation)), "").unwrap();
    kit.transition(&request(&first_slot(), Verb::Salvage)).await.unwrap();
    rest().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap(), offered);
    assert_eq!(kit.backend().hosts().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_the_work() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    kit.backend().hold();
    let accepted = kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    assert_eq!(accepted.machine.state(), State::Creating);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Creating);
    kit.backend().release();
    rest().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Idle);
}

// Requirement: PM-12
#[tokio::test(start_paused = true)]
async fn a_lost_host_is_reported_once() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    rest().await;
    let host = kit.get(&first_slot()).await.unwrap().host.unwrap();
    let revision = kit.list(&ListFilter::default()).await.unwrap().revision;
    kit.poll().await.unwrap();
    let same = kit.list(&ListFilter::default()).await.unwrap().revision;
    assert_eq!(same, revision, "a look that finds nothing changes nothing");
    kit.backend().lose(&host).unwrap();
    kit.poll().await.unwrap();
    let lost = kit.get(&first_slot()).await.unwrap();
    assert_eq!(lost.state(), State::Failed);
    assert!(lost.last_error.contains(&host.r#ref), "{}", lost.last_error);
    let after = kit.list(&ListFilter::default()).await.unwrap().revision;
    assert_ne!(after, revision);
    kit.poll().await.unwrap();
    assert_eq!(kit.list(&ListFilter::default()).await.unwrap().revision, after);
}

/// A substrate that fails twice before each verb, and keeps what it made.
#[derive(Default)]
struct Shaky {
    tries: AtomicU32,
}

impl Shaky {
    fn shake(&self) -> Result<(), Fault> {
        match self.tries.fetch_add(1, Ordering::SeqCst) % 3 {
            2 => Ok(()),
            _ => Err(Fault::transient("not now")),
        }
    }
}

#[async_trait]
impl Backend for Shaky {
    async fn describe(&self) -> Result<Vec<Machine>, Fault> {
        Fake::new(Settings::default()).unwrap().describe().await
    }

    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault> {
        self.shake()?;
        let host = fleet::HostRef { provider: "p".to_owned(), r#ref: command.operation.clone() };
        Ok(CreatedHost { host, ..CreatedHost::default() })
    }

    async fn configure(&self, _: &Command, _: &Bytes) -> Result<(), Fault> {
        self.shake()
    }

    async fn drain(&self, _: &Command, _: Duration) -> Result<(), Fault> {
        self.shake()
    }

    async fn delete(&self, _: &Command) -> Result<(), Fault> {
        Err(Fault::permanent("nobody gives machines back here"))
    }

    fn deletes(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_is_tried_again_under_the_same_operation() {
    let kit = Kit::start(Shaky::default(), without_polling()).await.unwrap();
    let accepted = kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    rest().await;
    let idle = kit.get(&first_slot()).await.unwrap();
    assert_eq!((idle.state(), idle.host.unwrap().r#ref), (State::Idle, accepted.operation));
    assert_eq!(kit.backend().tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn who_keeps_machines_says_so_before_the_fence() {
    let kit = Kit::start(Shaky::default(), without_polling()).await.unwrap();
    let token = Token { shard: "s".to_owned(), epoch: 1, sequence: 1 };
    for verb in [Verb::Delete, Verb::Delete, Verb::Salvage, Verb::Salvage] {
        let refused = kit
            .transition(&TransitionRequest { machine: "x".to_owned(), token: token.clone(), verb })
            .await;
        let refused = refused.unwrap_err();
        assert_eq!(refused, KitError::Refused(Refusal::Unsupported));
    }
}

#[tokio::test]
async fn an_offer_that_is_none_is_refused_at_the_start() {
    #[derive(Debug)]
    struct Vague;
    #[async_trait]
    impl Backend for Vague {
        async fn describe(&self) -> Result<Vec<Machine>, Fault> {
            Ok(vec![Machine { id: "m".to_owned(), ..Machine::default() }])
        }
        async fn create(&self, _: &Command) -> Result<CreatedHost, Fault> {
            Err(Fault::permanent(""))
        }
        async fn configure(&self, _: &Command, _: &Bytes) -> Result<(), Fault> {
            Ok(())
        }
        async fn drain(&self, _: &Command, _: Duration) -> Result<(), Fault> {
            Ok(())
        }
        async fn delete(&self, _: &Command) -> Result<(), Fault> {
            Ok(())
        }
    }
    let refused = Kit::start(Vague, without_polling()).await.unwrap_err();
    let text = "cannot offer what the substrate has: machine \"m\" has no instance type";
    assert_eq!(refused.to_string(), text);
}

#[tokio::test]
async fn a_second_start_on_the_same_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { state: Some(folder.path().join("state")), ..without_polling() };
    let fake = || Fake::new(Settings::default()).unwrap();
    let _kit = Kit::start(fake(), options()).await.unwrap();
    Kit::start(fake(), options()).await.unwrap_err();
}

#[tokio::test]
async fn a_server_says_that_it_is_well_and_what_it_speaks() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    let address = stage::serve_kit(&kit, None).await;
    let channel = fleet::channel(&address, None).unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let asked =
        |service: &str| tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
    let answer = health.check(asked(fleet::SERVICE_NAME)).await.unwrap().into_inner();
    assert_eq!(answer.status(), tonic_health::ServingStatus::Serving.into());
    let unknown = health.check(asked("nobody")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

// Requirement: PM-7
#[tokio::test]
async fn a_configure_for_another_cluster_is_an_internal_error_on_the_wire() {
    let (_kit, mut client) = stage::fake(Settings::default(), without_polling()).await;
    let id = first_slot();
    client
        .create(fleet::CreateRequest { machine_id: id.clone(), ..Default::default() })
        .await
        .unwrap();
    stage::settle(&mut client, &id, State::Idle).await;
    let configure = |cluster: &str| fleet::ConfigureRequest {
        machine_id: id.clone(),
        cluster_id: cluster.to_owned(),
        ..Default::default()
    };
    client.configure(configure("a")).await.unwrap();
    stage::settle(&mut client, &id, State::Configured).await;
    let refused = client.configure(configure("b")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert_eq!(stage::get(&mut client, &id).await.cluster, "a");
}
