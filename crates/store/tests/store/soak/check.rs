//! What must hold after a writer was killed at any moment.

use std::collections::{BTreeMap, BTreeSet};

use usher_domain::broker::event::EventType;
use usher_domain::broker::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_kernel::{NameState, Version};
use usher_store::{Cursor, Store, WorkItem};

use super::journal::Line;
use crate::test_store::{TestDatabase, of_resource, read_events};

/// What is known of all rounds so far.
#[derive(Default)]
pub(super) struct Checker {
    cursor: Option<Cursor>,
    events: BTreeMap<ResourceId, BTreeMap<Version, EventType>>,
    /// The newest reported claim of each item: fence, wake-ups, until when.
    claims: BTreeMap<WorkItem, (u64, u64, i64)>,
    /// The leases whose release has begun.
    returning: BTreeSet<(WorkItem, u64)>,
    acknowledged: BTreeMap<&'static str, u64>,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "acknowledged: {:?}", self.acknowledged)
    }
}

impl Checker {
    /// Checks the database after a round; `Err` names what is wrong.
    pub(super) async fn check(
        &mut self,
        store: &Store,
        test_database: &TestDatabase,
        lines: &[Line],
    ) -> Result<(), String> {
        self.read_log(store, test_database).await?;
        self.check_leases(lines)?;
        let mut touched: BTreeSet<ResourceId> = BTreeSet::new();
        for line in lines {
            let (word, id) = match line {
                Line::Accepted(id) => ("accepted", Some(*id)),
                Line::Committed(id, _) => ("committed", Some(*id)),
                Line::Ended(id, _) => ("ended", Some(*id)),
                Line::Retired(id) => ("retired", Some(*id)),
                Line::Woken(WorkItem::Resource(id)) => ("woken", Some(*id)),
                Line::Leased(WorkItem::Resource(id) | WorkItem::Tombstone(id), _) => {
                    ("leased", Some(*id))
                }
                Line::Woken(_) | Line::Leased(..) => ("leased", None),
                Line::Returning(..) => ("returned", None),
            };
            *self.acknowledged.entry(word).or_default() += 1;
            touched.extend(id);
            self.check_acknowledged(store, line).await?;
        }
        // What is in the log and was not acknowledged is whole as well.
        let newest = self.events.keys().rev().take(8).copied().collect::<Vec<_>>();
        touched.extend(newest);
        for id in touched {
            self.check_whole(store, id).await?;
            self.check_turn(store, WorkItem::Resource(id)).await?;
        }
        check_counts(test_database).await
    }

    async fn read_log(
        &mut self,
        store: &Store,
        test_database: &TestDatabase,
    ) -> Result<(), String> {
        let all = test_database.number("SELECT count(*) FROM events").await;
        let known: usize = self.events.values().map(BTreeMap::len).sum();
        let mut missing = usize::try_from(all).unwrap() - known;
        while missing > 0 {
            let after = self.cursor.unwrap_or(Cursor::START);
            let page = read_events(store, after, missing.min(100)).await;
            for it in page {
                let (resource, _, event_type) = of_resource(&it);
                let mine = self.events.entry(resource).or_default();
                if mine.insert(it.version, event_type).is_some() {
                    return Err(format!("{resource} has two events for {:?}", it.version));
                }
                self.cursor = Some(it.cursor);
                missing -= 1;
            }
        }
        Ok(())
    }

    /// No item is leased while another lease runs whose release has not begun. Lines of several
    /// tasks may change places, so claims are compared in the order of their fences.
    fn check_leases(&mut self, lines: &[Line]) -> Result<(), String> {
        let mut claims: BTreeMap<(WorkItem, u64), Vec<[i64; 4]>> = BTreeMap::new();
        for line in lines {
            match line {
                Line::Returning(item, fence) => {
                    self.returning.insert((*item, *fence));
                }
                Line::Leased(item, it) => {
                    claims.entry((*item, it[0].unsigned_abs())).or_default().push(*it);
                }
                Line::Accepted(_)
                | Line::Committed(..)
                | Line::Ended(..)
                | Line::Retired(_)
                | Line::Woken(_) => {}
            }
        }
        for ((item, fence), claims) in claims {
            let [[_, seq, now, until]] = claims[..] else {
                return Err(format!("{item} was leased twice with fence {fence}"));
            };
            if let Some((before, _, ends)) = self.claims.get(&item) {
                let gave = self.returning.contains(&(item, *before));
                if fence <= *before || (fence == before + 1 && !gave && now < *ends) {
                    let what = format!("{item} was leased twice");
                    return Err(format!("{what}: {before} until {ends}, {fence} at {now}"));
                }
            }
            self.claims.insert(item, (fence, seq.unsigned_abs(), until));
        }
        Ok(())
    }

