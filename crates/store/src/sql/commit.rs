//! The one door: state, identity rows, event and consequences, in one transaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::QueryBuilder;
use usher_domain::broker::aggregate::{Fields, Resource};
use usher_domain::broker::command::Outstanding;
use usher_domain::broker::consequence::Consequences;
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Timestamp, Version};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::gather::Together;
use super::queue::Taking;
use super::{events, names, queue, record};
use crate::column::Time;
use crate::error::{Doing as _, Error};
use crate::life::Life;
use crate::port::{ConfigWrite, Release, ResourceWrite, Stay};

/// A step of a resource, and what its write is known by.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) write: ResourceWrite,
    pub(crate) write_id: Uuid,
    /// How long a request may outlive its driver's lease.
    pub(crate) bound: Duration,
    /// How the lease of the tombstone is taken that begins by it, if one does.
    pub(crate) burial: Option<Burial>,
}

/// A tombstone whose lease is taken when it begins.
#[derive(Debug)]
pub(crate) struct Burial {
    pub(crate) taking: Taking,
    /// The lease, and the time, once it has begun.
    pub(crate) begun: Mutex<Option<(Claim, Timestamp)>>,
}

impl Together for Step {
    /// Writes the steps whose versions still hold; if one of them does not, none is written.
    async fn write(conn: &mut Conn, group: &[Arc<Self>]) -> Result<(), Error> {
        let moves: Vec<Move> = group
            .iter()
            .map(|it| (*it.write.next.id().as_uuid(), it.write.version, it.write_id))
            .collect();
        advance(conn, &moves).await?;
        let changes: Vec<Change<'_>> =
            group.iter().map(|it| (&it.write, it.bound, it.burial.as_ref())).collect();
        change_resources(conn, &changes).await?;
        let turns = group.iter().map(|it| (it.write.lease, it.write.release.as_ref()));
        keep_turns(conn, &turns.collect::<Vec<_>>()).await
    }
}

/// What changes, how long a request may outlive its driver's lease, and how a tombstone begins.
pub(crate) type Change<'a> = (&'a ResourceWrite, Duration, Option<&'a Burial>);

/// Writes everything of resources whose versions were moved in this transaction.
pub(crate) async fn change_resources(conn: &mut Conn, changes: &[Change<'_>]) -> Result<(), Error> {
    let states = changes.iter().filter(|(it, ..)| it.next != it.before);
    let states: Vec<&Fields> = states.map(|(it, ..)| it.next.fields()).collect();
    record::update_resources(conn, &states).await?;
    let books = changes.iter().map(|(it, ..)| (*it.next.id().as_uuid(), it.rows.as_slice()));
    names::write(conn, &books.collect::<Vec<_>>()).await?;
    let crossings = changes
        .iter()
        .filter_map(|(it, ..)| it.event.as_ref().map(|event| (&it.next, it.version.next(), event)));
    events::tell(conn, &crossings.collect::<Vec<_>>()).await?;
    let mut parting: Vec<&Change<'_>> = changes.iter().collect();
    // ProviderConfigs are held in one order.
    parting.sort_by_key(|(it, ..)| it.next.pinned().provider_config);
    for (it, bound, burial) in parting {
        follow(conn, (&it.before, &it.next), (*bound, *burial)).await?;
    }
    Ok(())
}

/// Writes a step of a ProviderConfig, if its version still holds.
pub(crate) async fn config(
    conn: &mut Conn,
    write: &ConfigWrite,
    write_id: Uuid,
) -> Result<(), Error> {
    let id = *write.next.id.as_uuid();
    advance(conn, &[(id, write.version, write_id)]).await?;
    if write.next != write.before {
        record::update_config(conn, &write.next).await?;
    }
    names::write(conn, &[(id, &write.rows)]).await?;
    if write.next.is_ready() && !write.before.is_ready() {
        wake_users(conn, write.next.id).await?;
    }
    keep_turns(conn, &[(write.lease, write.release.as_ref())]).await
}

/// The lease that goes on, or the one that is given back.
type Kept<'a> = (Option<Stay>, Option<&'a Release>);

