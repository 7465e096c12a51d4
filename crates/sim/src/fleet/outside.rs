//! The provider as it really is: it answers before it is done, forgets, and is used by others.

use std::collections::BTreeMap;

use usher_domain::fleet::accept::Raw;
use usher_domain::fleet::issue::Token;
use usher_domain::fleet::phase::Phase;

use crate::clock::Tick;

/// The cluster that another client binds machines to.
pub const ELSEWHERE: &str = "elsewhere";

/// A machine as its provider knows it.
#[derive(Clone, Debug)]
pub struct Actual {
    /// Its name.
    pub id: String,
    /// Which offer it is.
    pub kind: u8,
    /// What an hour costs at the moment.
    pub price: f64,
    /// How its provider treats it.
    pub treatment: Treatment,
    /// Where it is.
    pub phase: Phase,
    /// The number of its host.
    pub host: Option<u64>,
    /// The cluster it is bound to.
    pub cluster: String,
    /// The requested metadata, kept beside the binding.
    pub metadata: BTreeMap<String, String>,
    /// When what was begun ends; never, if it was forgotten.
    pub ends_at: Option<Tick>,
    /// Whether it ends in failure.
    pub ends_in_failure: bool,
    /// Whether it was removed.
    pub removed: bool,
    /// Everything it ever was.
    pub history: Vec<(Phase, String)>,
    /// Where in the history the last verb was accepted. A snapshot that began earlier is stale.
    pub floor: usize,
}

/// How a provider treats a machine.
#[derive(Clone, Copy, Debug)]
pub struct Treatment {
    /// Whether it works on it after the answer.
    pub staged: bool,
    /// Whether the provider cannot release the machine once it has failed.
    pub never_salvages: bool,
}

/// The provider.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Its machines.
    pub machines: Vec<Actual>,
    /// The newest token of each shard and machine.
    pub marks: BTreeMap<(usize, usize), Token>,
    /// Until when no request is answered.
    pub down_until: Tick,
    /// Until when everything seems absent.
    pub empty_until: Tick,
    /// What was answered to a verb, until its sender receives it.
    pub answers: BTreeMap<(usize, Token), Raw>,
    hosts: u64,
}

impl Actual {
    /// A machine of which nothing exists yet.
    pub fn new(id: String, kind: u8, treatment: Treatment) -> Self {
        Self {
            id,
            kind,
            price: [1.0, 0.2, 2.0][usize::from(kind.min(2))],
            treatment,
            phase: Phase::Speculative,
            host: None,
            cluster: String::new(),
            metadata: BTreeMap::new(),
            ends_at: None,
            ends_in_failure: false,
            removed: false,
            history: vec![(Phase::Speculative, String::new())],
            floor: 0,
        }
    }

    /// Moves it, and remembers that it did.
    pub fn put(&mut self, phase: Phase) {
        self.phase = phase;
        if !phase.is_bound() && phase != Phase::Failed {
            self.cluster = String::new();
            self.metadata = BTreeMap::new();
        }
        if matches!(phase, Phase::Speculative | Phase::Creating) {
            self.host = None;
        }
        self.history.push((phase, self.cluster.clone()));
    }

    /// What it shows on the wire.
    pub fn show(&self) -> Raw {
        let texts = |pairs: [(&str, &str); 1]| {
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        };
        // Not every provider says why.
        let says_why = self.phase == Phase::Failed && self.kind != 1;
        Raw {
            id: self.id.clone(),
            state: i32::try_from(self.phase as usize).unwrap_or(0) + 1,
            host: self.host.map(|it| ("p".to_owned(), format!("h{it}"))),
            instance_type: kind_name(self.kind).to_owned(),
            zone: "z1".to_owned(),
            capacity_type: [3, 4, 2][usize::from(self.kind.min(2))],
            price_per_hour: self.price,
            interruption_probability: if self.kind == 1 { 0.1 } else { 0.0 },
            resources: texts([("cpu", "4")]),
            allocatable: BTreeMap::new(),
            labels: BTreeMap::new(),
            last_error: if says_why { "it broke".to_owned() } else { String::new() },
            cluster: self.cluster.clone(),
            shard_metadata: self.metadata.clone(),
        }
    }

    /// Whether it was in this phase, with this cluster, since the last verb before `floor`.
    pub fn was(&self, floor: usize, phase: Phase, cluster: Option<&str>) -> bool {
        let since = self.history.iter().skip(floor);
        since.clone().any(|it| it.0 == phase && cluster.is_none_or(|cluster| it.1 == cluster))
    }
}

impl Outside {
    /// A new host.
    pub fn host(&mut self) -> u64 {
        self.hosts += 1;
        self.hosts
    }

    /// The machine with this name.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.machines.iter().position(|it| it.id == id)
    }

    /// Ends what was begun with a machine.
    pub fn complete(&mut self, machine: usize) {
        let it = &self.machines[machine];
        let goal = if it.ends_in_failure { Some(Phase::Failed) } else { it.phase.goal() };
        let host = (it.phase == Phase::Creating && !it.ends_in_failure).then(|| self.host());
        let it = &mut self.machines[machine];
        it.ends_at = None;
        it.ends_in_failure = false;
        if host.is_some() {
            it.host = host;
        }
        if let Some(goal) = goal {
            it.put(goal);
        }
    }
}

/// The instance type of an offer.
pub const fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "small",
        1 => "spot",
        _ => "metal",
    }
}
