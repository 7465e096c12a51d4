//! Many lives in one world.

use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::broker::reconciler::Broker;
use usher_kernel::step;
use usher_sim::contract::memory::Wish;
use usher_sim::contract::substrate::TestWorld as _;

use crate::stage::LocalStage;

const LIVES: u8 = 20;

/// Walks one life in and out.
async fn walk(stage: LocalStage) {
    let broker = Broker { interval: Duration::from_millis(1), ..Broker::default() };
    let config = provider_config::ProviderConfigReconciler::default();
    let begun = Instant::now();
    let mut retired = false;
    loop {
        let phase = stage.resource().state.phase();
        if phase == Phase::Ready && !retired {
            stage.retire().await;
            retired = true;
        }
        let gone = stage.config().state.phase == provider_config::Phase::Gone;
        if phase == Phase::Deleted && gone {
            return;
        }
        assert!(begun.elapsed() < Duration::from_mins(3), "{phase}");
        let _ = step(&config, &stage, &stage, stage.now()).await;
        let _ = step(&broker, &stage, &stage, stage.now()).await;
        stage.enrol().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// Requirement: LW-18
#[tokio::test]
async fn many_lives_share_one_world() {
    let keeper = LocalStage::open(&Wish::default()).await;
    let lives = LocalSet::new();
    for number in 2..LIVES + 2 {
        let stage = keeper.beside(number, &Wish::default()).await;
        lives.spawn_local(walk(stage));
    }
    lives.await;
    let names = keeper.world.units().names().unwrap();
    assert_eq!(names, Vec::<String>::new());
}