/// Gives the leases back, or sees that they still are the newest ones, so that nobody can take the
/// lives before this is written. Whoever overtook may rest on what it saw and never look at this.
async fn keep_turns(conn: &mut Conn, turns: &[Kept<'_>]) -> Result<(), Error> {
    let releases: Vec<&Release> = turns.iter().filter_map(|(_, release)| *release).collect();
    let stays: Vec<Stay> = turns.iter().filter_map(|(stay, _)| *stay).collect();
    if queue::release(conn, &releases).await?.count != releases.len()
        || queue::stay(conn, &stays).await? != stays.len()
    {
        return Err(Error::Conflict);
    }
    Ok(())
}

/// A life, the version it is at, and what the write of the next one is known by.
pub(crate) type Move = (Uuid, Version, Uuid);

/// Moves lives on by one version each, or finds out that somebody else did.
pub(crate) async fn advance(conn: &mut Conn, moves: &[Move]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE lives SET version = version + 1, write_id = v.column3 FROM (",
    );
    sql.push_values(moves, |mut values, (id, version, write_id)| {
        values.push_bind(*id).push_bind(version.0.cast_signed()).push_bind(*write_id);
    });
    sql.push(") AS v WHERE lives.id = v.column1 AND lives.version = v.column2");
    let done = sql.build().execute(&mut *conn).await.doing("write a life")?;
    let all = u64::try_from(moves.len()).is_ok_and(|all| all == done.rows_affected());
    if all { Ok(()) } else { Err(Error::Conflict) }
}

/// What goes with a write, said by the domain.
async fn follow(
    conn: &mut Conn,
    (before, after): (&Resource, &Resource),
    (bound, burial): (Duration, Option<&Burial>),
) -> Result<(), Error> {
    let Consequences { revoke_tokens, substrate_ready_at, part_provider_config, bury } =
        Consequences::of(before, after);
    let id = *after.id().as_uuid();
    if let Some(at) = substrate_ready_at {
        start_lifetime(conn, (id, after.generation()), at).await?;
    }
    if revoke_tokens {
        self::revoke_tokens(conn, id).await?;
    }
    if part_provider_config {
        release_tenancy(conn, after).await?;
        part(conn, after.pinned().provider_config, bound).await?;
    }
    if bury {
        self::bury(conn, after, burial).await?;
    }
    Ok(())
}

async fn start_lifetime(
    conn: &mut Conn,
    (resource, generation): (Uuid, Generation),
    at: Timestamp,
) -> Result<(), Error> {
    let sql = "UPDATE tokens SET first_ready_at = $3
        WHERE resource = $1 AND generation = $2 AND first_ready_at IS NULL";
    sqlx::query::<Db>(sql)
        .bind(resource)
        .bind(i64::from(generation.0))
        .bind(Time(at))
        .execute(&mut *conn)
        .await
        .doing("start the lifetime of a token")?;
    Ok(())
}

async fn revoke_tokens(conn: &mut Conn, resource: Uuid) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE tokens SET revoked_at = ",
        now!(),
        " WHERE resource = $1 AND consumed_at IS NULL AND revoked_at IS NULL"
    );
    sqlx::query::<Db>(sql).bind(resource).execute(&mut *conn).await.doing("revoke tokens")?;
    Ok(())
}

async fn release_tenancy(conn: &mut Conn, resource: &Resource) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE tenancy_resources SET released_at = ",
        now!(),
        " WHERE id = $1 AND released_at IS NULL"
    );
    sqlx::query::<Db>(sql)
        .bind(resource.fields().tenancy.as_uuid())
        .execute(&mut *conn)
        .await
        .doing("release a tenancy resource")?;
    Ok(())
}