    async fn check_acknowledged(&self, store: &Store, line: &Line) -> Result<(), String> {
        let (id, version, event) = match line {
            Line::Accepted(id) => (*id, 1, Some(EventType::Requested)),
            Line::Committed(id, version) => {
                (*id, *version, version.is_multiple_of(2).then_some(EventType::Ready))
            }
            Line::Ended(id, version) => (*id, *version, Some(EventType::Deleted)),
            Line::Retired(id) => {
                let seen = self.events.get(id).is_some_and(|it| {
                    it.values().any(|event_type| *event_type == EventType::Deleting)
                });
                return if seen { Ok(()) } else { Err(format!("{id} lost its deletion")) };
            }
            Line::Woken(_) | Line::Leased(..) | Line::Returning(..) => return Ok(()),
        };
        let Ok(record) = store.resource(id).await else {
            return Err(format!("{id} was acknowledged and is not there"));
        };
        if record.version.0 < version {
            return Err(format!("version {version} of {id} was acknowledged and is not there"));
        }
        let seen = self.events.get(&id).and_then(|it| it.get(&Version(version))).copied();
        if seen != event {
            return Err(format!("version {version} of {id} has the event {seen:?}, not {event:?}"));
        }
        Ok(())
    }

    /// All marks of a version exist, or none.
    async fn check_whole(&self, store: &Store, id: ResourceId) -> Result<(), String> {
        let record = store.resource(id).await.map_err(|error| format!("{id}: {error}"))?;
        let (version, state) = (record.version.0, &record.state);
        let events = self.events.get(&id).cloned().unwrap_or_default();
        let asked = events.iter().find(|it| *it.1 == EventType::Deleting).map(|it| it.0.0);
        if events.get(&Version(1)) != Some(&EventType::Requested) {
            return Err(format!("{id} has no event of its request"));
        }
        for step in 2..asked.unwrap_or(version + 1) {
            let seen = events.get(&Version(step)).copied();
            if seen != step.is_multiple_of(2).then_some(EventType::Ready) {
                return Err(format!("{id} has the event {seen:?} with version {step}"));
            }
        }
        let evidence = &record.name_ledger.rows()[0].evidence.answer;
        let states = || record.name_ledger.rows().iter().map(|it| it.state);
        let tombstone = store.entry(WorkItem::Tombstone(id)).await.unwrap();
        let deleted = events.values().any(|it| *it == EventType::Deleted);
        let whole = match asked {
            None => {
                let ready = version.is_multiple_of(2);
                (version == 1 || *evidence == format!("v{version}"))
                    && (state.phase() == Phase::Ready) == ready
                    && state.deletion_requested_at().is_none()
            }
            Some(asked) if deleted => {
                version == asked + 1
                    && state.phase() == Phase::Deleted
                    && states().all(|it| it == NameState::Gone)
                    && tombstone.is_some()
            }
            Some(asked) => {
                version == asked && state.deletion_requested_at().is_some() && tombstone.is_none()
            }
        };
        if whole { Ok(()) } else { Err(format!("{id} is there by halves: {record:?} {events:?}")) }
    }

    /// An item that is idle without a timer was not woken since its last claim.
    async fn check_turn(&self, store: &Store, item: WorkItem) -> Result<(), String> {
        let Some(entry) = store.entry(item).await.unwrap() else {
            return Err(format!("{item} has no turn"));
        };
        if entry.due.is_some() {
            return Ok(());
        }
        match self.claims.get(&item) {
            Some((fence, seq, _)) if (*fence, *seq) == (entry.fence.0, entry.wake_seq) => Ok(()),
            claim => Err(format!("{item} is idle and was woken: {entry:?}, claimed {claim:?}")),
        }
    }
}

/// What one transaction counts in several tables agrees.
async fn check_counts(test_database: &TestDatabase) -> Result<(), String> {
    let pairs = [
        (
            "users of ProviderConfigs",
            "SELECT CAST(COALESCE(SUM(users), 0) AS bigint) FROM provider_configs",
            "SELECT count(*) FROM resources WHERE phase <> 'Deleted'",
        ),
        (
            "items",
            "SELECT count(*) FROM records WHERE kind = 'resource'",
            "SELECT count(*) FROM resources",
        ),
        (
            "turns",
            "SELECT count(*) FROM queue WHERE kind = 'resource'",
            "SELECT count(*) FROM resources",
        ),
        (
            "tombstones",
            "SELECT count(*) FROM queue WHERE kind = 'tombstone'",
            "SELECT count(*) FROM tombstones",
        ),
        (
            "tenancies",
            "SELECT count(*) FROM tenancy_resources WHERE released_at IS NULL",
            "SELECT count(*) FROM resources WHERE phase <> 'Deleted'",
        ),
        (
            "declarations",
            "SELECT count(*) FROM events WHERE type = 'broker.ProvisionedResourceRequested'",
            "SELECT count(*) FROM resources",
        ),
    ];
    for (what, one, other) in pairs {
        let (one, other) = (test_database.number(one).await, test_database.number(other).await);
        if one != other {
            return Err(format!("{what}: {one} and {other}"));
        }
    }
    Ok(())
}
