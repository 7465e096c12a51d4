//! The relay: at least once, in order, with the same ids, and no sink delays another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use usher_domain::object::slug::Slug;
use usher_domain::sinks::{Parked, Proof, Scheme, SecretCoordinate, SecretPlace, Sink};
use usher_kernel::schedule::Pace;
use usher_store::relay::RelayConfig;
use usher_store::{
    Beginning, Command, Cursor, Error, Moved, RoundEnd, Settings, Settlement, SinkState, Store,
};

use crate::declare::World;
use crate::running::{Running, SECRET};
use crate::sink::{Delivery, Receiver, Reply};
use crate::test_store::{TestStore, on_both, on_both_with, read_events};

/// Retries come at once; nothing runs out while a slow machine works.
fn hurried() -> RelayConfig {
    RelayConfig {
        pace: Pace {
            lease: Duration::from_mins(3),
            base: Duration::from_millis(20),
            max: Duration::from_millis(200),
        },
        request: Duration::from_mins(1),
        refused_grace: Duration::from_millis(300),
        database_pause: Duration::from_millis(20),
        ..RelayConfig::default()
    }
}

/// Lets the time of every lease pass.
async fn end_lease(test: &TestStore) {
    test.database.execute("UPDATE sinks SET lease_until = created_at").await;
}

async fn state(store: &Store, sink: &Sink) -> SinkState {
    store.sink(&sink.name).await.unwrap().unwrap()
}

/// Waits until a sink is in a state.
async fn until(store: &Store, sink: &Sink, is: impl Fn(&SinkState) -> bool) -> SinkState {
    for _ in 0..24_000 {
        let found = state(store, sink).await;
        if is(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it stays {:?}", state(store, sink).await);
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|it| it.id().to_owned()).collect()
}

async fn logged(store: &Store, count: usize) -> Vec<String> {
    read_events(store, Cursor::START, count).await.iter().map(|it| it.id.to_string()).collect()
}

/// Red by: an attribute that is missing, or another id for the same row.
// Requirement: Y-1
#[tokio::test]
async fn events_arrive_as_cloud_events_in_the_order_of_the_log() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        let before = world.declare("before").await;
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        let relay = Running::start(&test.store, hurried());
        receiver.received(1).await;
        for turn in 0..5 {
            let id = world.declare(&format!("r{turn}")).await.id();
            test.store.command(id, Command::Deprovision, None).await.unwrap();
        }
        let deliveries = receiver.received(11).await;
        assert_eq!(ids(&deliveries), logged(&test.store, 11).await);
        let first = &deliveries[0].event;
        let source = format!("urn:usher:installation:{}", test.store.installation().id);
        assert_eq!(first["source"], source);
        assert_eq!(first["type"], "broker.ProvisionedResourceRequested");
        assert_eq!(first["subject"], before.id().to_string());
        assert_eq!(first["data"]["name"], "before");
        let form = &deliveries[0].headers["content-type"];
        assert_eq!(form, "application/cloudevents+json; charset=utf-8");
        relay.stop().await;
        let found = state(&test.store, &sink).await;
        assert_eq!(found.cursor, read_events(&test.store, Cursor::START, 11).await[10].cursor);
        assert_eq!((found.lease_until, found.attempts), (None, 0));
    })
    .await;
}

/// Red by: a place that is written before the delivery, or ids that are made at the delivery.
// Requirement: V-10, Y-2
#[tokio::test]
async fn a_crash_between_delivery_and_its_record_repeats_it_with_the_same_id() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        for turn in 0..3 {
            world.declare(&format!("r{turn}")).await;
        }
        // One round delivers all three only if the log shows all of them when it begins.
        let all = logged(&test.store, 3).await;
        // The third is received, and never answered to this relay.
        receiver.reply([
            Reply::Status(200, vec![]),
            Reply::Status(200, vec![]),
            Reply::Slow(Duration::from_mins(10)),
        ]);
        let relay = Running::start(&test.store, hurried());
        receiver.received(3).await;
        relay.kill().await;
        assert_eq!(state(&test.store, &sink).await.cursor, Cursor::START, "nothing was recorded");
        end_lease(&test).await;
        let relay = Running::start(&test.store, hurried());
        let arrived = receiver.received(6).await;
        assert_eq!(ids(&arrived), [all.clone(), all].concat(), "all of it again, in order");
        assert_eq!(arrived[0].body, arrived[3].body, "byte for byte");
        relay.stop().await;
    })
    .await;
}

