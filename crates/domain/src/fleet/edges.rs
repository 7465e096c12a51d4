//! Machines and their providers, synchronous and staged: whatever message is lost, every edge
//! ends in the right state with the right binding.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use super::accept::{Raw, Report, adopt};
use super::aggregate::{Machine, State, Target, Wanted};
use super::binding::{Assignment, Binding};
use super::effect::{Effect, Verb};
use super::event::Event;
use super::facts::CommandState;
use super::issue::{Issuer, Token};
use super::observe::fold;
use super::phase::Phase;
use super::reconciler::MachineReconciler;
use super::snapshot::{Listing, Snapshot, Source};
use usher_kernel::{Decision, Lifecycle, NameLedger, Record, Timestamp, Version};

const NOW: Timestamp = Timestamp::from_millis(60_000);

/// How a provider works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Its answer shows the end.
    Synchronous,
    /// Its answer shows the beginning; the end comes later.
    Staged,
}

/// What goes wrong on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Nothing,
    AcknowledgementLost,
    StaleList,
    Restart,
}

const MISHAPS: [Mishap; 4] =
    [Mishap::Nothing, Mishap::AcknowledgementLost, Mishap::StaleList, Mishap::Restart];

/// The four edges: where each begins, what is declared, the phases it passes and ends in.
fn edges() -> [(Phase, Target, [Phase; 2]); 4] {
    [
        (Phase::Speculative, Target::Bind(binding()), [Phase::Creating, Phase::Idle]),
        (Phase::Idle, Target::Bind(binding()), [Phase::Configuring, Phase::Configured]),
        (Phase::Configured, Target::Unbound, [Phase::Draining, Phase::Idle]),
        (Phase::Idle, Target::Release, [Phase::Deleting, Phase::Speculative]),
    ]
}

fn binding() -> Binding {
    let assignment =
        Assignment { priority: 7, fingerprint: "f".to_owned(), ..Assignment::default() };
    Binding { cluster: "a".parse().unwrap(), assignment }
}

/// A provider of one machine, with a fence, that counts what it began.
struct Provider {
    mode: Mode,
    phase: Phase,
    cluster: String,
    metadata: BTreeMap<String, String>,
    mark: Token,
    begun: u32,
}

impl Provider {
    fn new(mode: Mode, phase: Phase) -> Self {
        let bound = phase.is_bound();
        let cluster = if bound { "a".to_owned() } else { String::new() };
        let metadata = if bound { binding().assignment.encode() } else { BTreeMap::new() };
        Self { mode, phase, cluster, metadata, mark: Token::default(), begun: 0 }
    }

    fn show(&self) -> Report {
        let hosted = !matches!(self.phase, Phase::Speculative | Phase::Creating);
        let raw = Raw {
            id: "m1".to_owned(),
            state: i32::try_from(self.phase as usize).unwrap() + 1,
            host: hosted.then(|| ("p".to_owned(), "h1".to_owned())),
            instance_type: "small".to_owned(),
            zone: "z1".to_owned(),
            capacity_type: 3,
            cluster: self.cluster.clone(),
            shard_metadata: self.metadata.clone(),
            ..Raw::default()
        };
        Report::read(&raw).unwrap()
    }

    /// Answers with the record, or not at all if the token is not newer.
    fn receive(&mut self, effect: &Effect) -> Option<Report> {
        if effect.token <= self.mark {
            return None;
        }
        self.mark = effect.token;
        let (from, to) = match &effect.verb {
            Verb::Create => (Phase::Speculative, Phase::Creating),
            Verb::Configure { .. } => (Phase::Idle, Phase::Configuring),
            Verb::Drain { .. } => (Phase::Configured, Phase::Draining),
            Verb::Delete => (Phase::Idle, Phase::Deleting),
            Verb::Salvage => (Phase::Failed, Phase::Deleting),
        };
        if self.phase == from {
            self.begun += 1;
            self.phase = to;
            if let Verb::Configure { cluster, metadata } = &effect.verb {
                self.cluster = cluster.to_string();
                self.metadata.clone_from(metadata);
            }
            if self.mode == Mode::Synchronous {
                self.complete();
            }
        }
        Some(self.show())
    }

    fn complete(&mut self) {
        self.phase = self.phase.goal().unwrap_or(self.phase);
        if !self.phase.is_bound() {
            self.cluster = String::new();
            self.metadata = BTreeMap::new();
        }
    }
}

