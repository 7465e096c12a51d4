//! The list of behaviours. Ids are never reused or removed.

use std::fmt;
use std::str::FromStr;

/// A set of behaviours that a provider claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Every provider.
    Core,
    /// Machines can be deleted.
    Cloud,
    /// Machines cannot be deleted.
    BareMetal,
    /// Machines may be interrupted.
    Spot,
    /// Thousands of machines.
    Scale,
    /// The state survives a crash.
    Durable,
    /// The substrate fails.
    Fault,
    /// Failed machines are cleaned up through Usher's own service.
    Salvage,
}

/// A group of behaviours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// States and their order.
    Lifecycle,
    /// Verbs in the wrong state.
    Matrix,
    /// Tokens.
    Fencing,
    /// Concurrent calls.
    Concurrency,
    /// The metadata of a binding.
    Metadata,
    /// A failing substrate.
    Failure,
    /// The fields of a machine.
    Shape,
    /// Lists and cursors.
    Listing,
    /// Crashes.
    Durability,
    /// Many machines.
    Scale,
    /// Random walks.
    Property,
    /// Leaving FAILED.
    Salvage,
}

/// One behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The number in its id, as in B101.
    pub id: u16,
    /// What must hold.
    pub title: &'static str,
    /// Its area.
    pub area: Area,
    /// Whether it needs machines that can be deleted.
    pub deletes: bool,
    /// The profile that requires it.
    pub profile: Profile,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 8] = [
        Self::Core,
        Self::Cloud,
        Self::BareMetal,
        Self::Spot,
        Self::Scale,
        Self::Durable,
        Self::Fault,
        Self::Salvage,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cloud => "cloud",
            Self::BareMetal => "bare-metal",
            Self::Spot => "spot",
            Self::Scale => "scale",
            Self::Durable => "durable",
            Self::Fault => "fault",
            Self::Salvage => "salvage",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| format!("unknown profile \"{text}\": use one of {}", known()))
    }
}

impl Area {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Matrix => "matrix",
            Self::Fencing => "fencing",
            Self::Concurrency => "concurrency",
            Self::Metadata => "metadata",
            Self::Failure => "failure",
            Self::Shape => "shape",
            Self::Listing => "listing",
            Self::Durability => "durability",
            Self::Scale => "scale",
            Self::Property => "property",
            Self::Salvage => "salvage",
        }
    }

    const fn of(id: u16) -> Self {
        match id / 100 {
            1 => Self::Lifecycle,
            2 => Self::Matrix,
            3 => Self::Fencing,
            4 => Self::Concurrency,
            5 => Self::Metadata,
            7 => Self::Failure,
            8 => Self::Shape,
            9 => Self::Listing,
            10 => Self::Durability,
            11 => Self::Scale,
            12 => Self::Property,
            _ => Self::Salvage,
        }
    }

    const fn profile(self) -> Profile {
        match self {
            Self::Failure => Profile::Fault,
            Self::Durability => Profile::Durable,
            Self::Scale => Profile::Scale,
            Self::Salvage => Profile::Salvage,
            Self::Lifecycle
            | Self::Matrix
            | Self::Fencing
            | Self::Concurrency
            | Self::Metadata
            | Self::Shape
            | Self::Listing
            | Self::Property => Profile::Core,
        }
    }
}

/// Every behaviour, in order.
pub fn list() -> impl Iterator<Item = Behaviour> {
    TITLES.iter().map(|(id, title)| {
        let area = Area::of(*id);
        let deletes = DELETES.contains(id);
        Behaviour { id: *id, title, area, deletes, profile: area.profile() }
    })
}

/// Behaviours that need machines that can be deleted.
const DELETES: [u16; 10] = [109, 204, 215, 310, 409, 807, 1301, 1302, 1303, 1304];

