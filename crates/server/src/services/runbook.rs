//! The runbook: what each reason means and what to do about it, with live facts.

use std::fmt;

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

/// A reason, what holds, and what it means and what to do if anything should be done.
pub(super) type Page<R> = (R, &'static str, Text);
/// What something means, and what to do about it.
pub(super) type Text = Option<(&'static str, &'static str)>;

/// Every reason's page.
const PAGES: [Page<Reason>; 45] = [
    (Reason::Steady, "all is as declared", None),
    (
        Reason::Degraded,
        "it was ready and its substrate is not at the moment",
        Some((
            "whoever composed it mends it; a transient loss of readiness changes no phase",
            "wait, or `usher retry {name} --replace` for a new substrate",
        )),
    ),
    (Reason::Correcting, "its substrate differs from what was declared; it is written", None),
    (
        Reason::NodeLost,
        "its node registered and is not heard any more",
        Some((
            "the agent hangs or its machine is down; one that ended is started again",
            "look at the machine; `usher retry {name} --replace` for a new one",
        )),
    ),
    (
        Reason::NodeRemoved,
        "its node was taken out of the mesh",
        Some((
            "a node that left does not come back with a used token",
            "`usher retry {name} --replace` for a new one",
        )),
    ),
    (
        Reason::NamespaceNotReady,
        "the namespace of its project is not ready",
        Some((
            "the placement of the project is not ready; nothing was made and no token issued",
            "wait for the placement, see `usher get placements`; it goes on by itself",
        )),
    ),
    (Reason::CreatingAnchor, "its anchor is being made", None),
    (Reason::RecordingAnchor, "its anchor is recorded before anything is made under it", None),
    (
        Reason::AnchorNameTaken,
        "somebody else's object has the name of its anchor",
        Some((
            "an object without our labels stands in world {world} under a name of ours",
            "remove or rename that object; nothing that is not ours is touched",
        )),
    ),
    (
        Reason::AnchorLost,
        "its anchor is gone, so its substrate will be collected",
        Some((
            "somebody removed the anchor in world {world}",
            "wait: a new generation follows once the substrate is gone",
        )),
    ),
    (Reason::IssuingToken, "its bootstrap token is being issued", None),
    (
        Reason::WaitingForProviderConfig,
        "its ProviderConfig is not there yet",
        Some((
            "the ProviderConfig has a life of its own; see the blockers",
            "wait; if it lasts, look at what stands in world {world}",
        )),
    ),
    (Reason::CreatingSubstrate, "its substrate is being made", None),
    (
        Reason::NameTaken,
        "somebody else's object has its name",
        Some((
            "an object without our labels stands in world {world} under a name of ours",
            "remove or rename that object; nothing that is not ours is touched",
        )),
    ),
    (Reason::RecordingSubstrate, "its substrate is recorded before it is written again", None),
    (Reason::WaitingForSubstrate, "its substrate is being made and is not ready", None),
    (
        Reason::ProvisioningOverdue,
        "its substrate is being made and takes longer than it should",
        Some((
            "whoever composes it is slow or retries; that is not a failure until it says so",
            "look at world {world}; deprovision it if it is not wanted any more",
        )),
    ),
    (
        Reason::ProvisioningFailed,
        "its substrate failed for good: {failure}",
        Some((
            "the composition declared the attempt hopeless; a failed resource stays failed",
            "`usher deprovision {name}`, mend the cause, and declare it anew",
        )),
    ),
    (
        Reason::SubstrateLeaving,
        "its substrate is being deleted by somebody else",
        Some((
            "a deletion was asked for outside; it cannot be taken back",
            "wait: a new generation with a new node follows by itself",
        )),
    ),
    (
        Reason::SubstrateLost,
        "its substrate vanished; a new generation follows",
        Some((
            "the substrate was deleted outside",
            "wait: it becomes Ready again with a new node; no action is needed",
        )),
    ),
    (
        Reason::SubstrateReplaced,
        "another object took the place of its substrate; a new generation follows",
        Some((
            "the substrate was replaced outside",
            "wait: it becomes Ready again with a new node; no action is needed",
        )),
    ),
    (Reason::GenerationReplaced, "the old generation is gone and the next one begins", None),
    (Reason::WaitingForNode, "its substrate is ready and its node has not registered", None),
    (
        Reason::EnrolmentOverdue,
        "its node should have registered by now",
        Some((
            "the machine did not boot, its agent cannot reach this server, or it is refused",
            "look at the machine's log; `usher retry {name} --replace` for a new one",
        )),
    ),
    (
        Reason::TokenExpired,
        "its bootstrap token expired before a node redeemed it",
        Some((
            "an expired token is never issued again for the same substrate",
            "`usher retry {name} --replace` for a new substrate with a new token",
        )),
    ),
    (
        Reason::TokenRevoked,
        "its bootstrap token was revoked before a node redeemed it",
        Some((
            "nobody can enrol with it any more",
            "`usher retry {name} --replace` for a new substrate with a new token",
        )),
    ),
    (Reason::DrainingNode, "its node is being shown out of the mesh", None),
    (
        Reason::DrainOverdue,
        "its node should have left by now",
        Some((
            "the node neither leaves nor is lost; the substrate is not touched before",
            "wait: it is put out by itself when its grace has passed; see the blockers",
        )),
    ),
    (Reason::ReleasingProtection, "our own guard on its substrate is being released", None),
    (
        Reason::InUse,
        "somebody else uses its substrate",
        Some((
            "an object in world {world} is marked as in use by another",
            "end that use; the deletion goes on by itself",
        )),
    ),
    (
        Reason::RecordingComposed,
        "what it is composed of is recorded before it is asked to go",
        None,
    ),
    (Reason::DeletingSubstrate, "its substrate is being asked to go", None),
    (Reason::WaitingForDeletion, "its substrate was asked to go and stands", None),
    (
        Reason::WaitingForComposed,
        "its substrate is gone; something that it was composed of is not",
        None,
    ),
    (
        Reason::TeardownOverdue,
        "what is left of it should be gone by now",
        Some((
            "something holds a part of it; see the blockers with their ages",
            "release what holds it; `usher abandon {name}` is the last resort",
        )),
    ),
    (
        Reason::KindRemoved,
        "nobody can prove that what it was composed of is gone",
        Some((
            "a kind was removed from world {world}; the cloud may still hold its objects",
            "look in the cloud, then `usher abandon {name}`",
        )),
    ),
    (Reason::QuietTime, "a request from before may still arrive; it waits that out", None),
    (Reason::DeletingAnchor, "its anchor is being asked to go", None),
    (
        Reason::UnsettledRows,
        "nothing stands, and some name is not proven gone yet",
        Some((
            "a name was recorded and nobody answered about it with certainty",
            "see `usher receipt {name}`; it is asked again by itself",
        )),
    ),
    (Reason::Gone, "nothing is left", None),
    (
        Reason::Unreachable,
        "somebody who must answer does not",
        Some((
            "world {world} cannot be read; nothing is taken for absent",
            "bring it back; it goes on by itself",
        )),
    ),
    (
        Reason::Forbidden,
        "somebody who must answer does not let us look",
        Some((
            "rights are missing in world {world}; nothing is taken for absent",
            "give the rights back; it goes on by itself",
        )),
    ),
    (
        Reason::ClusterReplaced,
        "world {world} is not the one that was pinned",
        Some((
            "the world was rebuilt or restored from an older state: absence proves nothing",
            "bring the pinned world back, or `usher abandon {name}`",
        )),
    ),
    (
        Reason::RailTripped,
        "too much vanished at once in world {world}",
        Some((
            "more vanished unasked than the mass-deletion guard allows; no absence is believed",
            "look at the world; if it is true, `usher retry --reset-guard {world}`",
        )),
    ),
    (
        Reason::NodeUnknown,
        "nobody can say whether its node is registered",
        Some(("the peers could not be asked", "bring the database back; it goes on by itself")),
    ),
];

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
        | Phase::Deprovisioning => page(&PAGES, &reason),
    };
    let symptom = symptom(phase, reason, (live.since, live.now));
    told(summary, advice, symptom, |it| fill(it, live))
}