/// A row, its provider and its shard.
struct Shard {
    row: Machine,
    provider: Provider,
    issuer: Issuer,
    events: Vec<Event>,
    /// The answer to the last verb, until a snapshot picks it up.
    mail: Option<(Token, Report)>,
}

impl Shard {
    fn new(mode: Mode, phase: Phase) -> Self {
        let provider = Provider::new(mode, phase);
        let shard = "shard-0".parse().unwrap();
        let row = adopt(&provider.show(), "p", &shard, NOW).unwrap().machine;
        Self { row, provider, issuer: Issuer::new(1), events: vec![], mail: None }
    }

    /// A snapshot from a pending answer, or from a Get.
    fn snapshot(&mut self) -> Snapshot {
        let stamp = self.issuer.stamp_for(self.row.fields().token);
        match self.mail.take() {
            Some((token, report)) => self.snapshot_of(Source::Acknowledgement, token, report),
            None => self.snapshot_of(Source::Get, stamp, self.provider.show()),
        }
    }

    fn snapshot_of(&mut self, source: Source, stamp: Token, report: Report) -> Snapshot {
        Snapshot {
            by: "p".to_owned(),
            at: NOW,
            source,
            stamp,
            reading: Ok(Some(Ok(report))),
            listing: Listing::Lacks,
            paused: false,
            superseded: false,
            fresh: self.issuer.reserve(),
        }
    }

    fn decide(&self, snapshot: &Snapshot) -> Decision<MachineReconciler> {
        let name_ledger = NameLedger::new([self.row.intended(NOW)]);
        let record = Record { version: Version(1), state: self.row.clone(), name_ledger };
        MachineReconciler::default().decide(&record, &fold(&self.row, snapshot), NOW)
    }

    fn commit(&mut self, snapshot: &Snapshot, decision: Decision<MachineReconciler>) {
        let fields = decision.next.fields();
        if fields.token != snapshot.fresh || fields.command != CommandState::Recorded {
            self.issuer.settle(snapshot.fresh);
        }
        self.events.extend(decision.event);
        self.row = decision.next;
    }

    /// One step; the answer to its verb is kept for the next snapshot.
    fn step(&mut self) {
        let snapshot = self.snapshot();
        let decision = self.decide(&snapshot);
        if let Some(effect) = &decision.effect {
            self.mail = self.provider.receive(effect).map(|report| (effect.token, report));
            self.issuer.settle(effect.token);
        }
        self.commit(&snapshot, decision);
    }

    /// Steps until the row is in this phase.
    fn reach(&mut self, phase: Phase) -> bool {
        for _ in 0..12 {
            if self.row.phase() == phase && self.row.fields().command == CommandState::None {
                return true;
            }
            self.step();
            self.provider.complete();
        }
        false
    }
}

/// Runs one edge with one injected fault and returns what is wrong at its end.
fn live(mode: Mode, edge: usize, mishap: Mishap) -> Result<(), String> {
    let (start, target, [passing, end]) = edges()[edge].clone();
    let mut shard = Shard::new(mode, start);
    shard.row = shard.row.aimed(Wanted::of(target));
    shard.step();
    if shard.row.phase() != passing || shard.provider.phase != start {
        return Err("the command is not recorded before it is sent".to_owned());
    }
    let stale = (shard.issuer.stamp(), shard.provider.show());
    if mishap == Mishap::Restart {
        // The worker dies after the verb and before the commit; a new epoch takes over.
        let snapshot = shard.snapshot();
        let effect = shard.decide(&snapshot).effect.ok_or("no verb")?;
        shard.provider.receive(&effect);
        shard.issuer = Issuer::new(2);
        shard.mail = None;
    } else {
        shard.step();
    }
    if mishap == Mishap::AcknowledgementLost {
        shard.mail = None;
    }
    if mishap == Mishap::StaleList {
        let before = shard.row.clone();
        let snapshot = shard.snapshot_of(Source::List, stale.0, stale.1);
        let decision = shard.decide(&snapshot);
        if decision.next != before || decision.effect.is_some() {
            return Err("a stale list was merged".to_owned());
        }
        shard.issuer.settle(snapshot.fresh);
    }
    if mode == Mode::Staged && mishap == Mishap::Nothing {
        shard.step();
        if shard.row.phase() != passing {
            return Err("a transitional answer ended the phase".to_owned());
        }
    }
    if !shard.reach(end) {
        return Err(format!("stuck in {}", shard.row.phase()));
    }
    judge(&shard, start, passing, end)
}

