//! Resolution: references against the existing objects.

use std::collections::BTreeMap;

use usher_kernel::{Timestamp, Uid};

use super::aggregate::{Resolved, Spec, Usage};
use super::facts::Resolve;
use super::reference::{ObjectKey, Operator, Pick, Reference, Requirement, Selection, Selector};
use super::refusal::Refusal;

/// How many objects one reference may mean.
pub const FOUND_MAX: usize = 64;

/// An object that a selector may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    pub labels: BTreeMap<String, String>,
    /// The uid of its controller.
    pub controller: Option<Uid>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What the references of a Usage mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// What is used.
    pub of: Resolved,
    /// The users.
    pub by: Option<Resolved>,
}

/// The objects that a selector may match, where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// For `of`.
    pub of: &'a [Candidate],
    /// For `by`.
    pub by: &'a [Candidate],
}

/// Resolves both references.
///
/// *Guarantees*: equal input, equal answer, whatever the order of the candidates. What was resolved
/// once stays with `Once`; a first match that still matches stays with `Always`; users that match
/// nothing any more stay on record, so that it is known which of them are gone.
pub fn resolve(usage: &Usage, spec: &Spec, candidates: Candidates<'_>) -> Result<Meant, Refusal> {
    let one = |field, reference: &Reference, recorded: Option<&Resolved>, among| {
        let recorded = recorded.filter(|it| it.from == *reference);
        let recorded: &[ObjectKey] = recorded.map_or(&[], |it| &it.found);
        let asked = Query { field, reference, recorded, controller: usage.controller() };
        let found = asked.find(spec.resolve, among)?;
        Ok(Resolved { from: reference.clone(), found })
    };
    let of = one("spec.of", &spec.of, usage.status.of.as_ref(), candidates.of)?;
    let recorded = usage.status.by.as_ref();
    let by = match &spec.by {
        None => None,
        Some(reference) => {
            let mut by = one("spec.by", reference, recorded, candidates.by)?;
            if by.found.is_empty() {
                let before = recorded.filter(|it| it.from == *reference);
                by.found = before.map_or(vec![], |it| it.found.clone());
            }
            Some(by)
        }
    };
    let itself = by.iter().flat_map(|it| &it.found).find(|it| of.found.contains(it));
    match itself {
        Some(object) => Err(Refusal::UsesItself(object.to_string())),
        None => Ok(Meant { of, by }),
    }
}

/// Whether a selector matches an object.
pub fn is_match(selector: &Selector, controller: Option<&Uid>, candidate: &Candidate) -> bool {
    let shared = !selector.controller
        || (controller.is_some() && candidate.controller.as_ref() == controller);
    shared && selector.labels.iter().all(|it| is_met(it, &candidate.labels))
}

