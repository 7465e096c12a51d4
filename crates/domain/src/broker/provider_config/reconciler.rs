//! The ProviderConfig as a lifecycle of the kernel.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::{Name, NameLedger, Reconciled, Reconciler, Record, Timers, Timestamp, Uid};

use super::ProviderConfig;
use super::facts::{Phase, RecordChange, RowFacts, Users, VerbKind};
use super::observe::Observed;
use super::reason::Reason;
use super::reconcile::rules;
use crate::broker::facts::Finalization;
use crate::broker::render::anchor::is_anchor;

/// The reconciler of a ProviderConfig, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderConfigReconciler {
    /// The longest requeue delay in a passing phase.
    pub interval: Duration,
}

impl Default for ProviderConfigReconciler {
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
    /// Create each object under the anchor, or apply it onto the one with this uid.
    Apply {
        /// The objects in the order in which they are written, and the revision observed; where
        /// that is `None` it is a create.
        objects: Vec<(Name, Option<Uid>)>,
        /// The anchor's uid, for the owner references.
        anchor: Uid,
    },
    /// Delete one object, if it still is what was seen.
    Delete {
        /// The object.
        object: Name,
        /// The only object that may be deleted.
        uid: Uid,
        /// The only revision of it that may be deleted.
        revision: String,
    },
    /// Delete the anchor with this uid.
    DeleteAnchor {
        /// The anchor.
        anchor: Name,
        /// The only object that may be deleted.
        uid: Uid,
    },
}

impl Reconciler for ProviderConfigReconciler {
    type State = ProviderConfig;
    type Observed = Observed;
    type Effect = Verb;
    type Event = Infallible;
    type Reason = Reason;
    type Phase = Phase;
    type Change = RecordChange;
    type EffectKind = VerbKind;
    type EventKind = Infallible;

    fn reconcile(
        &self,
        record: &Record<ProviderConfig>,
        name_ledger: &NameLedger,
        seen: &Observed,
        now: Timestamp,
    ) -> Reconciled<Self> {
        let config = &record.state;
        let verdict = rules(facts(config, name_ledger, now), seen.facts);
        let mut next = ProviderConfig { phase: verdict.phase, ..config.clone() };
        let rows = match verdict.change {
            None => vec![],
            Some(RecordChange::NextGeneration) => {
                next.generation = config.generation.next();
                next.grace_until = None;
                next.intended("usher", now)
            }
        };
        Reconciled { verdict, next, rows }
    }

    fn address(
        &self,
        kind: VerbKind,
        record: &Record<ProviderConfig>,
        (_, name_ledger): (&ProviderConfig, &NameLedger),
        seen: &Observed,
    ) -> Option<Verb> {
        let config = &record.state;
        let generation = config.generation;
        match kind {
            VerbKind::CreateAnchor => {
                Some(Verb::CreateAnchor { anchor: config.anchor_name(generation) })
            }
            VerbKind::Apply => {
                let anchor = name_ledger.seen(&config.anchor_name(generation))?.uid.clone()?;
                // What is referred to is written before what refers to it.
                let names =
                    [config.external_secret_name(generation), config.config_name(generation)];
                let onto = |name: Name| {
                    let uid = name_ledger.seen(&name).and_then(|row| row.uid.clone());
                    (name, uid)
                };
                Some(Verb::Apply { objects: names.into_iter().map(onto).collect(), anchor })
            }
            VerbKind::Delete => {
                let mut existing = seen.existing.iter();
                existing.find_map(|(name, revision)| {
                    let uid = name_ledger.seen(name)?.uid.clone()?;
                    Some(Verb::Delete { object: name.clone(), uid, revision: revision.clone() })
                })
            }
            VerbKind::DeleteAnchor => {
                let row = if config.is_tearing_down() {
                    name_ledger.first_seen(is_anchor)?
                } else {
                    name_ledger.seen(&config.anchor_name(generation))?
                };
                Some(Verb::DeleteAnchor { anchor: row.name.clone(), uid: row.uid.clone()? })
            }
        }
    }

    fn event(
        &self,
        never: Infallible,
        _: &ProviderConfig,
        _: &ProviderConfig,
        _: &Observed,
    ) -> Option<Infallible> {
        match never {}
    }

    fn timers(&self, next: &ProviderConfig, _: &Observed) -> Timers {
        Timers { interval: self.interval, in_flight_until: next.grace_until, ..Timers::default() }
    }
}

fn facts(config: &ProviderConfig, name_ledger: &NameLedger, now: Timestamp) -> RowFacts {
    RowFacts {
        phase: config.phase,
        users: if config.users == 0 { Users::None } else { Users::Some },
        finalization: if !config.is_grace_over(now) {
            Finalization::InFlight
        } else if name_ledger.is_settled() {
            Finalization::Settled
        } else {
            Finalization::Open
        },
    }
}
