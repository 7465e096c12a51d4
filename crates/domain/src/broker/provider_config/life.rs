//! The ProviderConfig as a lifecycle of the kernel.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{Book, Decision, Lifecycle, Name, Record, Timestamp, Uid, Wake};

use super::facts::{Reason, Rest, RowFacts, Rows, Users, VerbKind};
use super::observe::Observed;
use super::reconcile::rules;
use super::{KIND_ANCHOR, KIND_CONFIG, ProviderConfig};

/// The life of a ProviderConfig, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The longest rest in a passing phase.
    pub interval: Duration,
}

impl Default for Life {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30) }
    }
}

/// One repeatable verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Create this anchor; "exists and ours" is success.
    CreateAnchor {
        /// The anchor.
        anchor: Name,
    },
    /// Create the object under the anchor, or apply it onto the one with this uid.
    Apply {
        /// The object.
        config: Name,
        /// The object that was seen; `None` creates.
        uid: Option<Uid>,
        /// The anchor's uid, for the owner reference.
        anchor: Uid,
    },
    /// Ask the object to go, if it still is what was seen.
    Delete {
        /// The object.
        config: Name,
        /// The only object that may be deleted.
        uid: Uid,
        /// The only revision of it that may be deleted.
        revision: String,
    },
    /// Ask the anchor with this uid to go.
    DeleteAnchor {
        /// The anchor.
        anchor: Name,
        /// The only object that may be deleted.
        uid: Uid,
    },
}

impl Lifecycle for Life {
    type State = ProviderConfig;
    type Observed = Observed;
    type Effect = Verb;
    type Event = Infallible;
    type Reason = Reason;

    fn decide(
        &self,
        record: &Record<ProviderConfig>,
        seen: &Observed,
        now: Timestamp,
    ) -> Decision<Self> {
        let config = &record.state;
        let mut rows = record.book.absorb(&seen.sightings);
        let book = record.book.with(&rows);
        let verdict = rules(facts(config, &book), seen.facts);
        let mut next = ProviderConfig { phase: verdict.phase, ..config.clone() };
        if verdict.next_generation {
            next.generation = config.generation.next();
            rows.extend(next.intended("usher", now));
        }
        Decision {
            effect: verdict.verb.and_then(|kind| address(kind, config, &book, seen)),
            event: None,
            wake: match verdict.rest {
                Rest::Now => Wake::Now,
                Rest::Poll => Wake::At(now.after(self.interval)),
                Rest::OnChange => Wake::OnChange,
            },
            next,
            rows,
            reason: verdict.reason,
        }
    }
}

fn facts(config: &ProviderConfig, book: &Book) -> RowFacts {
    RowFacts {
        phase: config.phase,
        users: if config.users == 0 { Users::None } else { Users::Some },
        rows: if book.is_settled() { Rows::Settled } else { Rows::Open },
    }
}

fn address(kind: VerbKind, config: &ProviderConfig, book: &Book, seen: &Observed) -> Option<Verb> {
    let generation = config.generation;
    match kind {
        VerbKind::CreateAnchor => {
            Some(Verb::CreateAnchor { anchor: config.anchor_name(generation) })
        }
        VerbKind::Apply => {
            let anchor = book.seen(&config.anchor_name(generation))?.uid.clone()?;
            let name = config.config_name(generation);
            let uid = book.seen(&name).and_then(|row| row.uid.clone());
            Some(Verb::Apply { config: name, uid, anchor })
        }
        VerbKind::Delete => {
            let row = book.first_seen(|it| it.kind == KIND_CONFIG)?;
            let revision = seen.revision.clone()?;
            Some(Verb::Delete { config: row.name.clone(), uid: row.uid.clone()?, revision })
        }
        VerbKind::DeleteAnchor => {
            let row = book.first_seen(|it| it.kind == KIND_ANCHOR)?;
            Some(Verb::DeleteAnchor { anchor: row.name.clone(), uid: row.uid.clone()? })
        }
    }
}
