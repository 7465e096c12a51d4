//! The runbook of machines: the page of a reason, filled with live facts.

use usher_api::fleet::MachineView;
use usher_api::views::Advice;
use usher_domain::fleet::aggregate::State;
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::reason::Reason;
use usher_kernel::Timestamp;
use usher_store::{ListedAt, ShardState};

use super::super::runbook::{Entry, render, symptom};

/// The facts that fill an entry.
pub(super) struct Live {
    /// The provider's name for the machine.
    name: String,
    provider: String,
    shard: String,
    /// The cluster it is bound to, or wanted for.
    cluster: String,
    /// The cluster that the provider names.
    named: String,
    holder: String,
    error: String,
    phase: Phase,
    since: Timestamp,
    now: Timestamp,
}

/// The entry of a reason.
pub(super) fn entry(reason: Reason, live: &Live) -> Entry {
    let symptom = symptom(live.phase, reason, (live.since, live.now));
    render(reason.page(), symptom, |it| live.fill(it))
}

/// Advice about the shard of the machine and about the last list of its provider.
pub(super) fn beside(
    shard: Option<&ShardState>,
    list: Option<&ListedAt>,
    live: &Live,
) -> Vec<Advice> {
    let mut advice = vec![];
    if shard.is_none_or(|it| !it.is_held()) {
        advice.push(Advice {
            symptom: live.fill("no process holds the lease of shard {shard}"),
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
            remedy: live.fill("check provider {provider}; a complete list is believed again"),
        });
    }
    advice
}

impl Live {
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
        facts.iter().fold(text.to_owned(), |text, (key, fact)| text.replace(key, fact))
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
    fn an_entry_is_filled_with_live_facts() {
        let failed = entry(Reason::Failed, &live());
        assert_eq!(failed.summary, "it failed: no quota");
        assert_eq!(failed.advice.unwrap().symptom, "Failed for 3 min with reason Failed");
        let disputed = entry(Reason::BindingDisputed, &live()).advice.unwrap();
        assert!(disputed.remedy.starts_with("`usher fleet settle m-7 --adopt` if cluster x"));
        let beside = beside(None, None, &live());
        assert_eq!(beside[0].symptom, "no process holds the lease of shard shard-0");
        for reason in Reason::ALL {
            let entry = entry(*reason, &live());
            let advice =
                entry.advice.map(|it| format!("{}{}{}", it.symptom, it.diagnosis, it.remedy));
            let text = format!("{}{}", entry.summary, advice.unwrap_or_default());
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{text}");
        }
    }
}
