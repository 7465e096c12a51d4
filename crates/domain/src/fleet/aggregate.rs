//! The machine: one row. What belongs to a state exists only in that state.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name, Row, Timestamp};

use super::binding::Binding;
use super::facts::{CommandState, Hold, Pace, RowFacts, Want};
use super::ident::{ClusterId, MachineId, ShardId};
use super::issue::Token;
use super::money::{Price, Probability};
use super::phase::Phase;
use super::quantity::Resources;
use super::refusal::Refusal;
use crate::object::closed::closed_set;
use crate::object::id::ResourceId;

/// The kind of a machine in the identity ledger.
pub const KIND_MACHINE: &str = "Machine";

/// What a machine is, as stored. Public so that a store can fill it; only a [`Machine`] made from
/// it by [`Machine::hydrate`] may be decided upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// The provider's name for it.
    pub id: MachineId,
    pub provider: String,
    /// The shard that owns it.
    pub owner: ShardId,
    /// The broker's resource behind it, if there is one.
    pub holder: Option<ResourceId>,
    /// What is known of its offer.
    pub offer: Offering,
    /// Where it is, with all that belongs there.
    pub state: State,
    /// What shall become of it.
    pub wanted: Wanted,
    /// The last token that was recorded for it, by a command or by a crossing: a snapshot that
    /// began before is stale.
    pub token: Token,
    /// The progress of the command with that token.
    pub command: CommandState,
    /// When the last command was recorded.
    pub commanded_at: Timestamp,
    /// What the provider names instead of our binding.
    pub disputed: Option<Dispute>,
    /// When its phase began.
    pub phase_since: Timestamp,
}

/// What is known of a machine's offer. A machine is followed whether its offer can be read or not,
/// but while it cannot, no need is given the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Offering {
    /// The last record could be read.
    Read(Offer),
    /// The last record could not be read, an earlier one could.
    Kept(Offer),
    /// No record could be read yet.
    Unread,
}

/// What a machine offers, as its provider describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offer {
    pub instance_type: String,
    pub zone: String,
    /// How it is paid for.
    pub capacity: CapacityType,
    /// What an hour costs.
    pub price: Price,
    /// The chance that its host is preempted.
    pub interruption: Probability,
    /// What can be used of it.
    pub allocatable: Resources,
    /// Whatever else can be matched.
    pub labels: BTreeMap<String, String>,
}

closed_set! {
    /// How capacity is paid for.
    "capacity type" CapacityType {
        /// It is there anyhow.
        BareMetal = "bare-metal",
        /// It was paid for in advance.
        Reserved = "reserved",
        /// It is paid for while it exists.
        OnDemand = "on-demand",
        /// It is cheap and may be preempted.
        Spot = "spot",
    }
}

/// A host, as its provider calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Host {
    pub provider: String,
    /// What it is called there.
    pub reference: String,
}

/// What a provider names that is not ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    pub cluster: ClusterId,
    /// The host that is bound to it.
    pub host: Host,
}

/// Where a machine is. A binding exists in the bound states and in what failed out of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Nothing of it exists.
    Speculative,
    /// Its host is being made.
    Creating,
    /// Its host exists and is unused.
    Idle {
        /// The host.
        host: Host,
        /// The command that was withdrawn; the request may still arrive.
        asked: Option<Binding>,
    },
    /// It is joining a cluster.
    Configuring {
        /// The host.
        host: Host,
        /// The cluster and the need.
        binding: Binding,
    },
    /// It is a node of its cluster.
    Configured {
        /// The host.
        host: Host,
        /// The cluster and the need.
        binding: Binding,
    },
    /// It is being drained from its cluster.
    Draining {
        /// The host.
        host: Host,
        /// The cluster and the need, until it has left.
        binding: Binding,
    },
    /// Its host is being given back.
    Deleting {
        /// The host; a machine that failed before it had one is deleted, too.
        host: Option<Host>,
        /// The command that was withdrawn; the request may still arrive.
        asked: Option<Binding>,
    },
    /// Its provider gave up on it.
    Failed {
        /// What may be left of its host.
        host: Option<Host>,
        /// What may be left of its binding.
        binding: Option<Binding>,
        /// What the provider said.
        error: String,
    },
    /// Its provider does not know it any more.
    Gone,
}

