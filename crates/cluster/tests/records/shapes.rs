//! What the API server lets a record be.

use serde_json::{Value, json};
use usher_kernel::Ledger as _;
use usher_sim::contract::ledger::{Lamp, Phase, Reason, State};

use crate::lamp::ORPHAN;
use crate::rig::{INSTALLATION, TestRecords, call};

/// Commits a lamp with this note.
pub(crate) async fn commit(test: &TestRecords, note: &str) {
    let ledger = test.ledger(1);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    ledger.commit(seen.version, &lit(note)).await.expect("nothing stands against it");
}

pub(crate) fn lit(note: &str) -> usher_kernel::Decision<Lamp> {
    usher_kernel::Decision {
        next: State { phase: Phase::Lit, note: note.to_owned() },
        rows: vec![],
        effect: None,
        event: None,
        wake: usher_kernel::Wake::OnChange,
        reason: Reason::Burning,
    }
}

// Requirement: KR-3
#[tokio::test]
async fn a_record_says_what_it_is_about_and_can_be_selected() {
    for test in TestRecords::each().await {
        commit(&test, ORPHAN).await;
        let object = test.object().await;
        let uid = test.of.uid.to_string();
        assert_eq!(object["metadata"]["name"], format!("lamp-{uid}"));
        let labels = json!({"usher.dev/installation": INSTALLATION, "usher.dev/orphan": "true"});
        assert_eq!(object["metadata"]["labels"], labels);
        assert_eq!(
            object["metadata"]["ownerReferences"],
            Value::Null,
            "its object may go before it"
        );
        let of = json!({
            "group": "light.example", "resource": "lamps", "kind": "Lamp",
            "namespace": "default", "name": "lamp", "uid": uid,
        });
        assert_eq!(object["spec"]["of"], of);
        let shown = ["phase", "reason", "trouble"].map(|it| object["spec"][it].clone());
        assert_eq!(shown, ["Lit", "Burning", ""]);
        let target = object["spec"]["target"].as_str().expect("a target").to_owned();
        let fields = [
            format!("spec.of.uid={uid}"),
            "spec.phase=Lit".to_owned(),
            format!("spec.target={target}"),
        ];
        for field in fields {
            for (sign, found) in [("%3D", 1), ("!%3D", 0)] {
                let query = field.replacen('=', sign, 1);
                let path = format!("{}?fieldSelector={query}", test.collection());
                let list = test.done(("GET", &path), &Value::Null).await;
                assert_eq!(list["items"].as_array().map(Vec::len), Some(found), "{query}");
            }
        }
        test.delete().await;
    }
}

/// Red by: a rule that is missing in the definition.
// Requirement: KR-3
#[tokio::test]
async fn what_a_record_is_about_and_its_epoch_are_guarded_by_the_server() {
    for test in TestRecords::each().await {
        commit(&test, "a").await;
        test.ledger(2).load().await.expect("it answers");
        let raised = json!({"spec": {"epoch": 2}});
        test.done(("PATCH", &test.path()), &raised).await;
        let of = |field: &str| json!({"spec": {"of": {field: "other"}}});
        let mut cases: Vec<Value> =
            ["group", "resource", "kind", "namespace", "name", "uid"].map(of).into();
        cases.extend([
            json!({"spec": {"epoch": 1}}),
            json!({"spec": {"epoch": -1}}),
            json!({"spec": {"of": null}}),
            json!({"spec": {"data": null}}),
            json!({"spec": {"data": "x".repeat(256 * 1024 + 1)}}),
            json!({"spec": {"target": "moth"}}),
            json!({"spec": {"phase": "x".repeat(64)}}),
            json!({"spec": {"trouble": "x".repeat(1025)}}),
        ]);
        let before = test.object().await;
        for case in cases {
            let refused = call(&test.admin, ("PATCH", &test.path()), &case).await;
            assert!(refused.is_err(), "{:.80}", case.to_string());
        }
        assert_eq!(test.object().await, before);
        let status = format!("{}/status", test.path());
        assert!(
            call(&test.admin, ("GET", &status), &Value::Null).await.is_err(),
            "it has no status"
        );
        test.delete().await;
    }
}
