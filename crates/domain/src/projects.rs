//! Projects: the owners of declarations.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Timestamp, coded};

use crate::object::id::{ProjectId, TenancyId};
use crate::object::label::is_dns_label;
use crate::object::occupancy::{Occupancy, Occupied};
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

/// The longest display name, in characters.
pub const NAME_MAX: usize = 128;

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    /// What it is called in commands and paths; never changes.
    pub slug: ProjectSlug,
    /// What it is called on screens.
    pub name: ProjectName,
}

impl Project {
    /// Agrees to the project's end only when it has no records.
    pub const fn may_terminate(&self, occupancy: Occupancy) -> Result<(), Occupied> {
        occupancy.vacate()
    }
}

/// The tenancy resource behind a declaration: what a project holds, until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenancyResource {
    pub id: TenancyId,
    pub project: ProjectId,
    /// When it was given.
    pub created_at: Timestamp,
    /// When it was released, with the end of what it backs.
    pub released_at: Option<Timestamp>,
}

/// What a project is called in commands and paths: a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectSlug(String);

/// What a project is called on screens: 1 to 128 visible characters, without outer blanks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectName(String);

coded! {
    /// A text that is no name of a project.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadProjectName {
        /// No DNS label.
        #[error("project slug \"{0}\" is not a DNS label (lower case, digits, '-'; at most 63)")]
        Slug(String) = "project_slug",
        /// Empty, too long, padded, or with control characters.
        #[error("project name \"{0}\" is not 1 to 128 visible characters without outer blanks")]
        Name(String) = "project_name",
    }
}

impl FromStr for ProjectSlug {
    type Err = BadProjectName;

    fn from_str(text: &str) -> Result<Self, BadProjectName> {
        if !is_dns_label(text) {
            return Err(BadProjectName::Slug(shortened(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ProjectName {
    type Err = BadProjectName;

    fn from_str(text: &str) -> Result<Self, BadProjectName> {
        let length = text.chars().count();
        let sound = (1..=NAME_MAX).contains(&length)
            && text.trim() == text
            && !text.contains(char::is_control);
        if !sound {
            return Err(BadProjectName::Name(shortened(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(ProjectSlug: BadProjectName, ProjectName: BadProjectName);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    // Requirement: C-8
    #[test]
    fn slugs_are_dns_labels() {
        for text in ["demo", "a-1", &"a".repeat(63)] {
            assert_eq!(text.parse::<ProjectSlug>().unwrap().as_str(), text);
        }
        for text in ["", "Demo", "a_b", "-a", "a.b", &"a".repeat(64)] {
            let refusal = text.parse::<ProjectSlug>().unwrap_err();
            assert_eq!(refusal, BadProjectName::Slug(shortened(text)));
            assert_eq!(refusal.code(), "project_slug");
        }
    }

    // Requirement: C-8
    #[test]
    fn names_are_visible_and_bounded() {
        for text in ["D", "Démo project", &"é".repeat(NAME_MAX)] {
            assert_eq!(text.parse::<ProjectName>().unwrap().to_string(), text);
        }
        for text in ["", " a", "a ", "a\nb", &"é".repeat(NAME_MAX + 1)] {
            let refusal = text.parse::<ProjectName>().unwrap_err();
            assert_eq!(refusal, BadProjectName::Name(shortened(text)));
            assert_eq!(refusal.code(), "project_name");
        }
    }

    // Requirement: A-20
    #[test]
    fn a_project_with_a_record_or_a_tombstone_stays() {
        let text = r#"{"id":"00000000-0000-0000-0000-000000000001","slug":"demo","name":"Demo"}"#;
        let project: Project = serde_json::from_str(text).unwrap();
        assert_eq!(project.id, ProjectId::from_uuid(Uuid::from_u128(1)));
        assert_eq!(project.may_terminate(Occupancy::default()), Ok(()));
        let buried = Occupancy { rows: 0, tombstones: 2 };
        assert_eq!(project.may_terminate(buried), Err(Occupied::Tombstones(2)));
        assert!(serde_json::from_str::<Project>(&text.replace("demo", "De mo")).is_err());
    }

    proptest! {
        // Requirement: C-8
        #[test]
        fn garbage_is_refused_or_kept(text in any::<String>()) {
            if let Ok(slug) = text.parse::<ProjectSlug>() {
                prop_assert_eq!(slug.as_str(), text.as_str());
            }
            if let Ok(name) = text.parse::<ProjectName>() {
                prop_assert_eq!(name.as_str(), text.as_str());
            }
        }
    }
}
