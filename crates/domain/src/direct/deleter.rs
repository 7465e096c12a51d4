//! Finding and deleting a cloud object from its identity alone.
//!
//! The author of a kind writes a [`Deleter`]. It is made of an identity, and the client is handed
//! to each verb as a type that the author does not choose. So it has no access to a spec, a
//! reference or a reader of the cluster; `tests/wrong_programs` keeps the programs that try.

use usher_kernel::{NameState, Row, Trouble, Uid};

use super::identity::{BadIdentity, Identity};
use super::model::Model;
use super::ports::Client;
use super::recorded::Recorded;
use super::snapshot::{Container, Found, Reading};

/// The deletion path of one kind.
pub trait Deleter: Sized {
    /// What it is made of.
    type Identity: Identity;

    /// A deleter for one cloud object.
    fn from_identity(identity: Self::Identity) -> Self;

    /// Reads the object under the identity.
    fn find(&self, client: &impl Client) -> impl Future<Output = Reading<Option<Found>>>;

    /// Reads whether the container of the object exists; called after a refusal.
    fn probe(&self, client: &impl Client) -> impl Future<Output = Container>;

    /// Deletes the very object that the precondition names.
    fn delete(
        &self,
        client: &impl Client,
        at: &Precondition,
    ) -> impl Future<Output = Result<(), Trouble>>;
}

/// The deleter of a kind for a recorded identity.
pub fn deleter<M: Model>(recorded: &Recorded) -> Result<M::Deleter, BadIdentity> {
    let identity = M::Identity::parse(&recorded.identified().identity)?;
    Ok(M::Deleter::from_identity(identity))
}

/// The one object, in the one revision, that a verb may touch. Only a row that was seen gives one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    uid: Uid,
    etag: Option<String>,
}

impl Precondition {
    /// The precondition for what this row saw, in the revision that was observed.
    pub fn of(row: &Row, etag: Option<&str>) -> Option<Self> {
        let uid = row.uid.clone().filter(|_| row.state == NameState::Seen)?;
        Some(Self { uid, etag: etag.map(str::to_owned) })
    }

    /// The uid of the object.
    pub const fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Its revision, where the cloud has one.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::fixture::{
        CloudMembership, Memberships, binding, finished, foreign, gone, identified, intended, name,
        seen,
    };
    use crate::direct::ports::Reply;
    use crate::direct::recorded::IdentityState as Kept;
    use serde_json::json;

    // Requirement: I-12
    #[test]
    fn only_a_row_that_was_seen_gives_a_precondition() {
        let at = Precondition::of(&seen(name(), "c-1"), Some("7")).unwrap();
        assert_eq!((at.uid(), at.etag()), (&Uid::new("c-1"), Some("7")));
        for row in [intended(name()), gone(name(), "c-1"), foreign(name())] {
            assert_eq!(Precondition::of(&row, None), None, "{row:?}");
        }
    }

    #[test]
    fn a_recorded_identity_is_enough_to_find_and_delete() {
        let recorded =
            Recorded::new(binding(), Kept::Seen { uid: Uid::new("c-1") }, identified("a"));
        let deleter = deleter::<Memberships>(&recorded).unwrap();
        let answer = |status| Reply::Answered { status, retry_after: None, body: json!("c-1") };
        let client = CloudMembership::answering([answer(200), answer(404), answer(200)]);
        let found = finished(deleter.find(&client)).unwrap().unwrap();
        assert_eq!(found.uid, Uid::new("c-1"));
        assert_eq!(finished(deleter.probe(&client)), Container::Gone);
        let at = Precondition::of(&seen(name(), "c-1"), Some("7")).unwrap();
        assert_eq!(finished(deleter.delete(&client, &at)), Ok(()));
        let path = "projects/a/features/f/memberships/m";
        assert_eq!(
            client.calls(),
            [format!("GET {path}"), "GET projects/a".to_owned(), format!("DELETE {path} etag=7")]
        );
    }
}