fn is_met(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(requirement.key.as_str());
    match requirement.operator {
        Operator::In => value.is_some_and(|it| requirement.values.contains(it)),
        Operator::NotIn => value.is_none_or(|it| !requirement.values.contains(it)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

struct Query<'a> {
    field: &'static str,
    reference: &'a Reference,
    recorded: &'a [ObjectKey],
    controller: Option<&'a Uid>,
}

impl Query<'_> {
    fn find(&self, resolve: Resolve, among: &[Candidate]) -> Result<Vec<ObjectKey>, Refusal> {
        let selector = match &self.reference.pick {
            Pick::Name(name) => return Ok(vec![self.reference.key(name)]),
            Pick::Match(selector) => selector,
        };
        if resolve == Resolve::Once && !self.recorded.is_empty() {
            return Ok(self.recorded.to_vec());
        }
        let matching = among.iter().filter(|it| is_match(selector, self.controller, it));
        let mut matching: Vec<&Candidate> = matching.collect();
        matching.sort_by_key(|it| (it.deleting, it.created_at, it.name.clone()));
        let keys: Vec<ObjectKey> = matching.iter().map(|it| self.reference.key(&it.name)).collect();
        match selector.selection {
            Selection::First => {
                let kept = self.recorded.iter().find(|it| keys.contains(it)).cloned();
                Ok(kept.or_else(|| keys.first().cloned()).into_iter().collect())
            }
            Selection::All if keys.len() > FOUND_MAX => {
                Err(Refusal::TooMany { field: self.field, max: FOUND_MAX })
            }
            Selection::All => {
                let mut keys = keys;
                keys.sort();
                Ok(keys)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::usage::fixture::{key, reference, selecting, usage};

    fn candidate(name: &str, created: i64, labels: &[(&str, &str)]) -> Candidate {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Candidate {
            name: name.to_owned(),
            created_at: Timestamp::from_millis(created),
            labels: labels.collect(),
            controller: None,
            deleting: false,
        }
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|it| (*it).to_owned()).collect();
        Requirement { key: key.parse().unwrap(), operator, values }
    }

    fn selector(labels: Vec<Requirement>) -> Selector {
        Selector { labels, controller: false, selection: Selection::First }
    }

    /// What `of` means for a Usage that selects like this.
    fn found(
        selection: Selection,
        resolve_: Resolve,
        recorded: &[&str],
        among: &[Candidate],
    ) -> Result<Vec<ObjectKey>, Refusal> {
        let mut of = selecting("a");
        if let Pick::Match(selector) = &mut of.pick {
            selector.selection = selection;
        }
        let usage = usage(|it| {
            let found = recorded.iter().map(|it| key(it)).collect();
            it.status.of = Some(Resolved { from: of.clone(), found });
            if let Ok(spec) = &mut it.spec {
                (spec.of, spec.resolve) = (of.clone(), resolve_);
            }
        });
        let spec = usage.spec.clone().unwrap();
        Ok(resolve(&usage, &spec, Candidates { of: among, by: &[] })?.of.found)
    }

    const APP: &[(&str, &str)] = &[("app", "a")];

    // Requirement: G-11
    #[test]
    fn every_operator_means_what_it_means_in_kubernetes() {
        let labelled = candidate("x", 1, &[("app", "a")]);
        let bare = candidate("y", 1, &[]);
        let cases = [
            (Operator::In, vec!["a", "b"], true, false),
            (Operator::In, vec!["b"], false, false),
            (Operator::NotIn, vec!["a"], false, true),
            (Operator::NotIn, vec!["b"], true, true),
            (Operator::Exists, vec![], true, false),
            (Operator::DoesNotExist, vec![], false, true),
        ];
        for (operator, values, with, without) in cases {
            let selector = selector(vec![requirement("app", operator, &values)]);
            let met = |it| is_match(&selector, None, it);
            assert_eq!((met(&labelled), met(&bare)), (with, without), "{operator} {values:?}");
        }
    }

    #[test]
    fn every_requirement_has_to_be_met() {
        let both = selector(vec![
            requirement("app", Operator::In, &["a"]),
            requirement("tier", Operator::Exists, &[]),
        ]);
        assert!(!is_match(&both, None, &candidate("x", 1, APP)));
        assert!(is_match(&both, None, &candidate("x", 1, &[("app", "a"), ("tier", "")])));
    }

    #[test]
    fn an_object_without_controller_shares_none() {
        let controlled = Selector { controller: true, ..selector(vec![]) };
        let xr = Uid::new("xr");
        let of_xr = Candidate { controller: Some(xr.clone()), ..candidate("x", 1, &[]) };
        let unowned = candidate("y", 1, &[]);
        assert!(is_match(&controlled, Some(&xr), &of_xr));
        assert!(!is_match(&controlled, Some(&xr), &unowned));
        assert!(!is_match(&controlled, None, &unowned));
        assert!(!is_match(&controlled, None, &of_xr));
    }

    // Requirement: G-11
    #[test]
    fn the_first_is_the_oldest_then_by_name_that_is_not_being_deleted() {
        let leaving = Candidate { deleting: true, ..candidate("a", 1, APP) };
        let among = [candidate("c", 2, APP), candidate("b", 2, APP), leaving.clone()];
        let first = |among: &[_]| found(Selection::First, Resolve::Once, &[], among);
        assert_eq!(first(&among), Ok(vec![key("b")]));
        assert_eq!(first(&[leaving]), Ok(vec![key("a")]));
        assert_eq!(first(&[candidate("x", 1, &[])]), Ok(vec![]));
    }

    #[test]
    fn once_keeps_what_it_found_and_always_only_what_still_matches() {
        let among = [candidate("b", 1, APP), candidate("c", 2, APP)];
        let of = |resolve, recorded: &[_]| found(Selection::First, resolve, recorded, &among);
        assert_eq!(of(Resolve::Once, &["z"]), Ok(vec![key("z")]));
        assert_eq!(of(Resolve::Always, &["z"]), Ok(vec![key("b")]));
        assert_eq!(of(Resolve::Always, &["c"]), Ok(vec![key("c")]), "a match that exists stays");
    }

    #[test]
    fn all_are_found_in_order_and_never_more_than_can_be_held() {
        let among = [candidate("c", 1, APP), candidate("b", 2, APP), candidate("x", 1, &[])];
        let all = |among: &[_]| found(Selection::All, Resolve::Always, &["z"], among);
        assert_eq!(all(&among), Ok(vec![key("b"), key("c")]));
        let many: Vec<_> = (0..65).map(|i| candidate(&format!("n{i}"), i, APP)).collect();
        let refusal = Refusal::TooMany { field: "spec.of", max: FOUND_MAX };
        assert_eq!(all(&many), Err(refusal));
        assert_eq!(all(&many[1..]).unwrap().len(), FOUND_MAX);
    }

    #[test]
    fn another_reference_is_resolved_anew() {
        let usage = usage(|it| {
            it.status.of = Some(Resolved { from: reference("old"), found: vec![key("old")] });
        });
        let spec = usage.spec.clone().unwrap();
        let meant = resolve(&usage, &spec, Candidates { of: &[], by: &[] }).unwrap();
        assert_eq!(meant.of.found, [key("db")]);
    }

    #[test]
    fn users_that_match_nothing_any_more_stay_on_record() {
        let by = selecting("a");
        let usage = usage(|it| {
            it.status.by = Some(Resolved { from: by.clone(), found: vec![key("app")] });
            if let Ok(spec) = &mut it.spec {
                (spec.by, spec.resolve) = (Some(by.clone()), Resolve::Always);
            }
        });
        let spec = usage.spec.clone().unwrap();
        let users = |among: &[_]| {
            let meant = resolve(&usage, &spec, Candidates { of: &[], by: among }).unwrap();
            meant.by.unwrap().found
        };
        assert_eq!(users(&[]), [key("app")]);
        assert_eq!(users(&[candidate("app2", 1, APP)]), [key("app2")]);
    }

    #[test]
    fn nothing_uses_itself() {
        let usage = usage(|it| {
            if let Ok(spec) = &mut it.spec {
                spec.by = Some(reference("db"));
            }
        });
        let spec = usage.spec.clone().unwrap();
        let refusal = resolve(&usage, &spec, Candidates { of: &[], by: &[] }).unwrap_err();
        assert_eq!(refusal, Refusal::UsesItself(key("db").to_string()));
    }

    proptest! {
        // Requirement: G-11
        #[test]
        fn the_order_of_the_candidates_does_not_matter(
            ages in prop::collection::vec((0_i64..3, any::<bool>()), 0..6),
            all in any::<bool>(),
            turn in 0_usize..6,
        ) {
            let mut among: Vec<Candidate> = ages
                .iter()
                .enumerate()
                .map(|(i, (age, deleting))| {
                    let it = candidate(&format!("n{i}"), *age, APP);
                    Candidate { deleting: *deleting, ..it }
                })
                .collect();
            let selection = if all { Selection::All } else { Selection::First };
            let before = found(selection, Resolve::Always, &[], &among);
            let middle = turn % among.len().max(1);
            among.rotate_left(middle);
            prop_assert_eq!(found(selection, Resolve::Always, &[], &among), before);
        }
    }
}
