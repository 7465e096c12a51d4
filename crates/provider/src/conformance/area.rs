//! The behaviours by name. Ids are never reused, and none is taken away.

use std::fmt;
use std::str::FromStr;

/// What a provider says of itself, and is asked accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Every provider.
    Core,
    /// Machines can be given back.
    Cloud,
    /// Machines cannot be given back.
    BareMetal,
    /// Machines are taken away at will.
    Spot,
    /// Thousands of machines.
    Scale,
    /// What is known survives a crash.
    Durable,
    /// Substrates fail.
    Fault,
    /// What failed is taken away, by a service of our own beside the public one.
    Salvage,
}

/// What a behaviour is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Where machines are, and in which order.
    Lifecycle,
    /// Verbs where they do not belong.
    Matrix,
    /// Tokens.
    Fencing,
    /// Many at once.
    Concurrency,
    /// What is kept with a binding.
    Metadata,
    /// Substrates that fail.
    Failure,
    /// What a record must have.
    Shape,
    /// Lists and cursors.
    Listing,
    /// Crashes.
    Durability,
    /// Many machines.
    Scale,
    /// Random walks.
    Property,
    /// The way out of FAILED.
    Salvage,
}

/// One behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Its number, as in B101.
    pub id: u16,
    /// What must hold.
    pub title: &'static str,
    /// What it is about.
    pub area: Area,
    /// Whether it needs machines that can be given back.
    pub deletes: bool,
    /// The profile it is asked in.
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

    /// The word for it.
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
        found.ok_or_else(|| format!("cannot ask for \"{text}\": choose from {}", known()))
    }
}

impl Area {
    /// The word for it.
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

/// Those that need machines that can be given back.
const DELETES: [u16; 10] = [109, 204, 215, 310, 409, 807, 1301, 1302, 1303, 1304];

/// Those up to B1205 are the public ones; what follows is our own.
const TITLES: [(u16, &str); 97] = [
    (101, "four round trips leave nothing behind"),
    (103, "a machine that is being bound is seen CONFIGURING and nothing else"),
    (104, "a machine that is being taken out is seen DRAINING and nothing else"),
    (105, "only neighbouring states follow each other"),
    (106, "the cluster is set while bound and empty after"),
    (107, "the host is there exactly when the state says so"),
    (108, "what rests does not move by itself"),
    (109, "a machine that is given back is seen DELETING and loses its host"),
    (201, "Create of a bound machine is refused"),
    (202, "Configure of a slot is refused"),
    (203, "Drain of an idle machine changes nothing"),
    (204, "Delete out of position is refused"),
    (205, "a verb at its goal is a success without effect"),
    (206, "a repeated verb has the same operation id"),
    (207, "an unknown machine is not found"),
    (208, "an empty id is an invalid argument"),
    (209, "half a MiB of metadata is echoed or refused as invalid"),
    (210, "a negative grace neither breaks nor unbinds by halves"),
    (211, "a negative token is taken as a number"),
    (212, "the largest token is accepted and nothing passes it"),
    (213, "a blob of 3 MiB is accepted or refused as too large"),
    (214, "a new cycle has new operation ids"),
    (215, "an unknown machine is neither read nor given back"),
    (301, "the fence comes before not-found"),
    (302, "marks are kept per shard and per machine"),
    (303, "tokens are ordered by life, then by count"),
    (305, "reads are never fenced"),
    (306, "the fence comes before repetition on Configure"),
    (307, "the fence comes before repetition on Drain"),
    (308, "a question without a token passes"),
    (309, "the tokens of a session are accepted in order"),
    (310, "a new life fences the old one's calls"),
    (311, "a mark rises though the verb was refused"),
    (312, "random tokens are judged as by a plain oracle"),
    (401, "sixteen Creates at once have one operation id"),
    (402, "sixteen Configures at once have one operation id"),
    (403, "sixteen Drains at once have one operation id"),
    (404, "Configure against Drain ends in one state"),
    (405, "an old life never wins against a new one"),
    (406, "two connections see one machine"),
    (407, "eight machines at once have eight operation ids"),
    (408, "no acknowledgement shows half a machine"),
    (409, "Deletes at once have one operation id"),
    (501, "hostile metadata come back byte for byte"),
    (502, "metadata are cleared by Drain and replaced whole"),
    (503, "two MiB of metadata are echoed or refused as invalid"),
    (504, "metadata are seen as soon as Configure is accepted"),
    (505, "what a caller changes later changes nothing"),
    (701, "a failed Configure ends FAILED with its reason"),
    (702, "a failed Create ends FAILED with its reason"),
    (703, "a verb that takes too long ends FAILED"),
    (704, "a success that comes too late changes nothing"),
    (705, "nothing leaves FAILED, and its reason stays"),
    (706, "a failed Drain without grace ends FAILED, not bound"),
    (707, "what failed can be read and rests"),
    (708, "no machine is CONFIGURED before its node is ready"),
    (801, "state and instance type are fields, not labels"),
    (802, "prices and chances are numbers that make sense"),
    (803, "host and cluster agree with the state"),
    (804, "quantities can be read"),
    (805, "the provider of a host has one name"),
    (806, "capacity type and zone are known of every host"),
    (807, "Delete clears host, cluster and metadata"),
    (901, "a list of some states has exactly those"),
    (902, "a cap is respected, and none is no cap"),
    (903, "a change is in the next delta"),
    (904, "a quiet fleet has an empty delta"),
    (905, "cursors only go forward"),
    (906, "a cursor that is none gives the full list"),
    (907, "pages repeat nobody and skip nobody"),
    (908, "nothing changes without being asked"),
    (909, "an altered cursor is no cursor"),
    (1001, "marks survive a crash"),
    (1002, "operation ids survive a crash"),
    (1003, "bindings and metadata survive a crash"),
    (1004, "the inventory is the same after a crash"),
    (1005, "cursors work after a crash, and no operation id comes again"),
    (1006, "what a crash interrupted comes to rest"),
    (1007, "a shard that is new after a crash is heard"),
    (1101, "a full list is complete and well formed"),
    (1102, "the delta after twenty changes is exact"),
    (1103, "pages of five hundred are complete"),
    (1104, "churn leaves no residue"),
    (1105, "no machine is won or lost"),
    (1106, "reads and verbs are answered in time"),
    (1107, "a full list comes in time"),
    (1108, "Creates in parallel are distinct"),
    (1109, "what nobody touches does not drift"),
    (1201, "a long random walk of tokens is judged as by an oracle"),
    (1202, "random metadata make the round trip"),
    (1203, "random lives follow the rules"),
    (1204, "shards that interleave do not disturb each other"),
    (1205, "malformed requests have the right codes"),
    (1301, "a salvaged machine has nothing left and can be had again"),
    (1302, "Salvage of what did not fail is refused"),
    (1303, "Salvages at once have one operation id"),
    (1304, "the fence comes before Salvage"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_ninety_three_and_our_own_are_in_their_areas_with_ids_of_their_own() {
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
    fn a_profile_is_called_by_its_word() {
        for profile in Profile::ALL {
            assert_eq!(profile.as_str().parse(), Ok(profile));
        }
        assert!("everything".parse::<Profile>().is_err());
    }
}