/// Red by: an answer that is taken for granted when the connection closes.
// Requirement: Y-2
#[tokio::test]
async fn a_delivery_without_an_answer_is_repeated() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        receiver.reply([Reply::Silent]);
        let relay = Running::start(&test.store, hurried());
        world.declare("a").await;
        world.declare("b").await;
        let arrived = receiver.received(3).await;
        let all = logged(&test.store, 2).await;
        assert_eq!(ids(&arrived), [all[0].clone(), all[0].clone(), all[1].clone()]);
        relay.stop().await;
    })
    .await;
}

/// Red by: one task, one connection or one budget for several sinks.
// Requirement: Y-4
#[tokio::test]
async fn a_dead_and_a_slow_sink_delay_no_other() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let (slow, quick) = (Receiver::new().await, Receiver::new().await);
        let port = Receiver::new().await.port();
        let dead = Sink::new(
            "dead".parse().unwrap(),
            format!("http://127.0.0.1:{port}/").parse().unwrap(),
            None,
        )
        .unwrap();
        slow.always(Some(Reply::Slow(Duration::from_mins(10))));
        test.store.create_sink(dead.clone(), Beginning::Oldest).await.unwrap();
        test.store.create_sink(slow.sink("slow", None), Beginning::Oldest).await.unwrap();
        test.store.create_sink(quick.sink("quick", None), Beginning::Oldest).await.unwrap();
        let relay = Running::start(&test.store, hurried());
        for turn in 0..10 {
            world.declare(&format!("r{turn}")).await;
        }
        let arrived = quick.received(10).await;
        assert_eq!(ids(&arrived), logged(&test.store, 10).await);
        assert!(slow.deliveries().len() <= 1, "it holds one delivery at a time");
        let failing = until(&test.store, &dead, |it| it.attempts >= 2).await;
        assert!(failing.trouble.unwrap().contains("connection refused"));
        assert!(failing.retry_at.is_some() && failing.parked.is_none());
        // It resumes at its cursor.
        let back = Receiver::at(port).await;
        assert_eq!(ids(&back.received(10).await), ids(&arrived));
        relay.kill().await;
    })
    .await;
}

/// Red by: a back-off that ignores the header.
// Requirement: Y-5
#[tokio::test]
async fn a_retry_after_of_a_sink_is_respected() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Now).await.unwrap();
        receiver.reply([
            Reply::Status(503, vec![("retry-after", "1".to_owned())]),
            Reply::Status(
                429,
                vec![
                    ("date", "Fri, 31 Dec 1999 23:59:58 GMT".to_owned()),
                    ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT".to_owned()),
                ],
            ),
        ]);
        let relay = Running::start(&test.store, hurried());
        world.declare("a").await;
        let arrived = receiver.received(3).await;
        for pair in arrived.windows(2) {
            let pause = pair[1].at - pair[0].at;
            assert!(pause >= Duration::from_millis(990), "{pause:?}");
        }
        let found = until(&test.store, &sink, |it| it.attempts == 0).await;
        assert_eq!((found.trouble, found.failing_since, found.retry_at), (None, None, None));
        relay.stop().await;
    })
    .await;
}

/// Red by: a refusal that is retried for ever, that skips the event, or that ends everything.
// Requirement: Y-6
#[tokio::test]
async fn a_sink_that_is_gone_or_refuses_too_long_is_parked_with_the_reason() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let (gone, refusing) = (Receiver::new().await, Receiver::new().await);
        let (one, two) = (gone.sink("gone", None), refusing.sink("refusing", None));
        gone.always(Some(Reply::Status(410, vec![])));
        refusing.always(Some(Reply::Status(401, vec![])));
        test.store.create_sink(one.clone(), Beginning::Oldest).await.unwrap();
        test.store.create_sink(two.clone(), Beginning::Oldest).await.unwrap();
        let relay = Running::start(&test.store, hurried());
        world.declare("a").await;
        let parked = until(&test.store, &one, |it| it.parked.is_some()).await;
        assert_eq!(parked.parked, Some(Parked::Gone));
        assert_eq!(gone.deliveries().len(), 1);
        let parked = until(&test.store, &two, |it| it.parked.is_some()).await;
        assert_eq!(parked.parked, Some(Parked::Refused));
        assert_eq!(parked.trouble.as_deref(), Some("it answered 401"));
        assert!(refusing.deliveries().len() >= 2, "it was given its grace");
        assert_eq!(parked.cursor, Cursor::START, "and nothing was skipped");
        refusing.always(None);
        test.store.resume_sink(two.name.clone(), None).await.unwrap();
        until(&test.store, &two, |it| it.cursor != Cursor::START).await;
        let ids: BTreeSet<String> = ids(&refusing.deliveries()).into_iter().collect();
        assert_eq!(ids.len(), 1, "the same event, as often as it was tried");
        relay.stop().await;
    })
    .await;
}

