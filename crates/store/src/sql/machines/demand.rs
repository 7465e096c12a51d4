//! What clusters need: reported in full, judged once, read by the shards that serve them.

use sqlx::types::Json;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::plan::{Judged, RawNeed, Trust};
use usher_kernel::Version;

use super::super::port::Port;
use super::super::record::word;
use super::super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::machines::{Demand, JudgedDemand, RollUp};

reads! {
    fn demand_versions(shard: &ShardId) -> Vec<(ClusterId, Version)> = |conn| versions(conn, shard);
    fn demand(cluster: &ClusterId) -> Option<Demand> = |conn| read(conn, cluster);
    fn demands(after: Option<&ClusterId>, count: u32) -> Vec<Demand>
        = |conn| list(conn, after, count);
}

audited! {
    fn accept_demand(it: RollUp) -> JudgedDemand = |conn| insert(conn, it);
}

/// One demand, as the statements bring it.
#[derive(sqlx::FromRow)]
struct DemandRow {
    cluster: String,
    shard: String,
    version: i64,
    heard_at: Time,
    needs: Json<Vec<RawNeed>>,
    trust: Json<Trust>,
}

/// Compares a roll-up with the previous one, and keeps it if it is accepted.
async fn insert(conn: &mut Conn, it: RollUp) -> Result<JudgedDemand, Error> {
    let sql = concat!(
        "INSERT INTO fleet_demands (cluster, shard, version, heard_at, needs, trust)
            VALUES ($1, $2, 1, ",
        now!(),
        ", $3, $4) ON CONFLICT (cluster) DO NOTHING"
    );
    let mut trust = Trust::default();
    let judged = trust.hear(it.needs.len());
    let begun = sqlx::query::<Db>(sql)
        .bind(it.cluster.as_str())
        .bind(it.shard.as_str())
        .bind(Json(it.needs.clone()))
        .bind(Json(trust))
        .execute(&mut *conn)
        .await
        .context("write a demand")?;
    if begun.rows_affected() == 1 {
        return Ok(JudgedDemand { judged, demand: found(conn, &it.cluster).await? });
    }
    replace(conn, it).await
}

async fn replace(conn: &mut Conn, it: RollUp) -> Result<JudgedDemand, Error> {
    let lock = concat!("SELECT cluster FROM fleet_demands WHERE cluster = $1", lock!());
    let locked = sqlx::query::<Db>(lock).bind(it.cluster.as_str()).execute(&mut *conn).await;
    locked.context("lock a demand")?;
    let Demand { shard, needs, mut trust, .. } = found(conn, &it.cluster).await?;
    if shard != it.shard {
        return Err(Error::Served { cluster: it.cluster.to_string(), shard: shard.to_string() });
    }
    let judged = trust.hear(it.needs.len());
    let needs = match judged {
        Judged::Accepted => it.needs,
        Judged::Held => needs,
    };
    let sql = concat!(
        "UPDATE fleet_demands SET version = version + 1, heard_at = ",
        now!(),
        ", needs = $2, trust = $3 WHERE cluster = $1"
    );
    sqlx::query::<Db>(sql)
        .bind(it.cluster.as_str())
        .bind(Json(needs))
        .bind(Json(trust))
        .execute(&mut *conn)
        .await
        .context("write a demand")?;
    Ok(JudgedDemand { judged, demand: found(conn, &it.cluster).await? })
}

/// Reads the roll-up sequence of each cluster of a shard.
async fn versions(conn: &mut Conn, shard: &ShardId) -> Result<Vec<(ClusterId, Version)>, Error> {
    let sql = "SELECT cluster, version FROM fleet_demands WHERE shard = $1 ORDER BY cluster";
    let rows = sqlx::query_as::<Db, (String, i64)>(sql)
        .bind(shard.as_str())
        .fetch_all(&mut *conn)
        .await
        .context("read which clusters have demand")?;
    let read = |(cluster, version): (String, i64)| {
        Ok((word("a demand", "cluster", &cluster)?, Version(version.unsigned_abs())))
    };
    rows.into_iter().map(read).collect()
}

/// Reads one demand.
async fn read(conn: &mut Conn, cluster: &ClusterId) -> Result<Option<Demand>, Error> {
    let sql = "SELECT cluster, shard, version, heard_at, needs, trust FROM fleet_demands
        WHERE cluster = $1";
    let row = sqlx::query_as::<Db, DemandRow>(sql)
        .bind(cluster.as_str())
        .fetch_optional(&mut *conn)
        .await
        .context("read a demand")?;
    row.map(DemandRow::demand).transpose()
}

/// Reads demands in the order of their clusters.
async fn list(
    conn: &mut Conn,
    after: Option<&ClusterId>,
    count: u32,
) -> Result<Vec<Demand>, Error> {
    let sql = "SELECT cluster, shard, version, heard_at, needs, trust FROM fleet_demands
        WHERE cluster > $1 ORDER BY cluster LIMIT $2";
    let rows = sqlx::query_as::<Db, DemandRow>(sql)
        .bind(after.map_or("", |it| it.as_str()).to_owned())
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .context("read demands")?;
    rows.into_iter().map(DemandRow::demand).collect()
}

async fn found(conn: &mut Conn, cluster: &ClusterId) -> Result<Demand, Error> {
    let missing = || Error::NotFound { what: format!("the demand of cluster \"{cluster}\"") };
    read(conn, cluster).await?.ok_or_else(missing)
}

impl DemandRow {
    fn demand(self) -> Result<Demand, Error> {
        Ok(Demand {
            cluster: word("a demand", "cluster", &self.cluster)?,
            shard: word("a demand", "shard", &self.shard)?,
            version: Version(self.version.unsigned_abs()),
            received_at: self.heard_at.0,
            needs: self.needs.0,
            trust: self.trust.0,
        })
    }
}
