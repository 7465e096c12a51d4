//! What the promises of a store are written with: declarations, steps, ends.

#![expect(clippy::expect_used, clippy::panic, reason = "a broken promise fails the test")]

use serde_json::Map;
use usher_domain::broker::accept::{self, Accepted, Minted, Provision};
use usher_domain::broker::aggregate::{Fields, Resource};
use usher_domain::broker::event::{Event, EventType, Outcome};
use usher_domain::broker::ledger::{
    Command, ConfigWrite, Held, Leased, Release, ResourceWrite, Stay, WorkItem,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{PeerId, ProviderConfigId, ResourceId, TenancyId};
use usher_domain::object::name;
use usher_domain::tokens::Request;
use usher_kernel::{Generation, NameState, Record, Row, Version, Wake};
use uuid::Uuid;

use super::port::{Port, ReadEvents};
use crate::broker::mesh::server_key;

/// The key that every agent brings.
const PUBLIC_KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// The reason of every step here.
const REASON: &str = "AsDeclared";

fn id(kind: u128, number: u128) -> Uuid {
    Uuid::from_u128(0x7000_0000_0000_7000_8000_0000_0000_0000 + (kind << 16) + number)
}

/// A resource that was not declared.
pub(super) const fn unknown() -> ResourceId {
    ResourceId::from_uuid(Uuid::from_u128(u128::MAX))
}

pub(super) fn work_item(resource: &Resource) -> WorkItem {
    WorkItem::Resource(resource.id())
}

pub(super) fn config_id(resource: &Resource) -> ProviderConfigId {
    resource.pinned().provider_config
}

/// A declaration by its number.
pub(super) fn command(port: &dyn Port, number: u128) -> Provision {
    let ids = port.ids();
    Provision {
        name: format!("node-{number}"),
        project: ids.project,
        blueprint_version: ids.blueprint_version,
        credential: ids.credential,
        parameters: Map::new(),
    }
}

/// The domain's answer to a declaration of this name and with these ids, by what the store shows.
pub(super) fn accepted(
    port: &mut dyn Port,
    (number, mint): (u128, u128),
) -> Result<Accepted, Refusal> {
    let command = command(port, number);
    let snapshot = port.snapshot(&command, None).expect("it answers");
    let minted = Minted {
        resource: ResourceId::from_uuid(id(1, mint)),
        tenancy: TenancyId::from_uuid(id(2, mint)),
        provider_config: ProviderConfigId::from_uuid(id(3, mint)),
        installation: port.ids().installation,
        api_url: "https://usher.example".parse().expect("a URL"),
        agent_image: "registry.example/usher:1".parse().expect("an image"),
    };
    accept::provision(&command, &snapshot.views, &minted, snapshot.now)
}

/// Declares a resource.
pub(super) fn declare(port: &mut dyn Port, number: u128) -> Resource {
    let accepted = accepted(port, (number, number + 100)).expect("it is accepted");
    let resource = accepted.resource.clone();
    port.accept(accepted, None).expect("nothing has moved");
    resource
}

/// Claims a due work item; leases of other workers expire.
pub(super) fn claim(port: &mut dyn Port, work_item: WorkItem) -> Leased {
    let leased = port.claim_due(64).expect("it answers").leased;
    leased.into_iter().find(|it| it.item == work_item).expect("it is due")
}

/// Whether a work item is leased, or could be.
pub(super) fn claim_or_leased(port: &mut dyn Port, work_item: WorkItem) -> bool {
    let batch = port.claim_due(64).expect("it answers");
    let entry = port.entry(work_item).expect("it answers").expect("it has a turn");
    batch.leased.iter().any(|it| it.item == work_item) || entry.lease_until.is_some()
}

/// The record of a leased resource.
pub(super) fn resource(leased: &Leased) -> &Record<Resource> {
    match &leased.record {
        Held::Resource(record) => record,
        Held::ProviderConfig(record) => panic!("{} is a ProviderConfig", record.state.id),
    }
}

/// A write of a resource with some of its fields changed.
fn bent(
    record: &Record<Resource>,
    event: Option<Event>,
    bend: impl FnOnce(&mut Fields),
) -> ResourceWrite {
    let mut fields = record.state.fields().clone();
    bend(&mut fields);
    ResourceWrite {
        version: record.version,
        before: record.state.clone(),
        next: Resource::hydrate(fields).expect("a legal row"),
        rows: vec![],
        event,
        lease: None,
        release: None,
    }
}

/// A write that leads to a phase.
pub(super) fn write(
    record: &Record<Resource>,
    phase: Phase,
    event: Option<Event>,
) -> ResourceWrite {
    bent(record, event, |it| it.phase = phase)
}

/// A step of a leased resource that leads to a phase.
pub(super) fn step(leased: &Leased, phase: Phase, event: Option<Event>) -> ResourceWrite {
    let (work_item, claim) = (leased.item, leased.claim);
    let lease = Some(Stay { item: work_item, claim, reason: REASON, finished: false });
    ResourceWrite { lease, ..write(resource(leased), phase, event) }
}

/// Commits what must hold.
pub(super) fn commit(port: &mut dyn Port, write: ResourceWrite) {
    port.commit(write).expect("the version holds");
}

/// Gives a lease back.
pub(super) const fn give_back(leased: &Leased, wake: Wake) -> Release {
    Release { item: leased.item, claim: leased.claim, wake, reason: REASON }
}

/// Finishes a resource: everything is gone, and `Deleted` is emitted.
pub(super) fn end(port: &mut dyn Port, id: ResourceId) {
    port.order(id, Command::Deprovision).expect("it is known");
    let record = port.resource(id).expect("it is there");
    let event = Event::Deleted { outcome: Outcome::Removed };
    let gone = |row: &Row| Row { state: NameState::Gone, ..row.clone() };
    let rows = record.name_ledger.rows().iter().map(gone).collect();
    let ended = bent(&record, Some(event), |it| {
        it.phase = Phase::Deleted;
        it.outcome = Some(Outcome::Removed);
    });
    commit(port, ResourceWrite { rows, ..ended });
}

/// A step of a ProviderConfig that leads to a phase.
pub(super) fn config_step(
    record: &Record<ProviderConfig>,
    phase: provider_config::Phase,
) -> ConfigWrite {
    let (version, before) = (record.version, record.state.clone());
    let next = ProviderConfig { phase, ..before.clone() };
    ConfigWrite { version, before, next, rows: vec![], event: None, lease: None, release: None }
}

/// Commits that a ProviderConfig is ready.
pub(super) fn walk_config_to_ready(
    port: &mut dyn Port,
    id: ProviderConfigId,
) -> Record<ProviderConfig> {
    let record = port.config(id).expect("it is there");
    let write = config_step(&record, provider_config::Phase::Ready);
    port.commit_config(write).expect("the version holds");
    port.config(id).expect("it is there")
}

/// What the agent of this number asks with the first token of a resource.
pub(super) fn token_request(port: &dyn Port, resource: ResourceId, number: u8) -> Request {
    let generation = Generation::FIRST;
    let key = server_key().expect("a key");
    Request {
        text: key.derive(name::token(resource, generation), generation),
        project: port.ids().project,
        nonce: format!("nonce-of-agent-{number:016}").parse().expect("a nonce"),
        public_key: PUBLIC_KEY.parse().expect("a key"),
        peer: PeerId::from_uuid(id(4, number.into())),
    }
}

/// Reads the log to its end, page by page.
pub(super) fn pages(port: &mut dyn Port, after: Option<&str>, count: u32) -> Vec<ReadEvents> {
    let mut all: Vec<ReadEvents> = vec![];
    loop {
        let place = all.last().map(|it| it.place.clone()).or_else(|| after.map(str::to_owned));
        let page = port.events(place.as_deref(), count).expect("it answers");
        assert!(page.len() <= count.try_into().unwrap_or(usize::MAX), "a page has its size");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Every event that was emitted.
pub(super) fn types(port: &mut dyn Port) -> Vec<(ResourceId, EventType, Version)> {
    let emitted = pages(port, None, 64);
    emitted.iter().map(|it| (it.resource, it.event.event_type(), it.version)).collect()
}
