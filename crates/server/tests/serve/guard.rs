//! Pins of worlds, and the mass-deletion guard.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::audit::{Action, Entry};
use usher_domain::object::authority::{Authority, MassDeletionGuard, Pin, WorldRecord};
use usher_domain::object::id::{AuditId, ResourceId};
use usher_kernel::{Timestamp, Uid};
use usher_server::guard::{Config, Guards};
use usher_server::tally::{Count, Tally};
use usher_server::world_records::{SqlWorldRecords, record};
use usher_store::WithAudit;
use uuid::Uuid;

use crate::test_env::TestEnv;

fn pin(identity: &str, revision: u64) -> Pin {
    Pin { identity: Uid::new(identity), revision }
}

fn guards(env: &TestEnv) -> (Guards, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let config = Config {
        guard: MassDeletionGuard { count: 2, percent: 20 },
        window: Duration::from_mins(1),
    };
    let records = Arc::new(SqlWorldRecords(Arc::clone(&env.store)));
    (Guards::new(records, config, Arc::clone(&tally)), tally)
}

async fn recorded(env: &TestEnv) -> Option<WorldRecord> {
    env.store.world("local").await.unwrap().map(record)
}

async fn judge(env: &TestEnv, guards: &Guards, answered: &Pin) -> Authority {
    let known = recorded(env).await;
    let pinned = guards.pinned("local", known.as_ref());
    guards.judge("local", pinned, answered).await.unwrap()
}

async fn vanish(env: &TestEnv, guards: &Guards, number: u128, at: Timestamp) -> bool {
    let known = recorded(env).await;
    let id = ResourceId::from_uuid(Uuid::from_u128(number));
    guards.vanished("local", (id, at), known.as_ref()).await.unwrap()
}

/// The audited command to reset a guard.
fn reset(env: &TestEnv) -> WithAudit<'_> {
    env.store.with_audit(Entry {
        id: AuditId::from_uuid(Uuid::now_v7()),
        at: Timestamp::from_millis(1),
        actor: "ann".to_owned(),
        action: Action::GuardReset,
        project: None,
        subject: "local".to_owned(),
        detail: serde_json::Map::new(),
    })
}

/// Red by: a pin that is lost with its process, or raised by another world.
// Requirement: O-9
#[tokio::test]
async fn a_pin_survives_a_restart_and_its_revision_only_grows() {
    let env = TestEnv::new().await;
    let (first, _) = guards(&env);
    assert_eq!(judge(&env, &first, &pin("a", 5)).await, Authority::Pinned);
    assert_eq!(judge(&env, &first, &pin("a", 9)).await, Authority::Pinned);
    assert_eq!(judge(&env, &first, &pin("a", 8)).await, Authority::Replaced);
    assert_eq!(judge(&env, &first, &pin("b", 99)).await, Authority::Replaced);
    first.write_down().await.unwrap();
    let (second, _) = guards(&env);
    assert_eq!(judge(&env, &second, &pin("a", 8)).await, Authority::Replaced);
    assert_eq!(judge(&env, &second, &pin("a", 9)).await, Authority::Pinned);
    assert_eq!(env.store.world("local").await.unwrap().unwrap().pin, pin("a", 9));
}

/// Red by: an answer that is judged by a revision that another step observed after the request.
// Requirement: O-9
#[tokio::test]
async fn out_of_order_answers_of_the_pinned_world_are_all_believed() {
    let env = TestEnv::new().await;
    let (it, _) = guards(&env);
    let first = it.pinned("local", None);
    assert_eq!(judge(&env, &it, &pin("a", 5)).await, Authority::Pinned);
    let late = it.judge("local", first, &pin("a", 4)).await.unwrap();
    assert_eq!(late, Authority::Pinned, "no revision was known at the request");
    let second = it.pinned("local", None);
    assert_eq!(judge(&env, &it, &pin("a", 9)).await, Authority::Pinned);
    let late = it.judge("local", second, &pin("a", 6)).await.unwrap();
    assert_eq!(late, Authority::Pinned, "5 was known at the request");
    assert_eq!(judge(&env, &it, &pin("a", 8)).await, Authority::Replaced, "9 is known by now");
}

/// Red by: a pin in memory that an operator's reset does not reach.
// Requirement: KA-10
#[tokio::test]
async fn a_pin_that_an_operator_reset_replaces_the_one_in_memory() {
    let env = TestEnv::new().await;
    let (it, _) = guards(&env);
    assert_eq!(judge(&env, &it, &pin("a", 9)).await, Authority::Pinned);
    let reset = WorldRecord { pin: pin("b", 3), tripped_at: None, reset_at: None };
    let cases = [
        (pin("b", 3), Authority::Pinned),
        (pin("b", 5), Authority::Pinned),
        (pin("b", 4), Authority::Replaced),
        (pin("a", 10), Authority::Replaced),
    ];
    for (answered, authority) in cases {
        let pinned = it.pinned("local", Some(&reset));
        assert_eq!(it.judge("local", pinned, &answered).await.unwrap(), authority, "{answered:?}");
    }
}

/// Red by: a guard that resets itself, or that trips again on deletions that an operator confirmed.
// Requirement: O-9, A-26
#[tokio::test]
async fn a_mass_deletion_trips_the_guard_until_it_is_reset() {
    let env = TestEnv::new().await;
    let (it, tally) = guards(&env);
    judge(&env, &it, &pin("a", 1)).await;
    let now = env.store.now().await.unwrap();
    assert!(!vanish(&env, &it, 1, now).await);
    assert!(!vanish(&env, &it, 1, now).await, "the same one counts once");
    assert!(!vanish(&env, &it, 2, now).await);
    assert!(vanish(&env, &it, 3, now).await, "three are more than two");
    assert_eq!(tally.read(Count::GuardsTripped), 1);
    assert!(env.store.world("local").await.unwrap().unwrap().tripped_at.is_some());
    let (other, _) = guards(&env);
    assert!(vanish(&env, &other, 4, now).await, "the guard is tripped in other processes as well");
    it.forget("local");
    assert!(reset(&env).set_guard("local".to_owned(), false).await.unwrap());
    assert_eq!(recorded(&env).await.unwrap().tripped_at, None);
    assert!(!vanish(&env, &it, 3, now).await, "a confirmed deletion does not trip it again");
    let audited = env.store.audit(None, 10).await.unwrap();
    assert_eq!(audited.len(), 1, "only the reset is audited: {audited:?}");
}

/// Red by: old deletions that are counted with new ones.
// Requirement: O-9
#[tokio::test]
async fn deletions_before_the_window_are_not_counted() {
    let env = TestEnv::new().await;
    let (it, _) = guards(&env);
    judge(&env, &it, &pin("a", 1)).await;
    let now = env.store.now().await.unwrap();
    assert!(!vanish(&env, &it, 1, now).await);
    assert!(!vanish(&env, &it, 2, now).await);
    assert!(!vanish(&env, &it, 3, now.after(Duration::from_secs(61))).await);
}
