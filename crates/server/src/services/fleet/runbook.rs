//! The runbook of the fleet: what each reason of a machine means and what to do, with live facts.

use usher_api::fleet::MachineView;
use usher_api::views::Advice;
use usher_domain::fleet::aggregate::State;
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::reason::Reason;
use usher_kernel::Timestamp;
use usher_store::{ListedAt, ShardState};

use super::super::runbook::{Entry, Page, page, symptom, told};

/// The facts that an entry is told with.
pub(super) struct Live {
    /// The provider's name for the machine.
    name: String,
    provider: String,
    shard: String,
    /// The cluster it is bound to, or shall be.
    cluster: String,
    /// The cluster that the provider names.
    named: String,
    /// The resource that holds it.
    holder: String,
    /// Why it failed.
    error: String,
    phase: Phase,
    since: Timestamp,
    now: Timestamp,
}

const SLOW: &str = "provider {provider} accepted the order and has not finished it; the order is \
    given again, with a new token, and nothing is taken for done before the provider shows it";

/// Every reason's page.
const PAGES: [Page<Reason>; 33] = [
    (Reason::Unused, "nobody needs it, and it costs nothing", None),
    (Reason::Spare, "its host stands and nobody needs it; it is given back after its window", None),
    (Reason::Steady, "it serves cluster {cluster}, as is wanted", None),
    (Reason::OrderRecorded, "its next order is recorded before it is sent", None),
    (Reason::OrderSent, "its recorded order is sent next", None),
    (
        Reason::OrderRepeated,
        "its last order had no effect and is given again",
        Some((
            "provider {provider} shows the machine where the order began: the request was lost, \
             or refused",
            "wait; if it lasts, look at the log of provider {provider}",
        )),
    ),
    (Reason::OrderTakenBack, "an order that had no effect is not wanted any more", None),
    (Reason::WaitingForHost, "its host is being made", None),
    (Reason::WaitingForNode, "its host stands and it is joining cluster {cluster}", None),
    (
        Reason::WaitingForDrain,
        "it is leaving cluster {cluster}; it stays bound until its provider shows it unbound",
        None,
    ),
    (Reason::WaitingForDeletion, "its host is being given back", None),
    (
        Reason::CreateOverdue,
        "its host was not made within the deadline; it is asked for again",
        Some((SLOW, "look at quota and log of provider {provider}; no action is needed here")),
    ),
    (
        Reason::ConfigureOverdue,
        "it did not become a node of cluster {cluster} within the deadline; it is asked again",
        Some((SLOW, "look whether the host comes up and can reach cluster {cluster}")),
    ),
    (
        Reason::DrainOverdue,
        "it did not leave cluster {cluster} within its grace and the deadline; it is asked again",
        Some((
            SLOW,
            "look what cannot be evicted in cluster {cluster}: a disruption budget, a stuck pod",
        )),
    ),
    (
        Reason::DeleteOverdue,
        "its host was not given back within the deadline; it is asked again",
        Some((SLOW, "look at the log of provider {provider}: until then the host may cost money")),
    ),
    (Reason::Completed, "what was ordered is done", None),
    (
        Reason::MovedUnasked,
        "it moved without an open order",
        Some((
            "a late answer to an earlier order, or somebody else uses provider {provider}",
            "nothing, if it was one machine; else look who else speaks to the provider",
        )),
    ),
    (
        Reason::HostLost,
        "its host, or its place in the cluster, was lost",
        Some((
            "provider {provider} took the host away, or it broke",
            "nothing: the need is served by another machine as soon as there is one",
        )),
    ),
    (
        Reason::ProviderFailed,
        "its provider gave up on it: {error}",
        Some((
            "provider {provider} shows it failed; it is left alone for its deadline and then \
             salvaged",
            "mend what the error names; its need is served by another machine",
        )),
    ),
    (
        Reason::Failed,
        "it failed: {error}",
        Some((
            "it is left alone until its deadline, so that somebody can look at it; one that a \
             resource held is given back without that",
            "look at the host if you want to know why; it is salvaged by itself, unless provider \
             {provider} knows no way out of a failure: then clean up there",
        )),
    ),
    (
        Reason::FailedAndHeld,
        "it failed and resource {holder} holds it: {error}",
        Some((
            "a machine that a resource holds is not taken away from it",
            "`usher deprovision {holder}`, or `usher retry {holder} --replace`",
        )),
    ),
    (Reason::CleaningUp, "it failed; what is left of it is taken away", None),
    (Reason::Recovered, "it had failed and is usable again", None),
    (
        Reason::BindingDisputed,
        "its provider names cluster {named} and we do not",
        Some((
            "somebody else bound it, or our record is wrong; until that is settled nothing is \
             done to it and no plan takes it",
            "`usher fleet settle {name} --adopt` if cluster {named} is right, \
             `usher fleet settle {name} --drain` if it is not",
        )),
    ),
    (Reason::BindingSettled, "its provider names our cluster again, or none", None),
    (
        Reason::MissingFromList,
        "a list does not name it, so it is asked for by itself",
        Some((
            "a list proves presence only",
            "nothing: it is gone only if provider {provider} does not know it either",
        )),
    ),
    (Reason::Gone, "its provider does not know it any more", None),
    (
        Reason::Unreachable,
        "provider {provider} does not answer",
        Some((
            "nothing is known of the machine at the moment, and nothing is concluded from that",
            "bring provider {provider} back; it goes on by itself",
        )),
    ),
    (
        Reason::StaleLook,
        "the last look may be older than its last order, so it does not count",
        None,
    ),
    (
        Reason::RecordRefused,
        "the parts of its record disagree, so it is left as it was",
        Some((
            "provider {provider} shows a state without what belongs to it, or with what cannot be",
            "mend the provider; the machine is followed again with the next record that can be \
             read",
        )),
    ),
    (
        Reason::RailTripped,
        "too many machines of provider {provider} are missing at once",
        Some((
            "an empty or cut list is the commonest wrong answer; nothing is believed to be gone",
            "look at the provider; a list that is whole is believed by itself",
        )),
    ),
    (
        Reason::Paused,
        "it would be worked on, and shard {shard} is paused",
        Some((
            "somebody stopped the shard: what was begun goes on, and nothing new is begun",
            "`usher fleet resume --shard {shard}`; `usher get audit` says who paused it",
        )),
    ),
    (Reason::Superseded, "another process speaks for shard {shard} by now", None),
];