/// Red by: a secret that is kept, sent plainly by the wrong scheme, or not sent.
// Requirement: Y-9
#[tokio::test]
async fn a_sink_can_check_who_delivers_and_the_store_keeps_no_secret() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let at = |name| SecretCoordinate::new(SecretPlace::Env, name).unwrap();
        let proof = |scheme, name| Some(Proof { scheme, secret: at(name) });
        let signed = receiver.sink("signed", proof(Scheme::Hmac, "HOOK"));
        test.store.create_sink(signed.clone(), Beginning::Oldest).await.unwrap();
        let relay = Running::start(&test.store, hurried());
        world.declare("a").await;
        let arrived = receiver.received(1).await.remove(0);
        assert_eq!(arrived.headers["webhook-id"], arrived.id());
        assert!(arrived.headers["webhook-signature"].to_str().unwrap().starts_with("v1,"));
        assert!(!arrived.headers.contains_key("authorization"));
        let bearing = receiver.sink("signed", proof(Scheme::Bearer, "HOOK"));
        test.store.change_sink(bearing).await.unwrap();
        world.declare("b").await;
        let arrived = receiver.received(2).await.remove(1);
        assert_eq!(arrived.headers["authorization"], format!("Bearer {SECRET}"));
        test.store.change_sink(receiver.sink("signed", proof(Scheme::Hmac, "NONE"))).await.unwrap();
        world.declare("c").await;
        let found = until(&test.store, &signed, |it| it.attempts > 0).await;
        assert_eq!(found.trouble.as_deref(), Some("cannot read its secret"));
        assert_eq!(receiver.deliveries().len(), 2, "nothing is delivered without it");
        relay.stop().await;
        assert!(!format!("{:?}", test.store.sinks().await.unwrap()).contains(SECRET));
    })
    .await;
}

/// Red by: two relays that deliver at once, or one that stays after its lease.
// Requirement: Y-7
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_relays_deliver_everything_once_between_them_and_in_order() {
    let settings = Settings { log_poll: Duration::from_millis(20), ..Settings::default() };
    on_both_with(settings, async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        let relays = [(); 2].map(|()| Running::start(&test.store, hurried()));
        for turn in 0..30 {
            world.declare(&format!("r{turn}")).await;
        }
        receiver.received(30).await;
        let last = read_events(&test.store, Cursor::START, 30).await[29].cursor;
        until(&test.store, &sink, |it| it.cursor == last && it.lease_until.is_none()).await;
        assert_eq!(ids(&receiver.deliveries()), logged(&test.store, 30).await);
        for relay in relays {
            relay.stop().await;
        }
    })
    .await;
}

/// Red by: a relay that writes or calls while there is no event to deliver.
// Requirement: Y-8
#[tokio::test]
async fn an_idle_relay_writes_nothing_and_calls_no_sink() {
    let settings = Settings { log_poll: Duration::from_millis(10), ..Settings::default() };
    on_both_with(settings, async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        let relay = Running::start(&test.store, hurried());
        world.declare("a").await;
        receiver.received(1).await;
        let settled =
            until(&test.store, &sink, |it| it.cursor != Cursor::START && it.lease_until.is_none())
                .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let later = state(&test.store, &sink).await;
        assert_eq!(later, SinkState { now: later.now, ..settled });
        assert_eq!(receiver.deliveries().len(), 1);
        relay.stop().await;
    })
    .await;
}

/// Red by: a settlement that ignores the fence.
// Requirement: Y-7
#[tokio::test]
async fn a_relay_that_lost_its_lease_writes_nothing() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        world.declare("a").await;
        let sink = Receiver::new().await.sink("hook", None);
        let (name, store) = (&sink.name, &test.store);
        store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        let lease = hurried().pace.lease;
        let first = store.lease_sink(name.clone(), lease).await.unwrap();
        let first = first.unwrap();
        let second = store.lease_sink(name.clone(), lease).await.unwrap();
        assert_eq!(second, None, "another relay holds it");
        end_lease(&test).await;
        let second = store.lease_sink(name.clone(), lease).await.unwrap();
        let second = second.unwrap();
        assert!(second.fence > first.fence);
        let cursor = read_events(store, Cursor::START, 1).await[0].cursor;
        let end = RoundEnd::Done;
        let late = Settlement { lease: first, cursor, end: end.clone() };
        assert!(!store.settle_sink(late).await.unwrap());
        assert_eq!(state(store, &sink).await.cursor, Cursor::START);
        let own = Settlement { lease: second, cursor, end };
        assert!(store.settle_sink(own).await.unwrap());
        assert_eq!(state(store, &sink).await.cursor, cursor);
    })
    .await;
}

