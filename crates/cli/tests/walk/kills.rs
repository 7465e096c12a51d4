//! The walk while its server is killed.

use std::time::Duration;

use usher_cli::failpoint::Failpoint;

use crate::house::House;

const ALL: [&str; 4] = ["Requested", "Ready", "Deleting", "Deleted"];

/// One node in and out, whoever dies on the way.
async fn walk(house: &mut House, name: &str) {
    let id = house.provision(name).await;
    house.until_phase(&id, "Ready").await;
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL, "{name}: {}", house.said());
}

/// Where a walk does not pass: an agent that left needs no signal.
const UNPASSED: [Failpoint; 2] = [Failpoint::BeforeSignal, Failpoint::AfterSignal];

/// Red by: an effect that cannot be repeated, or a name that is used before it is recorded.
#[tokio::test]
async fn a_server_that_dies_at_a_failpoint_leaves_nothing_behind() {
    let mut house = House::new(&[]);
    let mut unpassed = Vec::new();
    for point in Failpoint::ALL {
        let deaths = house.deaths();
        house.start(Some(point.as_str()));
        house.until_ready().await;
        walk(&mut house, &format!("at-{point}")).await;
        if house.deaths() == deaths {
            unpassed.push(point);
        }
        house.kill();
    }
    assert_eq!(unpassed, UNPASSED);
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
