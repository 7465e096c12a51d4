//! Labels of a resource: its own and inherited ones, and which of them become tags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::object::label::{LabelKey, Labels};

/// The most labels one object may carry.
pub const COUNT_MAX: usize = 64;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub key: LabelKey,
    /// Whether labels of this key become tags; by default none do.
    #[serde(default)]
    pub propagatable: bool,
}

/// An object carries too many labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{count} labels are more than {COUNT_MAX}")]
pub struct TooManyLabels {
    /// How many there are.
    pub count: usize,
}

impl TooManyLabels {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "labels_too_many"
    }
}

/// Agrees to the labels of one object, up to the ceiling.
pub fn check_count(labels: &Labels) -> Result<(), TooManyLabels> {
    if labels.len() > COUNT_MAX {
        return Err(TooManyLabels { count: labels.len() });
    }
    Ok(())
}

/// The labels in force, from the widest surroundings to the object itself: the nearest wins.
pub fn effective<'a>(layers: impl IntoIterator<Item = &'a Labels>) -> Labels {
    layers.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The labels whose definition exports them; a key without a definition is not exported.
pub fn propagatable(labels: &Labels, definitions: &[Definition]) -> Labels {
    let open: BTreeMap<&LabelKey, bool> =
        definitions.iter().map(|it| (&it.key, it.propagatable)).collect();
    labels
        .iter()
        .filter(|(key, _)| open.get(key).copied().unwrap_or(false))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn definition(key: &str, propagatable: bool) -> Definition {
        Definition { key: key.parse().unwrap(), propagatable }
    }

    // Requirement: R-17
    #[test]
    fn the_nearest_label_wins() {
        let platform = labels(&[("team", "none"), ("site", "eu")]);
        let project = labels(&[("team", "blue")]);
        let own = labels(&[("role", "web")]);
        let all = effective([&platform, &project, &own]);
        assert_eq!(all, labels(&[("role", "web"), ("site", "eu"), ("team", "blue")]));
    }

    // Requirement: R-17
    #[test]
    fn only_exported_labels_become_tags() {
        let all = labels(&[("role", "web"), ("site", "eu"), ("team", "blue")]);
        let definitions = [definition("team", true), definition("role", false)];
        assert_eq!(propagatable(&all, &definitions), labels(&[("team", "blue")]));
        assert_eq!(propagatable(&all, &[]), Labels::new());
    }

    #[test]
    fn a_definition_keeps_its_labels_in_unless_it_says_otherwise() {
        let read: Definition = serde_json::from_str(r#"{"key":"team"}"#).unwrap();
        assert_eq!(read, definition("team", false));
    }

    // Requirement: R-17
    #[test]
    fn sixty_four_labels_are_carried_and_one_more_is_not() {
        let many = |count: usize| -> Labels {
            (0..count).map(|n| (format!("k{n}").parse().unwrap(), "v".parse().unwrap())).collect()
        };
        assert_eq!(check_count(&many(64)), Ok(()));
        let refusal = check_count(&many(65)).unwrap_err();
        assert_eq!(refusal, TooManyLabels { count: 65 });
        assert_eq!(refusal.code(), "labels_too_many");
        assert_eq!(refusal.to_string(), "65 labels are more than 64");
    }
}