/// What shall become of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The aim.
    pub target: Target,
    /// How long the eviction of its pods may take.
    pub grace: Duration,
}

/// The aim of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// To be a node of this cluster.
    Bind(Binding),
    /// To belong to no cluster, with or without a host.
    Unbound,
    /// To cost nothing.
    Release,
}

/// How long each passing phase may last before its command is repeated, and how long a failed
/// machine is left alone before it is cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For `Creating`.
    pub create: Duration,
    /// For `Configuring`.
    pub configure: Duration,
    /// For `Draining`, beyond the grace.
    pub drain: Duration,
    /// For `Deleting`.
    pub delete: Duration,
    /// For `Failed`.
    pub failed: Duration,
    /// For `Failed`, once its holder says that it is unused.
    pub released: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            create: Duration::from_mins(10),
            configure: Duration::from_mins(10),
            drain: Duration::from_mins(15),
            delete: Duration::from_mins(10),
            failed: Duration::from_mins(10),
            released: Duration::from_secs(1),
        }
    }
}

/// A machine whose invariants hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    fields: Fields,
}

impl State {
    /// The phase that it is a state of.
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Speculative => Phase::Speculative,
            Self::Creating => Phase::Creating,
            Self::Idle { .. } => Phase::Idle,
            Self::Configuring { .. } => Phase::Configuring,
            Self::Configured { .. } => Phase::Configured,
            Self::Draining { .. } => Phase::Draining,
            Self::Deleting { .. } => Phase::Deleting,
            Self::Failed { .. } => Phase::Failed,
            Self::Gone => Phase::Gone,
        }
    }

    /// The host, where there is one.
    pub const fn host(&self) -> Option<&Host> {
        match self {
            Self::Speculative | Self::Creating | Self::Gone => None,
            Self::Idle { host, .. }
            | Self::Configuring { host, .. }
            | Self::Configured { host, .. }
            | Self::Draining { host, .. } => Some(host),
            Self::Deleting { host, .. } | Self::Failed { host, .. } => host.as_ref(),
        }
    }

    /// The binding, where there is one.
    pub const fn binding(&self) -> Option<&Binding> {
        match self {
            Self::Configuring { binding, .. }
            | Self::Configured { binding, .. }
            | Self::Draining { binding, .. } => Some(binding),
            Self::Failed { binding, .. } => binding.as_ref(),
            Self::Speculative
            | Self::Creating
            | Self::Idle { .. }
            | Self::Deleting { .. }
            | Self::Gone => None,
        }
    }

    /// Why it failed.
    pub const fn error(&self) -> Option<&str> {
        if let Self::Failed { error, .. } = self { Some(error.as_str()) } else { None }
    }

    /// The withdrawn command of an unbound machine.
    pub const fn asked(&self) -> Option<&Binding> {
        match self {
            Self::Idle { asked, .. } | Self::Deleting { asked, .. } => asked.as_ref(),
            Self::Speculative
            | Self::Creating
            | Self::Configuring { .. }
            | Self::Configured { .. }
            | Self::Draining { .. }
            | Self::Failed { .. }
            | Self::Gone => None,
        }
    }
}

impl Offering {
    /// The offer as it was last read.
    pub const fn known(&self) -> Option<&Offer> {
        match self {
            Self::Read(offer) | Self::Kept(offer) => Some(offer),
            Self::Unread => None,
        }
    }

    /// Whether the last record could be read.
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    /// What is known once another record was read.
    #[must_use]
    pub fn after(&self, offer: Option<&Offer>) -> Self {
        match (offer, self) {
            (Some(offer), _) => Self::Read(offer.clone()),
            (None, Self::Read(offer) | Self::Kept(offer)) => Self::Kept(offer.clone()),
            (None, Self::Unread) => Self::Unread,
        }
    }
}

impl Wanted {
    /// A target with the usual grace.
    pub const fn of(target: Target) -> Self {
        Self { target, grace: Duration::from_mins(10) }
    }

