//! The end of a record.

use serde_json::{Value, json};
use usher_kernel::{Ledger as _, Trouble};
use usher_sim::contract::ledger::{Meddling, TestLedger as _};

use crate::lamp::ORPHAN;
use crate::rig::{TestRecords, call};
use crate::shapes::commit;

async fn exists(test: &TestRecords) -> bool {
    call(&test.admin, ("GET", &test.path()), &Value::Null).await.is_ok()
}

// Requirement: KR-8
#[tokio::test]
async fn a_record_that_ended_is_deleted_as_it_was_loaded() {
    for test in TestRecords::each().await {
        let ledger = test.ledger(1);
        assert_eq!(ledger.end().await, Err(Trouble::Conflict), "it was not loaded");
        ledger.load().await.expect("it answers");
        assert_eq!((ledger.end().await, test.writes()), (Ok(()), 0), "it was never written");
        commit(&test, "a").await;
        let slow = test.ledger(1);
        slow.load().await.expect("it answers");
        commit(&test, "b").await;
        assert_eq!(slow.end().await, Err(Trouble::Conflict), "another writer was faster");
        assert!(exists(&test).await);
        slow.load().await.expect("it answers");
        assert_eq!((slow.end().await, exists(&test).await), (Ok(()), false));
        assert_eq!(slow.end().await, Ok(()), "once more does nothing");
        test.delete().await;
    }
}

/// Red by: a deletion that names the version only.
// Requirement: KR-8
#[tokio::test]
async fn a_record_that_another_created_meanwhile_is_not_deleted() {
    for test in TestRecords::each().await {
        commit(&test, "a").await;
        let slow = test.ledger(1);
        slow.load().await.expect("it answers");
        assert!(test.meddle(Meddling::Remove).await);
        commit(&test, "b").await;
        assert_eq!(slow.end().await, Err(Trouble::Conflict));
        assert!(exists(&test).await);
        test.delete().await;
    }
}

// Requirement: KR-8
#[tokio::test]
async fn the_end_of_a_record_whose_answer_was_lost_is_read() {
    for test in TestRecords::each().await {
        commit(&test, "a").await;
        let ledger = test.ledger(1);
        ledger.load().await.expect("it answers");
        test.meddle(Meddling::LoseRequests).await;
        let lost = ledger.end().await;
        assert!(matches!(lost, Err(Trouble::Unavailable { .. })), "{lost:?}");
        assert!(exists(&test).await);
        test.meddle(Meddling::LoseAnswers).await;
        assert_eq!((ledger.end().await, exists(&test).await), (Ok(()), false));
        test.delete().await;
    }
}

// Requirement: KR-8
#[tokio::test]
async fn the_record_of_an_orphan_stays_and_a_late_term_ends_nothing() {
    for test in TestRecords::each().await {
        commit(&test, ORPHAN).await;
        let ledger = test.ledger(1);
        ledger.load().await.expect("it answers");
        let kept = ledger.end().await;
        assert!(matches!(kept, Err(Trouble::Blocked { .. })), "{kept:?}");
        commit(&test, "adopted").await;
        let labels = test.object().await["metadata"]["labels"].clone();
        assert_eq!(labels["usher.dev/orphan"], Value::Null, "it is torn down after all");
        let raised = json!({"spec": {"epoch": 2}});
        test.done(("PATCH", &test.path()), &raised).await;
        assert_eq!(ledger.load().await, Err(Trouble::Conflict));
        assert_eq!(ledger.end().await, Err(Trouble::Conflict), "its term is over");
        assert!(exists(&test).await);
        test.delete().await;
    }
}
