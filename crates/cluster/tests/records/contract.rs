//! The promises of every ledger, kept by records of a cluster.

use usher_sim::contract::ledger::{PROMISES, keep};

use crate::rig::{TestRecords, kubeconfig};

// Requirement: KR-7
#[tokio::test]
async fn records_of_the_embedded_server_keep_every_promise() {
    for promise in PROMISES {
        let test = TestRecords::new().await;
        println!("{promise}");
        assert!(keep(promise, &test).await, "{promise} was not tried");
    }
}

// Requirement: KR-7
#[tokio::test]
async fn records_of_another_cluster_keep_every_promise_that_can_be_tried() {
    let Some(kubeconfig) = kubeconfig() else {
        eprintln!("skipped: USHER_TEST_KUBECONFIG names no cluster");
        return;
    };
    let mut skipped = Vec::new();
    for promise in PROMISES {
        println!("{promise}");
        let test = TestRecords::elsewhere(&kubeconfig).await;
        if !keep(promise, &test).await {
            skipped.push(promise);
        }
        test.delete().await;
    }
    eprintln!("not tried without faults of the server: {skipped:?}");
    assert!(skipped.len() <= 3, "{skipped:?}");
}