/// One user less of a ProviderConfig. With the last one its quiet time begins, and a look at it is
/// due; of the others nothing is read, because everybody who parts waits for these rows.
async fn part(conn: &mut Conn, id: ProviderConfigId, request_bound: Duration) -> Result<(), Error> {
    let life = Life::ProviderConfig(id);
    sqlx::query::<Db>("UPDATE lives SET version = version + 1, write_id = $2 WHERE id = $1")
        .bind(life.id())
        .bind(Uuid::now_v7())
        .execute(&mut *conn)
        .await
        .doing("part from a ProviderConfig")?;
    let sql = "UPDATE provider_configs SET users = users - 1 WHERE id = $1 AND users > 1";
    let parted = sqlx::query::<Db>(sql).bind(life.id()).execute(&mut *conn).await;
    if parted.doing("part from a ProviderConfig")?.rows_affected() > 0 {
        return Ok(());
    }
    let before = record::config(conn, id).await?.state;
    let Some(entry) = queue::entry(conn, life, true).await? else {
        return Err(Error::NotFound { what: format!("the entry of {life}") });
    };
    let outstanding = Outstanding { heard_until: entry.entry().heard_until(), request_bound };
    let next = before.parted(&outstanding, entry.now.0);
    record::update_config(conn, &next).await?;
    if next.is_news_to(&before) {
        queue::wake(conn, life).await?;
    }
    Ok(())
}

/// A tombstone begins: it watches, and holds its project.
pub(crate) async fn bury(
    conn: &mut Conn,
    resource: &Resource,
    burial: Option<&Burial>,
) -> Result<(), Error> {
    let sql = concat!(
        "INSERT INTO tombstones (resource, project, buried_at) VALUES ($1, $2, ",
        now!(),
        ") ON CONFLICT (resource) DO NOTHING"
    );
    let buried = sqlx::query::<Db>(sql)
        .bind(resource.id().as_uuid())
        .bind(resource.fields().project.as_uuid())
        .execute(&mut *conn)
        .await
        .doing("begin a tombstone")?;
    if buried.rows_affected() == 1 {
        let life = Life::Tombstone(resource.id());
        let Some(Burial { taking: (pace, jitter), begun }) = burial else {
            return queue::insert(conn, &[life]).await;
        };
        let now = record::now(conn).await?;
        let mut entry = Entry::new(now);
        let claim = entry.claim(pace, *jitter, now);
        queue::begin(conn, &[(life, &entry)]).await?;
        *begun.lock().unwrap_or_else(PoisonError::into_inner) = claim.map(|it| (it, now));
    }
    Ok(())
}

/// Ends a tombstone that was kept long enough and has nothing left to watch; `false` if it has.
pub(crate) async fn put_away(
    conn: &mut Conn,
    (id, claim): (ResourceId, Claim),
    keep: Duration,
) -> Result<bool, Error> {
    let life = Life::Tombstone(id);
    record::lock(conn, life.id()).await?;
    let record = record::resource(conn, id).await?;
    let Some(entry) = queue::entry(conn, life, true).await? else { return Ok(true) };
    let tombstone = Tombstone { keep, ..Tombstone::default() };
    let overtaken = entry.entry().fence != claim.fence;
    if overtaken || !tombstone.is_over(&record, entry.now.0) {
        return Ok(false);
    }
    sqlx::query::<Db>("DELETE FROM tombstones WHERE resource = $1")
        .bind(id.as_uuid())
        .execute(&mut *conn)
        .await
        .doing("put a tombstone away")?;
    queue::remove(conn, life).await?;
    Ok(true)
}

/// Whoever waited for a ProviderConfig looks again.
async fn wake_users(conn: &mut Conn, id: ProviderConfigId) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind = 'resource' AND life IN (
            SELECT id FROM resources WHERE provider_config = $1 AND phase <> 'Deleted')"
    );
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .execute(&mut *conn)
        .await
        .doing("wake the users of a ProviderConfig")?;
    Ok(())
}
