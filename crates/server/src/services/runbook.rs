//! The runbook: the page of a reason, filled with live facts, and advice about failed steps.

use std::fmt;

use usher_api::views::Advice;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::reasons::Page;
use usher_kernel::Timestamp;

/// The facts that fill an entry.
pub(super) struct Live {
    pub(super) name: String,
    pub(super) world: String,
    /// When it entered its phase.
    pub(super) since: Timestamp,
    pub(super) now: Timestamp,
    /// The failure message of its substrate.
    pub(super) failure: Option<String>,
}

/// One entry of the runbook.
pub(super) struct Entry {
    /// What it does or waits for, in one sentence.
    pub(super) summary: String,
    pub(super) advice: Option<Advice>,
}

/// The entry of a phase and a reason.
pub(super) fn entry(phase: Phase, reason: Option<Reason>, live: &Live) -> Entry {
    let Some(reason) = reason else {
        return Entry { summary: "it is declared and not observed yet".to_owned(), advice: None };
    };
    if phase == Phase::Deleted {
        let summary = "it is deleted; objects that reappear are deleted again".to_owned();
        return Entry { summary, advice: None };
    }
    let symptom = symptom(phase, reason, (live.since, live.now));
    render(reason.page(), symptom, |it| fill(it, live))
}

/// The symptom of an object that stays in a phase.
pub(super) fn symptom(
    phase: impl fmt::Display,
    reason: impl fmt::Display,
    (since, now): (Timestamp, Timestamp),
) -> String {
    let minutes = now.since(since).as_secs() / 60;
    format!("{phase} for {minutes} min with reason {reason}")
}

pub(super) fn render(page: Page, symptom: String, fill: impl Fn(&str) -> String) -> Entry {
    let advice = page.advice.map(|it| Advice {
        symptom,
        diagnosis: fill(it.cause),
        remedy: fill(it.remedy),
    });
    Entry { summary: fill(page.sentence), advice }
}

/// Advice while this server lacks a key.
pub(super) fn key_missing(key: &KeyId) -> Advice {
    Advice {
        symptom: format!("this server lacks key {key} of the installation"),
        diagnosis: "nodes that call with a secret of this key cannot be authenticated here; they \
            are not lost"
            .to_owned(),
        remedy: "restore the key in the key file of this server; it is read again by itself; do \
            not replace nodes"
            .to_owned(),
    }
}

/// Advice about failed steps and parked items.
pub(super) fn beside(live: &Live, trouble: Option<&str>, parked: bool) -> Vec<Advice> {
    let mut advice = Vec::new();
    if let Some(trouble) = trouble {
        advice.push(Advice {
            symptom: format!("the last step was not finished: {trouble}"),
            diagnosis: "a dependency did not answer, refused, or blocks it; nothing is lost \
                and the step is retried with back-off"
                .to_owned(),
            remedy: fill("fix what is named; `usher retry {name}` reconciles it at once", live),
        });
    }
    if parked {
        advice.push(Advice {
            symptom: "it is not reconciled any more".to_owned(),
            diagnosis: "its row violates an invariant, or a step of it panicked: a bug, or a \
                manual change in the database"
                .to_owned(),
            remedy: fill("repair the row, then `usher retry {name}`", live),
        });
    }
    advice
}

fn fill(text: &str, live: &Live) -> String {
    let failure = live.failure.as_deref().unwrap_or("no message");
    text.replace("{name}", &live.name).replace("{world}", &live.world).replace("{failure}", failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: T-35
    #[test]
    fn an_entry_is_filled_with_live_facts() {
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
            let entry = entry(Phase::Pending, Some(*reason), &live);
            let advice =
                entry.advice.map(|it| format!("{}{}{}", it.symptom, it.diagnosis, it.remedy));
            let text = format!("{}{}", entry.summary, advice.unwrap_or_default());
            assert!(!text.contains(['{', '}']), "{text}");
        }
    }
}
