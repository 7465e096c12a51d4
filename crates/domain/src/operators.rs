//! Operators: tokens of people and programs, stored as hashes only.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use usher_kernel::{Timestamp, coded};

use crate::object::closed::closed_set;
use crate::object::id::{OperatorTokenId, ProjectId};
use crate::object::manifest::SecretText;
use crate::object::slug::Slug;

/// What every token text of an operator begins with.
pub const TEXT_PREFIX: &str = "uot_";

closed_set! {
    /// What a token allows; each allows what the one before it does.
    "role" Role {
        /// Reading.
        Viewer = "viewer",
        /// Everything that belongs to one project.
        Operator = "operator",
        /// Everything, in every project.
        Admin = "admin",
    }
}

/// The text of a token from 32 random bytes: `uot_<43 base64url>`.
pub fn text(secret: &[u8; 32]) -> SecretText {
    SecretText::new(format!("{TEXT_PREFIX}{}", URL_SAFE_NO_PAD.encode(secret)))
}

/// What is stored of a token's text: its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a text.
    pub fn of(text: &SecretText) -> Self {
        Self(Sha256::digest(text.expose()).into())
    }

    /// The hash as it was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A token, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    pub id: OperatorTokenId,
    /// What it is called.
    pub name: Slug,
    /// What it allows, and where.
    pub grant: Grant,
    /// What a text is found by.
    pub hash: TokenHash,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was withdrawn.
    pub revoked_at: Option<Timestamp>,
}

/// How far a token reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Everywhere.
    Installation,
    /// One project.
    Project(ProjectId),
}

impl Reach {
    /// Whether it reaches into this project.
    pub fn covers(self, project: ProjectId) -> bool {
        match self {
            Self::Installation => true,
            Self::Project(own) => own == project,
        }
    }
}

/// What a token allows, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Reading, this far.
    Viewer(Reach),
    /// Everything that belongs to this project.
    Operator(ProjectId),
    /// Everything, everywhere.
    Admin,
}

coded! {
    /// A role that does not fit its reach.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum BadGrant {
        /// An operator is one of a project.
        #[error("an operator's token needs a project")]
        ProjectMissing = "grant_project_missing",
        /// An admin is one everywhere.
        #[error("an admin's token cannot be limited to a project")]
        ProjectSuperfluous = "grant_project_superfluous",
    }
}

impl Grant {
    /// The grant of a role, in a project or everywhere.
    pub const fn new(role: Role, project: Option<ProjectId>) -> Result<Self, BadGrant> {
        match (role, project) {
            (Role::Viewer, None) => Ok(Self::Viewer(Reach::Installation)),
            (Role::Viewer, Some(project)) => Ok(Self::Viewer(Reach::Project(project))),
            (Role::Operator, Some(project)) => Ok(Self::Operator(project)),
            (Role::Operator, None) => Err(BadGrant::ProjectMissing),
            (Role::Admin, None) => Ok(Self::Admin),
            (Role::Admin, Some(_)) => Err(BadGrant::ProjectSuperfluous),
        }
    }

    pub const fn role(self) -> Role {
        match self {
            Self::Viewer(_) => Role::Viewer,
            Self::Operator(_) => Role::Operator,
            Self::Admin => Role::Admin,
        }
    }

    /// How far it reaches.
    pub const fn reach(self) -> Reach {
        match self {
            Self::Viewer(reach) => reach,
            Self::Operator(project) => Reach::Project(project),
            Self::Admin => Reach::Installation,
        }
    }
}

impl OperatorToken {
    /// Whether it opens anything at this moment.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::from_micros(5);

    fn project(n: u128) -> ProjectId {
        ProjectId::from_uuid(Uuid::from_u128(n))
    }

    fn token() -> OperatorToken {
        OperatorToken {
            id: OperatorTokenId::from_uuid(Uuid::from_u128(1)),
            name: "ann".parse().unwrap(),
            grant: Grant::Operator(project(2)),
            hash: TokenHash::of(&SecretText::new("t")),
            expires_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn a_token_is_good_until_it_ends_or_is_withdrawn() {
        assert!(token().is_good(NOW));
        assert!(!OperatorToken { expires_at: Some(NOW), ..token() }.is_good(NOW));
        assert!(!OperatorToken { revoked_at: Some(NOW), ..token() }.is_good(NOW));
    }

    // Requirement: HC-4
    #[test]
    fn a_role_that_does_not_fit_its_reach_is_refused() {
        let own = Some(project(2));
        let cases = [
            (Role::Viewer, None, Ok(Grant::Viewer(Reach::Installation))),
            (Role::Viewer, own, Ok(Grant::Viewer(Reach::Project(project(2))))),
            (Role::Operator, None, Err(BadGrant::ProjectMissing)),
            (Role::Operator, own, Ok(Grant::Operator(project(2)))),
            (Role::Admin, None, Ok(Grant::Admin)),
            (Role::Admin, own, Err(BadGrant::ProjectSuperfluous)),
        ];
        for (role, project, expected) in cases {
            let grant = Grant::new(role, project);
            assert_eq!(grant, expected, "{role} {project:?}");
            if let Ok(grant) = grant {
                let reach = project.map_or(Reach::Installation, Reach::Project);
                assert_eq!((grant.role(), grant.reach()), (role, reach));
            }
        }
        assert_eq!(BadGrant::ProjectMissing.code(), "grant_project_missing");
        assert_eq!(BadGrant::ProjectSuperfluous.code(), "grant_project_superfluous");
    }

    #[test]
    fn a_reach_covers_its_own_project_or_every_one() {
        assert!(Reach::Installation.covers(project(9)));
        let own = Reach::Project(project(2));
        assert!(own.covers(project(2)) && !own.covers(project(9)));
    }

    #[test]
    fn roles_grow() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
    }

    #[test]
    fn a_text_is_that_of_its_bytes() {
        let text = text(&[255; 32]);
        assert_eq!(text.expose(), format!("uot_{}8", "_".repeat(42)));
    }

    #[test]
    fn equal_texts_have_equal_hashes_and_no_others() {
        let hash = |text| TokenHash::of(&SecretText::new(text));
        assert_eq!(hash("a"), TokenHash::from_bytes(*hash("a").as_bytes()));
        assert_ne!(hash("a"), hash("b"));
    }
}