/// The entry of a reason.
pub(super) fn entry(reason: Reason, live: &Live) -> Entry {
    let (summary, advice) = page(&PAGES, &reason);
    let symptom = symptom(live.phase, reason, (live.since, live.now));
    told(summary, advice, symptom, |it| live.fill(it))
}

/// Entries about the shard that speaks for the machine, and about the list it was seen in.
pub(super) fn beside(
    shard: Option<&ShardState>,
    list: Option<&ListedAt>,
    live: &Live,
) -> Vec<Advice> {
    let mut advice = vec![];
    if shard.is_none_or(|it| !it.is_held()) {
        advice.push(Advice {
            symptom: live.fill("nobody speaks for shard {shard}"),
            diagnosis: "no server runs the shard, or it cannot reach the database; machines stay \
                as they are meanwhile, and nothing is reclaimed"
                .to_owned(),
            remedy: live.fill("start a server that runs shard {shard}, see `usher fleet shards`"),
        });
    }
    if list.is_some_and(|it| it.list.credence == Credence::TooSmall) {
        advice.push(Advice {
            symptom: live.fill("the last list of provider {provider} is not believed"),
            diagnosis: "too many machines were missing at once, or all of them".to_owned(),
            remedy: live.fill("look at provider {provider}; a whole list is believed by itself"),
        });
    }
    advice
}

impl Live {
    /// The facts of a machine at this moment.
    pub(super) fn of(view: &MachineView, now: Timestamp) -> Self {
        let row = &view.machine;
        let fields = row.fields();
        let bound = row.state().binding().map(|it| &it.cluster);
        let text = |it: Option<String>| it.unwrap_or_else(|| "none".to_owned());
        let error = match row.state() {
            State::Failed { error, .. } => error.clone(),
            State::Speculative
            | State::Creating
            | State::Idle { .. }
            | State::Configuring { .. }
            | State::Configured { .. }
            | State::Draining { .. }
            | State::Deleting { .. }
            | State::Gone => "no message".to_owned(),
        };
        Self {
            name: fields.id.to_string(),
            provider: fields.provider.clone(),
            shard: fields.owner.to_string(),
            cluster: text(bound.or_else(|| fields.wanted.cluster()).map(ToString::to_string)),
            named: text(fields.disputed.as_ref().map(|it| it.cluster.to_string())),
            holder: text(fields.holder.map(|it| it.to_string())),
            error,
            phase: row.phase(),
            since: fields.phase_since,
            now,
        }
    }

    fn fill(&self, text: &str) -> String {
        let facts = [
            ("{name}", &self.name),
            ("{provider}", &self.provider),
            ("{shard}", &self.shard),
            ("{cluster}", &self.cluster),
            ("{named}", &self.named),
            ("{holder}", &self.holder),
            ("{error}", &self.error),
        ];
        facts.iter().fold(text.to_owned(), |told, (key, fact)| told.replace(key, fact))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        Live {
            name: "m-7".to_owned(),
            provider: "p".to_owned(),
            shard: "shard-0".to_owned(),
            cluster: "a".to_owned(),
            named: "x".to_owned(),
            holder: "none".to_owned(),
            error: "no quota".to_owned(),
            phase: Phase::Failed,
            since: Timestamp::from_millis(0),
            now: Timestamp::from_millis(180_000),
        }
    }

    #[test]
    fn every_reason_has_one_page() {
        super::super::super::runbook::each_has_one_page(&PAGES, Reason::ALL);
    }

    #[test]
    fn an_entry_speaks_with_live_facts() {
        let failed = entry(Reason::Failed, &live());
        assert_eq!(failed.summary, "it failed: no quota");
        assert_eq!(failed.advice.unwrap().symptom, "Failed for 3 min with reason Failed");
        let disputed = entry(Reason::BindingDisputed, &live()).advice.unwrap();
        assert!(disputed.remedy.starts_with("`usher fleet settle m-7 --adopt` if cluster x"));
        let beside = beside(None, None, &live());
        assert_eq!(beside[0].symptom, "nobody speaks for shard shard-0");
        for reason in Reason::ALL {
            let told = entry(*reason, &live());
            let advice =
                told.advice.map(|it| format!("{}{}{}", it.symptom, it.diagnosis, it.remedy));
            let text = format!("{}{}", told.summary, advice.unwrap_or_default());
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{text}");
        }
    }
}
