//! Claiming: lease and record of several items, in one transaction.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::QueryBuilder;
use usher_domain::broker::command::Outstanding;
use usher_kernel::schedule::{Claim, Jitter, Pace};
use usher_kernel::{Record, Timestamp};
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::Read;
use super::super::resources::load;
use super::super::{Conn, Db, provider_configs};
use super::{EntryRow, entry_columns, postpone};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::jitter;
use crate::port::WorkItem;
use crate::port::{Batch, Held, Leased};

impl Port {
    pub(crate) async fn claim_due(&self, count: u32) -> Result<Batch, Error> {
        // While idle a read is enough; after work there is likely more.
        if !self.busy.load(Ordering::Relaxed) && !is_due(&mut *self.pool.read().await?).await? {
            return Ok(Batch::default());
        }
        let (pace, bound) = (self.settings.pace, self.settings.request_bound);
        let claimed = self
            .pool
            .write(move |conn| Box::pin(async move { claim(conn, count, (&pace, bound)).await }))
            .await;
        let busy = claimed.as_ref().is_ok_and(|it| !it.leased.is_empty());
        self.busy.store(busy, Ordering::Relaxed);
        claimed
    }
}

/// Whether anything is due: one cheap read.
async fn is_due(conn: &mut Conn) -> Result<bool, Error> {
    let sql = concat!("SELECT 1 FROM queue WHERE ", due!(), " LIMIT 1");
    let found =
        sqlx::query::<Db>(sql).fetch_optional(&mut *conn).await.context("find due items")?;
    Ok(found.is_some())
}

/// Takes the leases of up to so many due items and reads their records.
async fn claim(
    conn: &mut Conn,
    count: u32,
    (pace, request_bound): (&Pace, Duration),
) -> Result<Batch, Error> {
    let sql = concat!(
        "SELECT ",
        entry_columns!(),
        now!(),
        " AS now FROM queue WHERE ",
        due!(),
        " ORDER BY due LIMIT $1",
        skip_locked!()
    );
    let rows = sqlx::query_as::<Db, EntryRow>(sql)
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .context("find due items")?;
    let Some(now) = rows.first().map(|row| row.now.0) else {
        return Ok(Batch::default());
    };
    let claimed = lease(conn, rows, pace, now).await?;
    let mut batch = Batch { now: Some(now), ..Batch::default() };
    let records = read(conn, &claimed).await?;
    for (item, claim, may_act_until) in claimed {
        // A resource and its tombstone have one record.
        let what = match records.get(&(matches!(item, WorkItem::ProviderConfig(_)), item.id())) {
            Some(Ok(record)) => {
                Ok(leased((item, claim, may_act_until), record.clone(), (now, request_bound)))
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Err(format!("cannot find the record of {item}")),
        };
        match what {
            Ok(leased) => batch.leased.push(leased),
            Err(what) => {
                let trouble = usher_kernel::Trouble::Corrupt { what: what.clone() };
                postpone(conn, (item, claim), (&trouble, None), (pace, Jitter(0))).await?;
                batch.parked.push((item, what));
            }
        }
    }
    Ok(batch)
}

/// An item as the holder of the new lease takes it.
fn leased(
    (item, claim, may_act_until): Claimed,
    held: Held,
    (now, request_bound): (Timestamp, Duration),
) -> Leased {
    let others = Outstanding { may_act_until, request_bound };
    let record = match (item, held) {
        (WorkItem::Resource(_), Held::Resource(record)) => {
            let state = record.state.with_grace(&others, now);
            Held::Resource(Box::new(Record { state, ..*record }))
        }
        (WorkItem::ProviderConfig(_), Held::ProviderConfig(record)) => {
            let state = record.state.with_grace(&others, now);
            Held::ProviderConfig(Record { state, ..record })
        }
        (
            WorkItem::Tombstone(_) | WorkItem::Resource(_) | WorkItem::ProviderConfig(_),
            held @ (Held::Resource(_) | Held::ProviderConfig(_)),
        ) => held,
    };
    Leased { item, claim, record, now }
}

/// Writes the leases that the rules of the queue give; with each, until when requests of earlier
/// holders may arrive.
async fn lease(
    conn: &mut Conn,
    rows: Vec<EntryRow>,
    pace: &Pace,
    now: Timestamp,
) -> Result<Vec<Claimed>, Error> {
    let mut claimed = Vec::with_capacity(rows.len());
    let mut entries = Vec::with_capacity(rows.len());
    for row in rows {
        let mut entry = row.entry();
        let Some(item) = WorkItem::read(&row.kind, row.record) else { continue };
        if let Some(claim) = entry.claim(pace, jitter(), now) {
            claimed.push((item, claim, entry.unreturned_until));
            entries.push((item, entry));
        }
    }
    if entries.is_empty() {
        return Ok(claimed);
    }
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE queue SET due = v.column3, lease_until = v.column4, unreturned_until = v.column5,
            fence = v.column6, attempts = v.column7 FROM (",
    );
    sql.push_values(entries, |mut values, (item, entry)| {
        values
            .push_bind(item.id())
            .push_bind(item.kind())
            .push_bind(Time::some(entry.due))
            .push_bind(Time::some(entry.lease_until))
            .push_bind(Time::some(entry.unreturned_until))
            .push_bind(entry.fence.0.cast_signed())
            .push_bind(i64::from(entry.attempts));
    });
    sql.push(") AS v WHERE queue.record = v.column1 AND queue.kind = v.column2");
    sql.build().execute(&mut *conn).await.context("lease items")?;
    Ok(claimed)
}

/// A new lease, and until when requests of earlier holders may arrive.
type Claimed = (WorkItem, Claim, Option<Timestamp>);
type Records = HashMap<(bool, Uuid), Result<Held, Error>>;

async fn read(conn: &mut Conn, claimed: &[Claimed]) -> Result<Records, Error> {
    let (mut resources, mut configs) = (vec![], vec![]);
    for (item, ..) in claimed {
        match item {
            WorkItem::Resource(id) | WorkItem::Tombstone(id) => resources.push(*id.as_uuid()),
            WorkItem::ProviderConfig(id) => configs.push(*id.as_uuid()),
        }
    }
    let mut records = Records::new();
    if !resources.is_empty() {
        let read = load::many(conn, resources).await?;
        let held = |it: Read<_>| it.map(|it| Held::Resource(Box::new(it)));
        records.extend(read.into_iter().map(|(id, it)| ((false, id), held(it))));
    }
    if !configs.is_empty() {
        let read = provider_configs::many(conn, configs).await?;
        let held = |it: Read<_>| it.map(Held::ProviderConfig);
        records.extend(read.into_iter().map(|(id, it)| ((true, id), held(it))));
    }
    Ok(records)
}