/// Ids up to B1205 are the public protocol's; the rest are ours.
const TITLES: [(u16, &str); 97] = [
    (101, "four round trips leave nothing behind"),
    (103, "during Configure a machine is CONFIGURING and nothing else"),
    (104, "during Drain a machine is DRAINING and nothing else"),
    (105, "state transitions follow the state machine"),
    (106, "the cluster is set while bound and empty after"),
    (107, "a machine has a host exactly in the states that need one"),
    (108, "a machine in a stable state does not change by itself"),
    (109, "Delete passes through DELETING and removes the host"),
    (201, "Create of a bound machine is refused"),
    (202, "Configure of a slot is refused"),
    (203, "Drain of an idle machine changes nothing"),
    (204, "Delete of a bound machine is refused"),
    (205, "a verb in its target state succeeds without effect"),
    (206, "a repeated verb has the same operation id"),
    (207, "an unknown machine is not found"),
    (208, "an empty id is an invalid argument"),
    (209, "half a MiB of metadata is echoed or refused as invalid"),
    (210, "a negative grace period is refused or treated as zero"),
    (211, "negative epochs and sequences are ordered like others"),
    (212, "the largest token is accepted and fences all others"),
    (213, "a blob of 3 MiB is accepted or refused as too large"),
    (214, "a new cycle has new operation ids"),
    (215, "Get and Delete of an unknown machine are not found"),
    (301, "the fence comes before not-found"),
    (302, "fence marks are kept per shard and machine"),
    (303, "tokens are ordered by epoch, then by sequence"),
    (305, "reads are never fenced"),
    (306, "the fence comes before idempotency on Configure"),
    (307, "the fence comes before idempotency on Drain"),
    (308, "a request without a token passes"),
    (309, "rising tokens of one shard are accepted"),
    (310, "a new epoch fences calls of the old one"),
    (311, "a refused verb still raises the mark"),
    (312, "random tokens match a reference model"),
    (401, "sixteen concurrent Creates have one operation id"),
    (402, "sixteen concurrent Configures have one operation id"),
    (403, "sixteen concurrent Drains have one operation id"),
    (404, "Configure racing Drain ends in one state"),
    (405, "an old epoch never wins against a new one"),
    (406, "two connections see the same state"),
    (407, "eight concurrent machines have eight operation ids"),
    (408, "no read shows a half-applied change"),
    (409, "concurrent Deletes have one operation id"),
    (501, "unusual metadata are returned byte for byte"),
    (502, "metadata are cleared by Drain and replaced whole"),
    (503, "two MiB of metadata are echoed or refused as invalid"),
    (504, "metadata are visible as soon as Configure is accepted"),
    (505, "a repeated Configure does not change the metadata"),
    (701, "a failed Configure ends FAILED with its error"),
    (702, "a failed Create ends FAILED with its error"),
    (703, "a verb that times out ends FAILED"),
    (704, "a success after the timeout changes nothing"),
    (705, "no public verb leaves FAILED, and its error stays"),
    (706, "a failed Drain without grace ends FAILED and unbound"),
    (707, "a failed machine can be read and does not change"),
    (708, "no machine is CONFIGURED before its node is ready"),
    (801, "state and instance type are fields, not labels"),
    (802, "prices and interruption probabilities are valid numbers"),
    (803, "host and cluster agree with the state"),
    (804, "quantities parse as Kubernetes quantities"),
    (805, "all hosts name the same provider"),
    (806, "every host has a capacity type and a zone"),
    (807, "Delete clears host, cluster and metadata"),
    (901, "a list filtered by state has exactly those machines"),
    (902, "max_results is respected, and zero means no limit"),
    (903, "a change is in the next delta"),
    (904, "an unchanged fleet has an empty delta"),
    (905, "cursors only go forward"),
    (906, "an invalid cursor gives the full list"),
    (907, "pages neither repeat nor skip a machine"),
    (908, "no revision without a request"),
    (909, "an altered cursor is invalid"),
    (1001, "fence marks survive a crash"),
    (1002, "operation ids survive a crash"),
    (1003, "bindings and metadata survive a crash"),
    (1004, "the inventory is the same after a crash"),
    (1005, "cursors survive a crash, and operation ids are not reused"),
    (1006, "interrupted verbs reach a stable state after a crash"),
    (1007, "a shard that is new after a crash is accepted"),
    (1101, "a full list is complete and well formed"),
    (1102, "the delta after twenty changes is exact"),
    (1103, "pages of five hundred are complete"),
    (1104, "churn leaves nothing behind"),
    (1105, "the number of machines does not change"),
    (1106, "reads and verbs meet their latency limits"),
    (1107, "a full list meets its latency limit"),
    (1108, "concurrent Creates have distinct operation ids"),
    (1109, "untouched machines do not change"),
    (1201, "a long random sequence of tokens matches a reference model"),
    (1202, "random metadata are returned unchanged"),
    (1203, "random sequences of verbs follow the state machine"),
    (1204, "interleaved shards do not affect each other"),
    (1205, "malformed requests get the right codes"),
    (1301, "a salvaged machine is clean and can be created again"),
    (1302, "Salvage of a machine that did not fail is refused"),
    (1303, "concurrent Salvages have one operation id"),
    (1304, "the fence comes before Salvage"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviour_ids_are_unique_and_counted_per_area() {
        let ids: std::collections::BTreeSet<u16> = list().map(|it| it.id).collect();
        assert_eq!(ids.len(), 97);
        assert_eq!(list().filter(|it| it.profile != Profile::Salvage).count(), 93);
        let count = |area| list().filter(|it| it.area == area).count();
        let areas = [
            (Area::Lifecycle, 8),
            (Area::Matrix, 15),
            (Area::Fencing, 11),
            (Area::Concurrency, 9),
            (Area::Metadata, 5),
            (Area::Failure, 8),
            (Area::Shape, 7),
            (Area::Listing, 9),
            (Area::Durability, 7),
            (Area::Scale, 9),
            (Area::Property, 5),
            (Area::Salvage, 4),
        ];
        for (area, expected) in areas {
            assert_eq!(count(area), expected, "{}", area.as_str());
        }
    }

    #[test]
    fn profiles_parse_from_their_names() {
        for profile in Profile::ALL {
            assert_eq!(profile.as_str().parse(), Ok(profile));
        }
        assert!("everything".parse::<Profile>().is_err());
    }
}
