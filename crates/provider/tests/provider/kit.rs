//! The kit with substrates that fail, time out or lose hosts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tonic::Code;
use usher_provider::fake::{Fake, Settings};
use usher_provider::state::{Refusal, Token, TransitionRequest, Verb};
use usher_provider::{Backend, Command, CreatedHost, Fault, Kit, KitError, Options, Timeouts};
use usher_wire::fleet::{self, ListFilter, Machine, MachineState as State};

use super::server;

fn request(machine: &str, verb: Verb) -> TransitionRequest {
    TransitionRequest { machine: machine.to_owned(), token: Token::default(), verb }
}

fn first_slot() -> String {
    "fake-slot-000000".to_owned()
}

/// Lets all timers fire; the clock is paused.
async fn let_timers_fire() {
    tokio::time::sleep(Duration::from_hours(1)).await;
}

fn without_polling() -> Options {
    Options { poll_interval: None, ..Options::default() }
}

// Requirement: PM-11
#[tokio::test(start_paused = true)]
async fn a_host_created_after_the_timeout_is_deleted() {
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
    let_timers_fire().await;
    assert_eq!(kit.backend().hosts().unwrap(), Vec::<String>::new());
    assert_eq!(kit.get(&first_slot()).await.unwrap(), failed);
}

/// Red by: a FAILED that no verb leaves, or a host left behind although its slot is offered again.
// Requirement: F-76
#[tokio::test(start_paused = true)]
async fn salvage_deletes_the_host_that_a_failed_create_left() {
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
    let_timers_fire().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Failed);
    // As if the provider had died before it deleted the late host.
    std::fs::write(hosts.join(format!("host-{}", accepted.operation)), "").unwrap();
    kit.transition(&request(&first_slot(), Verb::Salvage)).await.unwrap();
    let_timers_fire().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap(), offered);
    assert_eq!(kit.backend().hosts().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_response_does_not_wait_for_the_verb() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    kit.backend().hold();
    let accepted = kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    assert_eq!(accepted.machine.state(), State::Creating);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Creating);
    kit.backend().release();
    let_timers_fire().await;
    assert_eq!(kit.get(&first_slot()).await.unwrap().state(), State::Idle);
}

// Requirement: PM-12
#[tokio::test(start_paused = true)]
async fn a_lost_host_is_reported_once() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    let_timers_fire().await;
    let host = kit.get(&first_slot()).await.unwrap().host.unwrap();
    let revision = kit.list(&ListFilter::default()).await.unwrap().revision;
    kit.poll().await.unwrap();
    let same = kit.list(&ListFilter::default()).await.unwrap().revision;
    assert_eq!(same, revision, "a poll without findings changes nothing");
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

/// A substrate that fails twice before each verb and cannot delete.
#[derive(Default)]
struct FlakyBackend {
    tries: AtomicU32,
}

impl FlakyBackend {
    fn attempt(&self) -> Result<(), Fault> {
        match self.tries.fetch_add(1, Ordering::SeqCst) % 3 {
            2 => Ok(()),
            _ => Err(Fault::transient("not now")),
        }
    }
}

#[async_trait]
impl Backend for FlakyBackend {
    async fn describe(&self) -> Result<Vec<Machine>, Fault> {
        Fake::new(Settings::default()).unwrap().describe().await
    }

    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault> {
        self.attempt()?;
        let host = fleet::HostRef { provider: "p".to_owned(), r#ref: command.operation.clone() };
        Ok(CreatedHost { host, ..CreatedHost::default() })
    }

    async fn configure(&self, _: &Command, _: &Bytes) -> Result<(), Fault> {
        self.attempt()
    }

    async fn drain(&self, _: &Command, _: Duration) -> Result<(), Fault> {
        self.attempt()
    }

    async fn delete(&self, _: &Command) -> Result<(), Fault> {
        Err(Fault::permanent("machines cannot be deleted"))
    }

    fn deletes(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn transient_faults_are_retried_under_the_same_operation() {
    let kit = Kit::start(FlakyBackend::default(), without_polling()).await.unwrap();
    let accepted = kit.transition(&request(&first_slot(), Verb::Create)).await.unwrap();
    let_timers_fire().await;
    let idle = kit.get(&first_slot()).await.unwrap();
    assert_eq!((idle.state(), idle.host.unwrap().r#ref), (State::Idle, accepted.operation));
    assert_eq!(kit.backend().tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_provider_without_delete_refuses_it_before_the_fence() {
    let kit = Kit::start(FlakyBackend::default(), without_polling()).await.unwrap();
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
async fn an_invalid_offer_fails_the_start() {
    #[derive(Debug)]
    struct InvalidOffer;
    #[async_trait]
    impl Backend for InvalidOffer {
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
    let refused = Kit::start(InvalidOffer, without_polling()).await.unwrap_err();
    let text = "invalid offer: machine \"m\" has no instance type";
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
async fn health_is_served() {
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), without_polling()).await.unwrap();
    let address = server::serve_kit(&kit, None).await;
    let channel = fleet::channel(&address, None).unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let check =
        |service: &str| tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
    let answer = health.check(check(fleet::SERVICE_NAME)).await.unwrap().into_inner();
    assert_eq!(answer.status(), tonic_health::ServingStatus::Serving.into());
    let unknown = health.check(check("unknown")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

// Requirement: PM-7
#[tokio::test]
async fn configure_for_another_cluster_is_an_internal_error() {
    let (_kit, mut client) = server::fake(Settings::default(), without_polling()).await;
    let id = first_slot();
    client
        .create(fleet::CreateRequest { machine_id: id.clone(), ..Default::default() })
        .await
        .unwrap();
    server::settle(&mut client, &id, State::Idle).await;
    let configure = |cluster: &str| fleet::ConfigureRequest {
        machine_id: id.clone(),
        cluster_id: cluster.to_owned(),
        ..Default::default()
    };
    client.configure(configure("a")).await.unwrap();
    server::settle(&mut client, &id, State::Configured).await;
    let refused = client.configure(configure("b")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert_eq!(server::get(&mut client, &id).await.cluster, "a");
}
