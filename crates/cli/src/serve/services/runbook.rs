//! The runbook: what each reason means and what to do about it, with live facts.

use usher_api::views::Advice;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_kernel::Timestamp;

/// The facts that an entry is told with.
pub(super) struct Live {
    /// What the resource is called.
    pub(super) name: String,
    /// Its world.
    pub(super) world: String,
    /// Since when it is in its phase.
    pub(super) since: Timestamp,
    /// The time.
    pub(super) now: Timestamp,
    /// The message with which its substrate failed.
    pub(super) failure: Option<String>,
}

/// One entry of the runbook.
pub(super) struct Entry {
    /// What it waits for or does, in a sentence.
    pub(super) summary: String,
    /// What to make of it, if anything should be.
    pub(super) advice: Option<Advice>,
}

/// What holds, what it means, what to do.
type Page = (&'static str, Option<(&'static str, &'static str)>);

/// The entry of a phase and a reason.
pub(super) fn entry(phase: Phase, reason: Option<Reason>, live: &Live) -> Entry {
    let Some(reason) = reason else {
        return Entry { summary: "it was declared and nobody looked yet".to_owned(), advice: None };
    };
    let (summary, advice) = match phase {
        Phase::Deleted => ("it is deleted, and what comes back is taken away", None),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Ready
        | Phase::Failed
        | Phase::Deregistering
        | Phase::Deprovisioning => page(reason),
    };
    let minutes = live.now.since(live.since).as_secs() / 60;
    let advice = advice.map(|(diagnosis, remedy)| Advice {
        symptom: format!("{phase} for {minutes} min with reason {reason}"),
        diagnosis: fill(diagnosis, live),
        remedy: fill(remedy, live),
    });
    Entry { summary: fill(summary, live), advice }
}

/// Entries about the steps themselves.
pub(super) fn beside(live: &Live, trouble: Option<&str>, parked: bool) -> Vec<Advice> {
    let mut advice = Vec::new();
    if let Some(trouble) = trouble {
        advice.push(Advice {
            symptom: format!("the last step was not finished: {trouble}"),
            diagnosis: "a dependency did not answer, refused, or holds something; nothing is lost \
                and the step is repeated with back-off"
                .to_owned(),
            remedy: fill("mend what is named; `usher retry {name}` looks again at once", live),
        });
    }
    if parked {
        advice.push(Advice {
            symptom: "nobody looks at it any more".to_owned(),
            diagnosis:
                "its row breaks its own rules, or a step of it panicked: a bug, or a hand in \
                the database"
                    .to_owned(),
            remedy: fill("mend the row, then `usher retry {name}`", live),
        });
    }
    advice
}

fn fill(text: &str, live: &Live) -> String {
    let failure = live.failure.as_deref().unwrap_or("no message");
    text.replace("{name}", &live.name).replace("{world}", &live.world).replace("{failure}", failure)
}

fn page(reason: Reason) -> Page {
    match reason {
        Reason::Steady
        | Reason::Degraded
        | Reason::Correcting
        | Reason::NodeLost
        | Reason::NodeRemoved => resting(reason),
        Reason::NamespaceNotReady
        | Reason::CreatingAnchor
        | Reason::RecordingAnchor
        | Reason::AnchorNameTaken
        | Reason::AnchorLost
        | Reason::IssuingToken
        | Reason::WaitingForProviderConfig
        | Reason::CreatingSubstrate
        | Reason::NameTaken
        | Reason::RecordingSubstrate
        | Reason::WaitingForSubstrate
        | Reason::ProvisioningOverdue
        | Reason::ProvisioningFailed => coming(reason),
        Reason::SubstrateLeaving
        | Reason::SubstrateLost
        | Reason::SubstrateReplaced
        | Reason::GenerationReplaced
        | Reason::WaitingForNode
        | Reason::EnrolmentOverdue
        | Reason::TokenExpired
        | Reason::TokenRevoked => enrolling(reason),
        Reason::DrainingNode
        | Reason::DrainOverdue
        | Reason::ReleasingProtection
        | Reason::InUse
        | Reason::RecordingComposed
        | Reason::DeletingSubstrate
        | Reason::WaitingForDeletion
        | Reason::WaitingForComposed
        | Reason::TeardownOverdue
        | Reason::KindRemoved
        | Reason::QuietTime
        | Reason::DeletingAnchor
        | Reason::UnsettledRows
        | Reason::Gone => leaving(reason),
        Reason::Unreachable
        | Reason::Forbidden
        | Reason::ClusterReplaced
        | Reason::RailTripped
        | Reason::NodeUnknown => unseen(reason),
    }
}

fn resting(reason: Reason) -> Page {
    match reason {
        Reason::Degraded => (
            "it was ready and its substrate is not at the moment",
            Some((
                "the substrate is mended by whoever composed it; a transient loss of readiness \
                    changes no phase",
                "wait, or `usher retry {name} --replace` for a new substrate",
            )),
        ),
        Reason::NodeLost => (
            "its node registered and is not heard any more",
            Some((
                "the agent hangs or its machine is down; the supervisor starts it again if it ended",
                "look at the machine; `usher retry {name} --replace` for a new one",
            )),
        ),
        Reason::NodeRemoved => (
            "its node was taken out of the mesh",
            Some((
                "a node that left does not come back with a used token",
                "`usher retry {name} --replace` for a new one",
            )),
        ),
        Reason::Correcting => ("its substrate differs from what was declared; it is written", None),
        _ => ("all is as declared", None),
    }
}

fn coming(reason: Reason) -> Page {
    match reason {
        Reason::NamespaceNotReady => (
            "the namespace of its project is not ready",
            Some((
                "the placement of the project is not ready; nothing was made and no token issued",
                "wait for the placement, see `usher get placements`; it goes on by itself",
            )),
        ),
        Reason::AnchorNameTaken | Reason::NameTaken => (
            "somebody else's object has its name",
            Some((
                "an object without our labels stands in world {world} under a name of ours",
                "remove or rename that object; nothing that is not ours is touched",
            )),
        ),
        Reason::AnchorLost => (
            "its anchor is gone, so its substrate will be collected",
            Some((
                "somebody removed the anchor in world {world}",
                "wait: a new generation follows once the substrate is gone",
            )),
        ),
        Reason::WaitingForProviderConfig => (
            "its ProviderConfig is not there yet",
            Some((
                "the ProviderConfig has a life of its own; see the blockers",
                "wait; if it lasts, look at what stands in world {world}",
            )),
        ),
        Reason::WaitingForSubstrate => ("its substrate is being made and is not ready", None),
        Reason::ProvisioningOverdue => (
            "its substrate is being made and takes longer than it should",
            Some((
                "whoever composes it is slow or retries; that is not a failure until it says so",
                "look at world {world}; deprovision it if it is not wanted any more",
            )),
        ),
        Reason::ProvisioningFailed => (
            "its substrate failed for good: {failure}",
            Some((
                "the composition declared the attempt hopeless; a failed resource stays failed",
                "`usher deprovision {name}`, mend the cause, and declare it anew",
            )),
        ),
        _ => ("what it needs is being made", None),
    }
}

fn enrolling(reason: Reason) -> Page {
    match reason {
        Reason::WaitingForNode => ("its substrate is ready and its node has not registered", None),
        Reason::EnrolmentOverdue => (
            "its node should have registered by now",
            Some((
                "the machine did not boot, its agent cannot reach this server, or it is refused",
                "look at the machine's log; `usher retry {name} --replace` for a new one",
            )),
        ),
        Reason::TokenExpired => (
            "its bootstrap token expired before a node redeemed it",
            Some((
                "an expired token is never issued again for the same substrate",
                "`usher retry {name} --replace` for a new substrate with a new token",
            )),
        ),
        Reason::TokenRevoked => (
            "its bootstrap token was revoked before a node redeemed it",
            Some((
                "nobody can enrol with it any more",
                "`usher retry {name} --replace` for a new substrate with a new token",
            )),
        ),
        Reason::SubstrateLeaving => (
            "its substrate is being deleted by somebody else",
            Some((
                "a deletion was asked for outside; it cannot be taken back",
                "wait: a new generation with a new node follows by itself",
            )),
        ),
        _ => (
            "its substrate vanished; what is left is shown out and a new generation follows",
            Some((
                "the substrate was deleted or replaced outside",
                "wait: it becomes Ready again with a new node; no action is needed",
            )),
        ),
    }
}

fn leaving(reason: Reason) -> Page {
    match reason {
        Reason::DrainingNode => ("its node is being shown out of the mesh", None),
        Reason::DrainOverdue => (
            "its node should have left by now",
            Some((
                "the node neither leaves nor is lost; the substrate is not touched before",
                "see the blockers; an admin can order that nobody be waited for",
            )),
        ),
        Reason::InUse => (
            "somebody else uses its substrate",
            Some((
                "an object in world {world} is marked as in use by another",
                "end that use; the deletion goes on by itself",
            )),
        ),
        Reason::WaitingForDeletion | Reason::DeletingSubstrate => {
            ("its substrate was asked to go and stands", None)
        }
        Reason::WaitingForComposed => {
            ("its substrate is gone; something that it was composed of is not", None)
        }
        Reason::TeardownOverdue => (
            "what is left of it should be gone by now",
            Some((
                "something holds a part of it; see the blockers with their ages",
                "release what holds it; `usher abandon {name}` is the last resort",
            )),
        ),
        Reason::KindRemoved => (
            "nobody can prove that what it was composed of is gone",
            Some((
                "a kind was removed from world {world}; the cloud may still hold its objects",
                "look in the cloud, then `usher abandon {name}`",
            )),
        ),
        Reason::QuietTime => ("a request from before may still arrive; it waits that out", None),
        Reason::UnsettledRows => (
            "nothing stands, and some name is not proven gone yet",
            Some((
                "a name was recorded and nobody answered about it with certainty",
                "see `usher receipt {name}`; it is asked again by itself",
            )),
        ),
        Reason::Gone => ("nothing is left", None),
        _ => ("what is left of it is being shown out", None),
    }
}

fn unseen(reason: Reason) -> Page {
    match reason {
        Reason::Forbidden => (
            "somebody who must answer does not let us look",
            Some((
                "rights are missing in world {world}; nothing is taken for absent",
                "give the rights back; it goes on by itself",
            )),
        ),
        Reason::ClusterReplaced => (
            "world {world} is not the one that was pinned",
            Some((
                "the world was rebuilt or restored from an older state: absence proves nothing",
                "bring the pinned world back, or `usher abandon {name}`",
            )),
        ),
        Reason::RailTripped => (
            "too much vanished at once in world {world}",
            Some((
                "more than the rail allows vanished unasked; nothing is believed to be gone",
                "look at the world; if it is true, `usher retry --rail {world}`",
            )),
        ),
        _ => (
            "somebody who must answer does not",
            Some((
                "world {world} or the mesh cannot be read; nothing is taken for absent",
                "bring it back; it goes on by itself",
            )),
        ),
    }
}
