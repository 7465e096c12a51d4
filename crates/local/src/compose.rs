//! What the composer does next with one object: pure, from what lies on the disk.
//!
//! ```text
//!   announce ──▶ make each part ──▶ ready ──(a part is missing)──▶ converging ──▶ make it again
//!                     │  ╲─ failed, for good
//!   asked to go, or its owner is gone ──▶ parts marked, substrate gone, parts gone when they can
//! ```

use std::time::Duration;

use serde_json::Value;
use usher_kernel::Timestamp;

use super::object::{Condition, Object, Reference, Sort};

/// The parameter that says how long a substrate takes.
const READY_AFTER: &str = "/spec/parameters/readyAfterMs";
/// The parameter that says how it fails, if it shall.
const FAIL_WITH: &str = "/spec/parameters/failWith";

/// What is seen of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It does not stand.
    Missing,
    /// It stands.
    NameState,
    /// It is announced and made, and what stands behind it is not there yet.
    Coming,
    /// It was asked to go.
    Leaving,
    /// It stands and cannot work.
    Broken {
        /// Why.
        message: String,
    },
}

/// What to do next with a substrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Note that it was asked to go, because nothing owns it.
    Collect,
    /// Mark its parts and take it away.
    Dissolve,
    /// Write down what it will be composed of.
    Announce(Vec<Reference>),
    /// Make this part.
    Make(Reference),
    /// Say how it is.
    Turn(Condition),
    /// Look again then.
    Wait(Timestamp),
    /// Look again when something changes.
    Rest,
}

/// The next step with a substrate.
pub fn substrate(
    object: &Object,
    owned: bool,
    part: impl Fn(&Reference) -> Part,
    now: Timestamp,
) -> Step {
    if object.deleting_at.is_some() {
        return Step::Dissolve;
    }
    if !owned {
        return Step::Collect;
    }
    let Some(substrate) = &object.substrate else { return Step::Rest };
    if matches!(substrate.condition, Condition::Failed { .. }) {
        return Step::Rest;
    }
    if substrate.parts.is_empty() {
        return Step::Announce(announced(object));
    }
    let parts: Vec<(&Reference, Part)> = substrate.parts.iter().map(|it| (it, part(it))).collect();
    if let Some((_, Part::Broken { message })) =
        parts.iter().find(|(_, it)| matches!(it, Part::Broken { .. }))
    {
        return Step::Turn(Condition::Failed { message: message.clone() });
    }
    let whole = parts.iter().all(|(_, it)| *it == Part::NameState);
    if !whole && substrate.condition == Condition::Ready {
        return Step::Turn(Condition::Converging);
    }
    if let Some((missing, _)) = parts.iter().find(|(_, it)| *it == Part::Missing) {
        return Step::Make((*missing).clone());
    }
    if !whole || substrate.condition == Condition::Ready {
        return Step::Rest;
    }
    finish(object, now)
}

/// All parts stand: it is ready in its own time, or fails in it.
fn finish(object: &Object, now: Timestamp) -> Step {
    let takes = object.manifest.pointer(READY_AFTER).and_then(Value::as_u64).unwrap_or(0);
    let due = object.created_at.after(Duration::from_millis(takes));
    if now < due {
        return Step::Wait(due);
    }
    let fails = object.manifest.pointer(FAIL_WITH).and_then(Value::as_str);
    Step::Turn(match fails.filter(|it| !it.is_empty()) {
        Some(message) => Condition::Failed { message: message.to_owned() },
        None => Condition::Ready,
    })
}

/// What a substrate will be composed of. The names tell it from another of the same name.
fn announced(object: &Object) -> Vec<Reference> {
    let booted = object.substrate.as_ref().is_some_and(|it| it.boot.is_some());
    let sorts = Sort::ALL.into_iter().filter(|sort| match sort {
        Sort::Disk => true,
        Sort::Machine => booted,
    });
    let short: String = object.uid.0.chars().take(8).collect();
    sorts
        .map(|sort| Reference { sort, name: format!("{}-{}-{short}", object.name, sort.as_str()) })
        .collect()
}