    /// The declared cluster, if any.
    pub const fn cluster(&self) -> Option<&ClusterId> {
        match &self.target {
            Target::Bind(binding) => Some(&binding.cluster),
            Target::Unbound | Target::Release => None,
        }
    }
}

impl Machine {
    /// A stored row; one that breaks the invariants is refused here and not found out later.
    pub fn hydrate(fields: Fields) -> Result<Self, Refusal> {
        match first_offence(&fields) {
            Some(what) => Err(Refusal::InvalidInput(what)),
            None => Ok(Self { fields }),
        }
    }

    /// Everything, for storing and showing.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The provider's name for it.
    pub const fn id(&self) -> &MachineId {
        &self.fields.id
    }

    /// Where it is.
    pub const fn state(&self) -> &State {
        &self.fields.state
    }

    pub const fn phase(&self) -> Phase {
        self.fields.state.phase()
    }

    /// What shall become of it.
    pub const fn wanted(&self) -> &Wanted {
        &self.fields.wanted
    }

    /// Its one name in the identity ledger.
    pub fn name(&self) -> Name {
        Name {
            kind: KIND_MACHINE.to_owned(),
            place: self.fields.provider.clone(),
            name: self.fields.id.to_string(),
            generation: Generation::FIRST,
        }
    }

    /// The row of its name, written together with the machine.
    pub fn intended(&self, now: Timestamp) -> Row {
        Row::intended(self.name(), "usher", now)
    }

    /// The facts of the row.
    pub fn facts(&self, deadlines: &Deadlines, now: Timestamp) -> RowFacts {
        let bound = self.fields.state.binding().map(|it| &it.cluster);
        let hold = match (&self.fields.disputed, self.fields.holder) {
            (Some(_), _) => Hold::Disputed,
            (None, Some(_)) => Hold::Held,
            (None, None) => Hold::Free,
        };
        RowFacts {
            phase: self.phase(),
            want: match &self.fields.wanted.target {
                Target::Bind(it) if bound.is_some_and(|bound| *bound != it.cluster) => Want::Rebind,
                Target::Bind(_) => Want::Bind,
                Target::Unbound => Want::Unbound,
                Target::Release => Want::Release,
            },
            command: self.fields.command,
            pace: if self.is_overdue(deadlines, now) { Pace::Overdue } else { Pace::InTime },
            hold,
        }
    }

    fn is_overdue(&self, deadlines: &Deadlines, now: Timestamp) -> bool {
        now > self.deadline(deadlines)
    }

    /// When the command of its phase is repeated.
    pub fn deadline(&self, deadlines: &Deadlines) -> Timestamp {
        let deadline = match self.phase() {
            Phase::Creating => deadlines.create,
            Phase::Configuring => deadlines.configure,
            Phase::Draining => deadlines.drain.saturating_add(self.fields.wanted.grace),
            Phase::Deleting => deadlines.delete,
            Phase::Failed if self.fields.holder.is_some() => deadlines.released,
            Phase::Failed => deadlines.failed,
            Phase::Speculative | Phase::Idle | Phase::Configured | Phase::Gone => Duration::MAX,
        };
        self.fields.phase_since.max(self.fields.commanded_at).after(deadline)
    }

    /// The row with another aim. A machine that is bound to the declared cluster serves the
    /// declared need from now on; the provider gets no command for that.
    #[must_use]
    pub fn aimed(&self, wanted: Wanted) -> Self {
        let mut next = self.clone();
        if let Target::Bind(wanted) = &wanted.target
            && let State::Configuring { binding, .. } | State::Configured { binding, .. } =
                &mut next.fields.state
            && binding.cluster == wanted.cluster
        {
            binding.assignment = wanted.assignment.clone();
        }
        next.fields.wanted = wanted;
        next
    }

    /// The row with these fields changed. Only commands that keep the invariants are recorded.
    pub(super) fn changed(&self, change: impl FnOnce(&mut Fields)) -> Self {
        let mut next = self.clone();
        change(&mut next.fields);
        next
    }
}

