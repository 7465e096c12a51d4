//! Cloud credentials: where they lie, whether they still hold, and which project may use them.
//!
//! ```text
//!   requested ──approve (by another operator)──▶ approved ──revoke──▶ revoked
//!       └────── reject ──▶ rejected
//! ```
//!
//! **Invariants**
//! - A credential is known by its coordinates; its value never enters the program.
//! - Status is derived from timestamps, never stored.
//! - No operator approves their own request.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Timestamp, coded, words};

use crate::object::closed::read_words;
use crate::object::id::{CloudId, CredentialId, ProjectId};
use crate::object::provider::Provider;
use crate::object::slug::Slug;

pub use crate::object::kv::{BadCoordinates, KvCoordinates};

/// A credential for one cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub id: CredentialId,
    /// What it is called.
    pub name: Slug,
    /// The cloud it was issued for.
    pub cloud: CloudId,
    /// The provider of that cloud.
    pub provider: Provider,
    /// Where it lies.
    pub coordinates: KvCoordinates,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was withdrawn.
    pub revoked_at: Option<Timestamp>,
}

words! {
    /// Whether a credential still holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Status {
        /// It holds.
        Active = "active",
        /// Its time has passed.
        Expired = "expired",
        /// It was withdrawn.
        Revoked = "revoked",
    }
}

impl Credential {
    /// Whether it holds at this moment; withdrawn counts before expired.
    pub fn status(&self, now: Timestamp) -> Status {
        if self.revoked_at.is_some_and(|at| at <= now) {
            return Status::Revoked;
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Status::Expired;
        }
        Status::Active
    }
}

words! {
    /// How far a project's request for a credential got.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AssignmentState {
        /// Requested.
        Requested = "requested",
        /// Granted.
        Approved = "approved",
        /// Denied.
        Rejected = "rejected",
        /// Granted once and withdrawn.
        Revoked = "revoked",
    }
}

read_words! { "assignment state" AssignmentState }

/// A credential for a project, or the wish for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub project: ProjectId,
    pub credential: CredentialId,
    /// The requester.
    pub requested_by: String,
    /// How far it got.
    pub state: AssignmentState,
    /// The operator that decided last, if any.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
}

words! {
    /// What an operator decides about an assignment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// Grant it.
        Approve = "approve",
        /// Deny it.
        Reject = "reject",
        /// Withdraw it.
        Revoke = "revoke",
    }
}

coded! {
    /// Why a verdict is refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum VerdictRefusal {
        /// The requester may not grant.
        #[error("an operator cannot approve their own request")]
        SelfApprovalDenied = "self_approval_denied",
        /// The assignment is not where the verdict begins.
        #[error("cannot {} an assignment that is \"{}\"", verdict.as_str(), state.as_str())]
        State {
            /// What was requested.
            verdict: Verdict,
            /// Where it is.
            state: AssignmentState,
        } = "assignment_state",
    }
}

impl Assignment {
    /// A project requests a credential.
    pub fn request(project: ProjectId, credential: CredentialId, by: &str) -> Self {
        Self {
            project,
            credential,
            requested_by: by.to_owned(),
            state: AssignmentState::Requested,
            decided_by: None,
            decided_at: None,
        }
    }

    /// The assignment after an operator's verdict.
    pub fn decide(
        &self,
        verdict: Verdict,
        by: &str,
        now: Timestamp,
    ) -> Result<Self, VerdictRefusal> {
        let state = match (self.state, verdict) {
            (AssignmentState::Requested, Verdict::Approve) => AssignmentState::Approved,
            (AssignmentState::Requested, Verdict::Reject) => AssignmentState::Rejected,
            (AssignmentState::Approved, Verdict::Revoke) => AssignmentState::Revoked,
            (AssignmentState::Requested, Verdict::Revoke)
            | (AssignmentState::Approved, Verdict::Approve | Verdict::Reject)
            | (AssignmentState::Rejected | AssignmentState::Revoked, _) => {
                return Err(VerdictRefusal::State { verdict, state: self.state });
            }
        };
        if verdict == Verdict::Approve && by == self.requested_by {
            return Err(VerdictRefusal::SelfApprovalDenied);
        }
        let decided_by = Some(by.to_owned());
        Ok(Self { state, decided_by, decided_at: Some(now), ..self.clone() })
    }
}