/// The substrate that announced a part, by the name that it gave it.
pub fn announcer(part: &str) -> Option<&str> {
    let (rest, _) = part.rsplit_once('-')?;
    let (substrate, sort) = rest.rsplit_once('-')?;
    Sort::ALL.into_iter().any(|it| it.as_str() == sort).then_some(substrate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use usher_kernel::Uid;

    use super::*;
    use crate::object::{Boot, Substrate};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn object(parameters: &Value, condition: Condition, boot: bool) -> Object {
        let boot = boot.then(|| Boot { settings: json!({}), token: String::new() });
        let mut object = Object {
            name: "pr-1".to_owned(),
            uid: Uid::new("12345678-9"),
            ledger_kind: "example/X".to_owned(),
            place: "ns".to_owned(),
            labels: BTreeMap::new(),
            owner: None,
            revision: 1,
            created_at: at(1_000),
            deleting_at: None,
            manifest: json!({ "spec": { "parameters": parameters } }),
            substrate: Some(Substrate { boot, parts: vec![], condition }),
            footing: None,
        };
        let parts = announced(&object);
        object.substrate.as_mut().unwrap().parts = parts;
        object
    }

    fn step(object: &Object, parts: &[Part], now: i64) -> Step {
        let refs = &object.substrate.as_ref().unwrap().parts;
        let part = |it: &Reference| {
            let index = refs.iter().position(|known| known == it).unwrap();
            parts.get(index).cloned().unwrap_or(Part::Missing)
        };
        substrate(object, true, part, at(now))
    }

    // Requirement: LW-5
    #[test]
    fn names_are_announced_before_anything_is_made() {
        let mut it = object(&json!({}), Condition::Converging, true);
        it.substrate.as_mut().unwrap().parts.clear();
        let reference = |sort, name: &str| Reference { sort, name: name.to_owned() };
        let expected = vec![
            reference(Sort::Disk, "pr-1-disk-12345678"),
            reference(Sort::Machine, "pr-1-machine-12345678"),
        ];
        assert_eq!(step(&it, &[], 1_000), Step::Announce(expected.clone()));
        it.substrate.as_mut().unwrap().boot = None;
        assert_eq!(step(&it, &[], 1_000), Step::Announce(expected[..1].to_vec()));
        for it in &expected {
            assert_eq!(announcer(&it.name), Some("pr-1"));
        }
        for other in ["", "pr-1", "pr-1-rope-12345678", "machine-1"] {
            assert_eq!(announcer(other), None, "{other}");
        }
    }

    #[test]
    fn parts_are_made_one_by_one_until_it_is_ready() {
        let it = object(&json!({}), Condition::Converging, true);
        let refs = it.substrate.as_ref().unwrap().parts.clone();
        assert_eq!(step(&it, &[], 1_000), Step::Make(refs[0].clone()));
        assert_eq!(step(&it, &[Part::NameState], 1_000), Step::Make(refs[1].clone()));
        let all = [Part::NameState, Part::NameState];
        assert_eq!(step(&it, &all, 1_000), Step::Turn(Condition::Ready));
        let ready = object(&json!({}), Condition::Ready, true);
        assert_eq!(step(&ready, &all, 1_000), Step::Rest);
    }

    // Requirement: LW-9
    #[test]
    fn it_takes_as_long_as_it_is_told() {
        let it = object(&json!({ "readyAfterMs": 500 }), Condition::Converging, false);
        assert_eq!(step(&it, &[Part::NameState], 1_499), Step::Wait(at(1_500)));
        assert_eq!(step(&it, &[Part::NameState], 1_500), Step::Turn(Condition::Ready));
    }

    // Requirement: LW-9
    #[test]
    fn it_fails_as_it_is_told_and_for_good() {
        let failed = Condition::Failed { message: "quota".to_owned() };
        let it = object(&json!({ "failWith": "quota" }), Condition::Converging, false);
        assert_eq!(step(&it, &[Part::NameState], 1_000), Step::Turn(failed.clone()));
        let it = object(&json!({}), failed.clone(), false);
        assert_eq!(step(&it, &[Part::Missing], 1_000), Step::Rest);
        let broken = Part::Broken { message: "quota".to_owned() };
        let it = object(&json!({}), Condition::Converging, false);
        assert_eq!(step(&it, &[broken], 1_000), Step::Turn(failed));
    }

    // Requirement: LW-9, F-77
    #[test]
    fn what_lost_a_part_says_so_and_makes_it_again() {
        let ready = object(&json!({}), Condition::Ready, false);
        for part in [Part::Missing, Part::Coming, Part::Leaving] {
            assert_eq!(step(&ready, &[part], 1_000), Step::Turn(Condition::Converging));
        }
        let it = object(&json!({}), Condition::Converging, false);
        assert_eq!(step(&it, &[Part::Coming], 1_000), Step::Rest, "nothing stands behind it yet");
        assert_eq!(step(&it, &[Part::Leaving], 1_000), Step::Rest, "its name is not free yet");
        let first = it.substrate.as_ref().unwrap().parts[0].clone();
        assert_eq!(step(&it, &[Part::Missing], 1_000), Step::Make(first));
    }

    #[test]
    fn whoever_was_asked_to_go_or_is_nobodys_goes() {
        let mut it = object(&json!({}), Condition::Ready, false);
        let standing = |_: &Reference| Part::NameState;
        assert_eq!(substrate(&it, false, standing, at(1_000)), Step::Collect);
        it.deleting_at = Some(at(900));
        assert_eq!(substrate(&it, true, standing, at(1_000)), Step::Dissolve);
        assert_eq!(substrate(&it, false, standing, at(1_000)), Step::Dissolve);
    }
}