fn first_offence(fields: &Fields) -> Option<&'static str> {
    let phase = fields.state.phase();
    let ordered = fields.command != CommandState::None;
    let silent = matches!(&fields.state, State::Failed { error, .. } if error.is_empty());
    let rules = [
        (fields.provider.trim().is_empty(), "provider"),
        (fields.holder.is_some_and(ResourceId::is_zero), "holder"),
        (fields.offer.known().is_some_and(|it| it.instance_type.is_empty()), "instance_type"),
        (fields.phase_since == Timestamp::ZERO, "phase_since"),
        (ordered && !phase.is_passing() && phase != Phase::Failed, "command"),
        (ordered && fields.token == Token::default(), "token"),
        (silent, "error"),
    ];
    rules.into_iter().find_map(|(broken, what)| broken.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::fixture::{NOW, START, binding, cluster, host, machine};

    // Requirement: F-41
    #[test]
    fn a_row_that_breaks_a_rule_is_refused_by_field() {
        type Bend = fn(&mut Fields);
        let bends: [(&str, Bend); 7] = [
            ("provider", |it| it.provider = " ".to_owned()),
            ("holder", |it| it.holder = Some(ResourceId::from_uuid(uuid::Uuid::nil()))),
            ("instance_type", |it| {
                let offer = it.offer.known().unwrap().clone();
                it.offer = Offering::Read(Offer { instance_type: String::new(), ..offer });
            }),
            ("phase_since", |it| it.phase_since = Timestamp::ZERO),
            ("command", |it| it.command = CommandState::Recorded),
            ("token", |it| {
                it.state = State::Creating;
                it.command = CommandState::Sent;
                it.token = Token::default();
            }),
            ("error", |it| {
                it.state = State::Failed { host: None, binding: None, error: String::new() };
            }),
        ];
        for (what, bend) in bends {
            let mut fields = machine(|_| ()).fields().clone();
            bend(&mut fields);
            assert_eq!(Machine::hydrate(fields), Err(Refusal::InvalidInput(what)));
        }
    }

    // Requirement: F-6
    #[test]
    fn another_need_of_the_same_cluster_is_served_without_a_verb() {
        let it = machine(|it| it.state = State::Configured { host: host(), binding: binding("a") });
        let mut other = binding("a");
        other.assignment.priority = 9;
        let aimed = it.aimed(Wanted::of(Target::Bind(other.clone())));
        assert_eq!(aimed.state().binding(), Some(&other));
        let elsewhere = it.aimed(Wanted::of(Target::Bind(binding("b"))));
        assert_eq!(elsewhere.state().binding(), Some(&binding("a")), "it has not moved yet");
        assert_eq!(elsewhere.wanted().cluster(), Some(&cluster("b")));
        assert_eq!(elsewhere.facts(&Deadlines::default(), NOW).want, Want::Rebind);
    }

    // Requirement: F-14
    #[test]
    fn a_deadline_counts_from_the_last_command() {
        let deadlines = Deadlines::default();
        let it = machine(|it| it.state = State::Creating);
        let late = START.after(deadlines.create);
        assert_eq!(it.facts(&deadlines, late).pace, Pace::InTime);
        let later = late.after(Duration::from_millis(1));
        assert_eq!(it.facts(&deadlines, later).pace, Pace::Overdue);
        let again = it.changed(|it| it.commanded_at = late);
        assert_eq!(again.facts(&deadlines, later).pace, Pace::InTime);
        let idle = machine(|_| ());
        assert_eq!(idle.facts(&deadlines, Timestamp::from_micros(i64::MAX)).pace, Pace::InTime);
    }

    // Requirement: F-14
    #[test]
    fn a_drain_may_take_its_grace_and_more() {
        let deadlines = Deadlines::default();
        let it = machine(|it| {
            it.state = State::Draining { host: host(), binding: binding("a") };
            it.wanted.grace = Duration::from_mins(30);
        });
        let grace = START.after(deadlines.drain).after(Duration::from_mins(30));
        assert_eq!(it.deadline(&deadlines), grace);
    }
}
