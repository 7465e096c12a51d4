//! The walk while its server is killed.

use std::time::Duration;

use usher_cli::failpoint::Failpoint;

use crate::house::House;

const ALL: [&str; 4] = ["Requested", "Ready", "Deleting", "Deleted"];

/// One node in and out, whoever dies on the way; perhaps it hangs and must be made to end.
async fn walk(house: &mut House, name: &str, hangs: bool) {
    let id = house.provision(name).await;
    house.until_phase(&id, "Ready").await;
    if hangs {
        house.signal_agents(rustix::process::Signal::STOP);
        house.until_reason(&id, "NodeLost").await;
    }
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL, "{name}: {}", house.said());
}

/// Red by: an effect that cannot be repeated, or a name that is used before it is recorded.
#[tokio::test]
async fn a_server_that_dies_at_a_failpoint_leaves_nothing_behind() {
    let mut house = House::new(&["local.agent_grace=300ms"]);
    let mut unpassed = Vec::new();
    for point in Failpoint::ALL {
        let deaths = house.deaths();
        house.start(Some(point.as_str()));
        house.until_ready().await;
        // An agent that leaves needs no signal.
        let hangs = matches!(point, Failpoint::BeforeSignal | Failpoint::AfterSignal);
        walk(&mut house, &format!("at-{point}"), hangs).await;
        if house.deaths() == deaths {
            unpassed.push(point);
        }
        house.kill();
    }
    assert_eq!(unpassed, []);
}

/// Red by: a start that waits for the leases of a process that is dead.
#[tokio::test]
async fn a_server_that_was_killed_in_a_step_waits_for_no_lease_of_its_own() {
    let mut house = House::new(&["worker.lease=1h", "broker.reconcile_interval=1h"]);
    house.start(Some("after-effect"));
    house.until_ready().await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    assert_eq!(house.deaths(), 1);
}

/// Red by: a lease that is never taken over, or a queue that loses a wake-up.
#[tokio::test]
async fn a_server_that_is_killed_at_any_moment_goes_on() {
    let mut house = House::up(&[]).await;
    for round in 0..4_u64 {
        let name = format!("round-{round}");
        let id = house.provision(&name).await;
        tokio::time::sleep(Duration::from_millis(40 + 35 * round)).await;
        house.kill();
        house.until_phase(&id, "Ready").await;
        house.deprovision(&id).await;
        tokio::time::sleep(Duration::from_millis(15 + 25 * round)).await;
        house.kill();
        house.until_phase(&id, "Deleted").await;
        assert_eq!(house.told(&id).await, ALL, "{}", house.said());
    }
    house.until_nothing_is_left().await;
}
