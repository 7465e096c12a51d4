//! The audit log: which operator requested what, and when. An entry outlives the object it names.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use usher_kernel::Timestamp;

use crate::object::closed::closed_set;
use crate::object::id::{AuditId, ProjectId};

closed_set! {
    /// What was requested.
    "audit action" Action {
        /// A resource was declared.
        ResourceProvision = "resource.provision",
        /// The deletion of a resource was requested.
        ResourceDeprovision = "resource.deprovision",
        /// An operator woke a resource.
        ResourceRetry = "resource.retry",
        /// A new generation was requested.
        ResourceReplace = "resource.replace",
        /// A resource was abandoned.
        ResourceAbandon = "resource.abandon",
        /// An abandoned resource was reaped.
        ResourceReap = "resource.reap",
        /// A peer was deregistered without waiting.
        PeerForce = "peer.force",
        /// A mass-deletion guard was reset.
        GuardReset = "guard.reset",
        /// A project was made.
        ProjectCreate = "project.create",
        /// A project was ended.
        ProjectDelete = "project.delete",
        /// A project was placed on a world.
        PlacementCreate = "placement.create",
        /// The end of a placement was requested.
        PlacementTerminate = "placement.terminate",
        /// A blueprint version was published.
        BlueprintPublish = "blueprint.publish",
        /// A blueprint version was removed.
        BlueprintDelete = "blueprint.delete",
        /// A cloud was entered.
        CloudCreate = "cloud.create",
        /// A cloud was removed.
        CloudDelete = "cloud.delete",
        /// A credential was entered.
        CredentialCreate = "credential.create",
        /// A credential was withdrawn.
        CredentialRevoke = "credential.revoke",
        /// A credential was removed.
        CredentialDelete = "credential.delete",
        /// A project requested a credential.
        AssignmentRequest = "assignment.request",
        /// An assignment was granted.
        AssignmentApprove = "assignment.approve",
        /// An assignment was denied.
        AssignmentReject = "assignment.reject",
        /// An assignment was withdrawn.
        AssignmentRevoke = "assignment.revoke",
        /// A label key was defined.
        LabelDefine = "label.define",
        /// Labels were written.
        LabelWrite = "label.write",
        /// An operator's token was made.
        OperatorTokenCreate = "operator_token.create",
        /// An operator's token was withdrawn.
        OperatorTokenRevoke = "operator_token.revoke",
        /// The server key was rotated.
        KeyRotate = "key.rotate",
        /// The demand of a cluster was replaced.
        FleetDemand = "fleet.demand",
        /// A shard was paused.
        FleetPause = "fleet.pause",
        /// A shard was resumed.
        FleetResume = "fleet.resume",
        /// The dry run of a shard was begun or ended.
        FleetDryRun = "fleet.dry_run",
        /// A dispute about a machine was settled.
        MachineSettle = "machine.settle",
    }
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    pub actor: String,
    /// What.
    pub action: Action,
    /// In which project, if in one.
    pub project: Option<ProjectId>,
    /// To what: an id or a name.
    pub subject: String,
    /// Further detail. No secrets.
    pub detail: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_a_thing_and_a_verb() {
        for action in Action::ALL {
            let word = action.as_str();
            assert!(word.split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()));
            assert_eq!(word.parse(), Ok(*action));
        }
    }
}
