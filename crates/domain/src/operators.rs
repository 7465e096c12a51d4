//! Who may operate: tokens of people and programs, stored as hashes only.

use sha2::{Digest as _, Sha256};
use usher_kernel::Timestamp;

use crate::object::closed::closed_set;
use crate::object::id::{OperatorTokenId, ProjectId};
use crate::object::manifest::SecretText;
use crate::object::slug::Slug;

closed_set! {
    /// What a token allows.
    "role" Role {
        /// Everything, in every project.
        Admin = "admin",
        /// Everything that belongs to one project.
        Operator = "operator",
    }
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
    /// Its id.
    pub id: OperatorTokenId,
    /// What it is called.
    pub name: Slug,
    /// How far it reaches.
    pub reach: Reach,
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
    /// The role that goes with it.
    pub const fn role(self) -> Role {
        match self {
            Self::Installation => Role::Admin,
            Self::Project(_) => Role::Operator,
        }
    }

    /// Whether it reaches into this project.
    pub fn covers(self, project: ProjectId) -> bool {
        match self {
            Self::Installation => true,
            Self::Project(own) => own == project,
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
            reach: Reach::Project(project(2)),
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

    #[test]
    fn a_role_follows_from_its_reach() {
        assert_eq!(Reach::Installation.role(), Role::Admin);
        assert_eq!(token().reach.role(), Role::Operator);
        assert!(Reach::Installation.covers(project(9)));
        assert!(token().reach.covers(project(2)) && !token().reach.covers(project(9)));
    }

    #[test]
    fn equal_texts_have_equal_hashes_and_no_others() {
        let hash = |text| TokenHash::of(&SecretText::new(text));
        assert_eq!(hash("a"), TokenHash::from_bytes(*hash("a").as_bytes()));
        assert_ne!(hash("a"), hash("b"));
    }
}