coded! {
    /// Why a project may not provision with a credential.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum UseRefusal {
        /// The credential was never assigned to the project.
        #[error("credential \"{credential}\" is not assigned to project \"{project}\"")]
        NotAssigned {
            /// The credential.
            credential: CredentialId,
            /// The project.
            project: ProjectId,
        } = "credential_not_assigned",
        /// It was, but the assignment is not approved.
        #[error("the assignment of credential \"{credential}\" is \"{}\"", state.as_str())]
        NotApproved {
            /// The credential.
            credential: CredentialId,
            /// Where the assignment is.
            state: AssignmentState,
        } = "credential_not_approved",
        /// The credential's time has passed.
        #[error("credential \"{credential}\" has expired")]
        Expired {
            /// The credential.
            credential: CredentialId,
        } = "credential_expired",
        /// The credential was withdrawn.
        #[error("credential \"{credential}\" is revoked")]
        Revoked {
            /// The credential.
            credential: CredentialId,
        } = "credential_revoked",
        /// The blueprint does not run on the credential's provider.
        #[error(
            "the blueprint does not support provider \"{provider}\" of credential \"{credential}\""
        )]
        ProviderUnsupported {
            /// The credential.
            credential: CredentialId,
            /// Its provider.
            provider: Provider,
        } = "provider_unsupported",
    }
}

