//! What the file of an object holds: its states, one after the other.

use serde_json::Deserializer;

use crate::object::Object;

/// A state, as it is appended.
pub(super) fn line(object: &Object) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(object)?;
    line.push(b'\n');
    Ok(line)
}

/// The last complete state. We write each in a line; a person may have written one in several, and
/// a crash may have torn the last one.
pub(super) fn latest(content: &[u8]) -> Option<Object> {
    let last = content.trim_ascii_end().rsplit(|it| *it == b'\n').next()?;
    serde_json::from_slice(last).ok().or_else(|| {
        let states = Deserializer::from_slice(content).into_iter::<Object>();
        states.map_while(Result::ok).last()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use usher_kernel::{Timestamp, Uid};

    use super::*;

    fn object(revision: u64, manifest: Value) -> Object {
        Object {
            name: "a".to_owned(),
            uid: Uid::new("u"),
            ledger_kind: "Anchor".to_owned(),
            place: "ns".to_owned(),
            labels: BTreeMap::new(),
            owner: None,
            revision,
            created_at: Timestamp::ZERO,
            deleting_at: None,
            manifest,
            substrate: None,
            footing: None,
        }
    }

    fn lines(states: &[Object]) -> Vec<u8> {
        states.iter().flat_map(|it| line(it).unwrap()).collect()
    }

    /// Red by: only lines are states.
    // Requirement: LW-20
    #[test]
    fn what_a_person_wrote_over_several_lines_is_one_state() {
        let states = [object(1, json!({})), object(2, json!({ "x": [{}, {}] }))];
        let pretty = serde_json::to_vec_pretty(&states[1]).unwrap();
        assert_eq!(latest(&pretty).as_ref(), Some(&states[1]));
        let mut both = lines(&states[..1]);
        both.extend(&pretty);
        assert_eq!(latest(&both).as_ref(), Some(&states[1]), "after a state of ours");
        both.extend(b"\n{\"name\":\"a\",");
        assert_eq!(latest(&both).as_ref(), Some(&states[1]), "before one that was torn");
    }

    #[test]
    fn what_holds_no_state_has_none() {
        for content in ["", "\n", "{", "null", "{}\n", "\u{0}\u{0}"] {
            assert_eq!(latest(content.as_bytes()), None, "{content:?}");
        }
    }

    fn manifests() -> impl Strategy<Value = Vec<Value>> {
        let text = prop_oneof!["[\\PC\n\"\\\\{}]{0,12}", Just("}\n{".to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            text.prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-z\n]{0,3}", inner, 0..3).prop_map(Value::from_iter),
            ]
        });
        prop::collection::vec(value, 1..4)
    }

    proptest! {
        /// Red by: half a state that is read as one, or that hides the one before it.
        // Requirement: LW-20
        #[test]
        fn every_beginning_of_a_file_reads_as_its_last_complete_state(manifests in manifests()) {
            let states: Vec<Object> = (1..).zip(manifests).map(|(n, it)| object(n, it)).collect();
            let content = lines(&states);
            // A state is complete without its line break.
            let ends = states.iter().scan(0, |end, it| {
                *end += line(it).unwrap().len();
                Some(*end - 1)
            });
            let ends: Vec<usize> = ends.collect();
            for length in 0..=content.len() {
                let complete = ends.iter().filter(|it| **it <= length).count();
                let expected = complete.checked_sub(1).map(|it| states[it].clone());
                prop_assert_eq!(latest(&content[..length]), expected);
            }
        }
    }
}