fn judge(shard: &Shard, start: Phase, passing: Phase, end: Phase) -> Result<(), String> {
    let emitted: Vec<(Phase, Phase)> = shard.events.iter().map(|it| (it.from, it.to)).collect();
    if emitted != [(start, passing), (passing, end)] {
        return Err(format!("emitted {emitted:?}"));
    }
    if shard.provider.begun != 1 {
        return Err(format!("begun {} times", shard.provider.begun));
    }
    let bound = (end == Phase::Configured).then(binding);
    if shard.row.state().binding() != bound.as_ref() {
        return Err(format!("bound to {:?}", shard.row.state().binding()));
    }
    if shard.provider.phase != end || shard.provider.cluster.is_empty() != bound.is_none() {
        return Err(format!("the provider is {}", shard.provider.phase));
    }
    Ok(())
}

// Requirement: F-2
#[test]
fn every_edge_ends_right_whatever_message_is_lost() {
    let mut lived = 0;
    let mut table = String::new();
    for mode in [Mode::Synchronous, Mode::Staged] {
        for (edge, verb) in ["Create", "Configure", "Drain", "Delete"].iter().enumerate() {
            for mishap in MISHAPS {
                let outcome = live(mode, edge, mishap);
                let (how, what) = (format!("{mode:?}"), format!("{mishap:?}"));
                let _ = writeln!(table, "{how:<13}{verb:<11}{what:<21}{outcome:?}");
                assert_eq!(outcome, Ok(()), "{mode:?} {verb} {mishap:?}");
                lived += 1;
            }
        }
    }
    let _ = writeln!(table, "fleet table: {lived} cells, each ends in its state with its binding");
    std::io::stdout().write_all(table.as_bytes()).unwrap();
    assert_eq!(lived, 32);
}

/// The phases of a machine whose every verb is done when it is answered.
fn reference() -> [(Phase, Target, State, Option<&'static str>); 8] {
    let host = super::aggregate::Host { provider: "p".to_owned(), reference: "h1".to_owned() };
    let bind = || Target::Bind(binding());
    let idle = State::Idle { host: host.clone(), asked: None };
    let configuring = State::Configuring { host: host.clone(), binding: binding() };
    let configured = State::Configured { host: host.clone(), binding: binding() };
    let draining = State::Draining { host: host.clone(), binding: binding() };
    let deleting = State::Deleting { host: Some(host), asked: None };
    [
        (Phase::Speculative, bind(), State::Creating, None),
        (Phase::Creating, bind(), idle.clone(), None),
        (Phase::Idle, bind(), configuring, Some("a")),
        (Phase::Configuring, bind(), configured, Some("a")),
        (Phase::Configured, Target::Release, draining, Some("a")),
        (Phase::Draining, Target::Release, idle, Some("a")),
        (Phase::Idle, Target::Release, deleting, None),
        (Phase::Deleting, Target::Release, State::Speculative, None),
    ]
}

// Requirement: F-3
#[test]
fn a_synchronous_provider_is_followed_as_if_nothing_were_ever_late() {
    let mut shard = Shard::new(Mode::Synchronous, Phase::Speculative);
    for (from, target, state, cluster) in reference() {
        shard.row = shard.row.aimed(Wanted::of(target));
        let emitted = shard.events.len();
        for _ in 0..2 {
            if shard.events.len() == emitted {
                shard.step();
            }
        }
        assert_eq!(shard.row.state(), &state, "after {from}");
        let event = shard.events.last().unwrap();
        assert_eq!((event.from, event.to), (from, state.phase()));
        assert_eq!(event.cluster.as_ref().map(super::ident::ClusterId::as_str), cluster);
        assert_eq!(shard.events.len(), emitted + 1);
    }
    assert_eq!(shard.provider.begun, 4);
}

// Requirement: F-3
#[test]
fn a_staged_provider_leads_to_the_same_rows_and_events() {
    let of = |mode| {
        let mut shard = Shard::new(mode, Phase::Speculative);
        let mut rows = vec![];
        for (target, end) in
            [(Target::Bind(binding()), Phase::Configured), (Target::Release, Phase::Speculative)]
        {
            shard.row = shard.row.aimed(Wanted::of(target));
            assert!(shard.reach(end));
            rows.push(shard.row.state().clone());
        }
        (rows, shard.events)
    };
    assert_eq!(of(Mode::Synchronous), of(Mode::Staged));
}