/// Whether a project may provision a blueprint for `providers` with this credential.
pub fn may_use(
    credential: &Credential,
    project: ProjectId,
    assignment: Option<&Assignment>,
    providers: &[Provider],
    now: Timestamp,
) -> Result<(), UseRefusal> {
    let id = credential.id;
    let assignment = assignment
        .filter(|it| it.project == project && it.credential == id)
        .ok_or(UseRefusal::NotAssigned { credential: id, project })?;
    match assignment.state {
        AssignmentState::Approved => {}
        state @ (AssignmentState::Requested
        | AssignmentState::Rejected
        | AssignmentState::Revoked) => {
            return Err(UseRefusal::NotApproved { credential: id, state });
        }
    }
    match credential.status(now) {
        Status::Active => {}
        Status::Expired => return Err(UseRefusal::Expired { credential: id }),
        Status::Revoked => return Err(UseRefusal::Revoked { credential: id }),
    }
    if !providers.contains(&credential.provider) {
        let provider = credential.provider;
        return Err(UseRefusal::ProviderUnsupported { credential: id, provider });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::from_micros(1_000);
    const BEFORE: Timestamp = Timestamp::from_micros(999);

    fn project(n: u128) -> ProjectId {
        ProjectId::from_uuid(Uuid::from_u128(n))
    }

    fn credential() -> Credential {
        Credential {
            id: CredentialId::from_uuid(Uuid::from_u128(1)),
            name: "hetzner".parse().unwrap(),
            cloud: CloudId::from_uuid(Uuid::from_u128(2)),
            provider: Provider::Hetzner,
            coordinates: KvCoordinates::new("secret", "clouds/hetzner").unwrap(),
            expires_at: None,
            revoked_at: None,
        }
    }

    fn in_state(state: AssignmentState) -> Assignment {
        Assignment { state, ..Assignment::request(project(3), credential().id, "ann") }
    }

    fn code(it: &Credential, assignment: Option<&Assignment>, on: &[Provider]) -> &'static str {
        may_use(it, project(3), assignment, on, NOW).unwrap_err().code()
    }

    // Requirement: C-4
    #[test]
    fn status_follows_the_clock() {
        let ends = Credential { expires_at: Some(NOW), ..credential() };
        assert_eq!(credential().status(NOW), Status::Active);
        assert_eq!(ends.status(BEFORE), Status::Active);
        assert_eq!(ends.status(NOW), Status::Expired);
        let withdrawn = Credential { revoked_at: Some(NOW), ..ends };
        assert_eq!(withdrawn.status(BEFORE), Status::Active);
        assert_eq!(withdrawn.status(NOW), Status::Revoked);
        let words = [Status::Active, Status::Expired, Status::Revoked].map(Status::as_str);
        assert_eq!(words, ["active", "expired", "revoked"]);
    }

    // Requirement: C-3
    #[test]
    fn only_three_verdicts_move_an_assignment() {
        let mut moves = Vec::new();
        for state in AssignmentState::ALL {
            for verdict in Verdict::ALL {
                match in_state(state).decide(verdict, "bob", NOW) {
                    Ok(after) => {
                        assert_eq!(after.decided_by.as_deref(), Some("bob"));
                        assert_eq!(after.decided_at, Some(NOW));
                        moves.push((state.as_str(), verdict.as_str(), after.state.as_str()));
                    }
                    Err(refusal) => {
                        assert_eq!(refusal, VerdictRefusal::State { verdict, state });
                        assert_eq!(refusal.code(), "assignment_state");
                    }
                }
            }
        }
        let expected = [
            ("requested", "approve", "approved"),
            ("requested", "reject", "rejected"),
            ("approved", "revoke", "revoked"),
        ];
        assert_eq!(moves, expected);
        let refusal = in_state(AssignmentState::Rejected).decide(Verdict::Approve, "bob", NOW);
        assert_eq!(
            refusal.unwrap_err().to_string(),
            "cannot approve an assignment that is \"rejected\""
        );
    }

    // Requirement: C-2
    #[test]
    fn an_operator_cannot_approve_their_own_request() {
        let asked = in_state(AssignmentState::Requested);
        let refusal = asked.decide(Verdict::Approve, "ann", NOW).unwrap_err();
        assert_eq!(refusal.code(), "self_approval_denied");
        assert!(asked.decide(Verdict::Reject, "ann", NOW).is_ok());
        assert!(in_state(AssignmentState::Approved).decide(Verdict::Revoke, "ann", NOW).is_ok());
    }

    // Requirement: C-1
    #[test]
    fn an_approved_active_credential_of_a_supported_provider_may_be_used() {
        let approved = in_state(AssignmentState::Approved);
        let providers = [Provider::Aws, Provider::Hetzner];
        let verdict = may_use(&credential(), project(3), Some(&approved), &providers, NOW);
        assert_eq!(verdict, Ok(()));
    }

    // Requirement: C-1
    #[test]
    fn every_other_use_is_refused_with_its_reason() {
        let approved = in_state(AssignmentState::Approved);
        let elsewhere = Assignment { project: project(4), ..approved.clone() };
        let other_id = CredentialId::from_uuid(Uuid::from_u128(9));
        let other = Assignment { credential: other_id, ..approved.clone() };
        let it = credential();
        let expired = Credential { expires_at: Some(NOW), ..credential() };
        let revoked = Credential { revoked_at: Some(NOW), ..credential() };
        let hetzner = [Provider::Hetzner];
        assert_eq!(code(&it, None, &hetzner), "credential_not_assigned");
        assert_eq!(code(&it, Some(&elsewhere), &hetzner), "credential_not_assigned");
        assert_eq!(code(&it, Some(&other), &hetzner), "credential_not_assigned");
        for state in
            [AssignmentState::Requested, AssignmentState::Rejected, AssignmentState::Revoked]
        {
            let verdict = may_use(&it, project(3), Some(&in_state(state)), &hetzner, NOW);
            assert_eq!(verdict, Err(UseRefusal::NotApproved { credential: it.id, state }));
            assert_eq!(code(&it, Some(&in_state(state)), &hetzner), "credential_not_approved");
        }
        assert_eq!(code(&expired, Some(&approved), &hetzner), "credential_expired");
        assert_eq!(code(&revoked, Some(&approved), &hetzner), "credential_revoked");
        assert_eq!(code(&it, Some(&approved), &[Provider::Aws]), "provider_unsupported");
        assert_eq!(code(&it, Some(&approved), &[]), "provider_unsupported");
    }

    // Requirement: C-1
    #[test]
    fn a_refused_use_names_the_credential() {
        let refusal = may_use(&credential(), project(3), None, &[], NOW).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "credential \"00000000-0000-0000-0000-000000000001\" is not assigned \
             to project \"00000000-0000-0000-0000-000000000003\""
        );
    }
}