/// Red by: a sink that begins elsewhere, a name that is taken twice, delivery to a removed sink.
// Requirement: Y-10
#[tokio::test]
async fn sinks_are_entered_changed_parked_and_removed() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        world.declare("old").await;
        let end = read_events(&test.store, Cursor::START, 1).await[0].cursor;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        let store = &test.store;
        store.create_sink(sink.clone(), Beginning::Now).await.unwrap();
        assert_eq!(state(store, &sink).await.cursor, end);
        let taken = store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap_err();
        assert!(matches!(taken, Error::Taken { .. }), "{taken}");
        let relay = Running::start(store, hurried());
        store.park_sink(sink.name.clone()).await.unwrap();
        world.declare("new").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(receiver.deliveries().len(), 0);
        assert_eq!(state(store, &sink).await.parked, Some(Parked::Asked));
        store.resume_sink(sink.name.clone(), Some(Cursor::START)).await.unwrap();
        assert_eq!(ids(&receiver.received(2).await), logged(store, 2).await, "from its cursor");
        store.delete_sink(sink.name.clone()).await.unwrap();
        world.declare("unclaimed").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(receiver.deliveries().len(), 2);
        let unknown: Slug = "unknown".parse().unwrap();
        for refused in [
            store.delete_sink(unknown.clone()).await.unwrap_err(),
            store.park_sink(unknown.clone()).await.unwrap_err(),
            store.resume_sink(unknown, None).await.unwrap_err(),
            store.change_sink(sink).await.unwrap_err(),
        ] {
            assert!(matches!(refused, Error::NotFound { .. }), "{refused}");
        }
        relay.stop().await;
    })
    .await;
}

/// Red by: a clone that delivers to the sinks of the original.
// Requirement: Y-10
#[tokio::test]
async fn the_sinks_of_a_clone_are_parked() {
    on_both(async |test: TestStore| {
        let sink = Receiver::new().await.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        test.store.close().await;
        let carry_off = "UPDATE installation SET database_identifier = 'elsewhere'";
        let open = async |moved| {
            test.database.execute(carry_off).await;
            let settings = Settings { moved, ..Settings::default() };
            let store = Store::open(&test.database.place, settings).await.unwrap();
            let found = state(&store, &sink).await.parked;
            store.close().await;
            found
        };
        assert_eq!(open(Moved::SameInstallation).await, None);
        assert_eq!(open(Moved::NewInstallation).await, Some(Parked::Moved));
    })
    .await;
}

/// Red by: a task with an order of its own, or a cursor that goes back.
// Requirement: Y-3
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_relay_killed_repeatedly_loses_no_event_and_keeps_their_order() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let receiver = Receiver::new().await;
        let sink = receiver.sink("hook", None);
        test.store.create_sink(sink.clone(), Beginning::Oldest).await.unwrap();
        let config = RelayConfig {
            pace: Pace { lease: Duration::from_millis(150), ..hurried().pace },
            request: Duration::from_millis(50),
            batch: 5,
            ..hurried()
        };
        let writer = {
            let world = world.clone();
            tokio::spawn(async move {
                for turn in 0..40 {
                    let id = world.declare(&format!("r{turn}")).await.id();
                    world.store.command(id, Command::Deprovision, None).await.unwrap();
                }
            })
        };
        for round in 0..12_u64 {
            let relay = Running::start(&test.store, config.clone());
            tokio::time::sleep(Duration::from_millis(7 * (round % 5))).await;
            relay.kill().await;
        }
        writer.await.unwrap();
        let relay = Running::start(&test.store, hurried());
        let last = read_events(&test.store, Cursor::START, 80).await[79].cursor;
        until(&test.store, &sink, |it| it.cursor == last).await;
        relay.stop().await;
        let mut first = vec![];
        let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for it in receiver.deliveries() {
            if seen.insert(it.id().to_owned()) {
                first.push(it.id().to_owned());
                let version = it.event["resourceversion"].as_str().unwrap().parse().unwrap();
                let resource = it.event["subject"].as_str().unwrap().to_owned();
                versions.entry(resource).or_default().push(version);
            }
        }
        assert_eq!(first, logged(&test.store, 80).await);
        assert!(versions.values().all(|it| it.is_sorted()), "{versions:?}");
    })
    .await;
}