/// What is seen of something that stays in a phase.
pub(super) fn symptom(
    phase: impl fmt::Display,
    reason: impl fmt::Display,
    (since, now): (Timestamp, Timestamp),
) -> String {
    let minutes = now.since(since).as_secs() / 60;
    format!("{phase} for {minutes} min with reason {reason}")
}

/// An entry whose texts are filled with live facts.
pub(super) fn told(
    summary: &str,
    advice: Text,
    symptom: String,
    fill: impl Fn(&str) -> String,
) -> Entry {
    let advice = advice.map(|(diagnosis, remedy)| Advice {
        symptom,
        diagnosis: fill(diagnosis),
        remedy: fill(remedy),
    });
    Entry { summary: fill(summary), advice }
}

/// The page of a reason.
pub(super) fn page<R: PartialEq>(pages: &[Page<R>], reason: &R) -> (&'static str, Text) {
    let found = pages.iter().find(|(it, _, _)| it == reason);
    found.map_or(("", None), |(_, summary, advice)| (*summary, *advice))
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

/// Each of these reasons has one page, and nothing else has.
#[cfg(test)]
pub(super) fn each_has_one_page<R: PartialEq + fmt::Display>(pages: &[Page<R>], reasons: &[R]) {
    for reason in reasons {
        assert_eq!(pages.iter().filter(|it| it.0 == *reason).count(), 1, "{reason}");
    }
    assert_eq!(pages.len(), reasons.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: T-35
    #[test]
    fn every_reason_has_one_page() {
        each_has_one_page(&PAGES, Reason::ALL);
    }

    // Requirement: T-35
    #[test]
    fn an_entry_speaks_with_live_facts() {
        let live = Live {
            name: "web".to_owned(),
            world: "local".to_owned(),
            since: Timestamp::from_millis(0),
            now: Timestamp::from_millis(120_000),
            failure: Some("no quota".to_owned()),
        };
        let failed = entry(Phase::Failed, Some(Reason::ProvisioningFailed), &live);
        assert_eq!(failed.summary, "its substrate failed for good: no quota");
        let advice = failed.advice.unwrap();
        assert_eq!(advice.symptom, "Failed for 2 min with reason ProvisioningFailed");
        assert!(advice.remedy.starts_with("`usher deprovision web`"));
        for reason in Reason::ALL {
            let told = entry(Phase::Pending, Some(*reason), &live);
            let advice =
                told.advice.map(|it| format!("{}{}{}", it.symptom, it.diagnosis, it.remedy));
            let text = format!("{}{}", told.summary, advice.unwrap_or_default());
            assert!(!text.contains(['{', '}']), "{text}");
        }
    }
}
