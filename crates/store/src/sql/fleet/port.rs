//! The port's verbs for the fleet.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::fleet::accept::Adopted;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::object::id::{MachineLifeId, ResourceId};
use usher_kernel::Version;
use uuid::Uuid;

use super::super::accept;
use super::super::port::Port;
use super::{demand, machines, orders, shards};
use crate::error::Error;
use crate::fleet::{
    Acquisition, Brake, Cycle, Demand, Heard, ListedAt, MachineOrder, MachineQuery, Roll, RollUp,
    ShardLease, ShardState, StoredMachine, Written,
};

impl Port {
    pub(crate) async fn acquire_shard(
        &self,
        shard: ShardId,
        holder: Uuid,
        span: Duration,
    ) -> Result<Acquisition, Error> {
        self.door.write(move |conn| Box::pin(shards::acquire(conn, shard, holder, span))).await
    }

    pub(crate) async fn renew_shard(
        &self,
        lease: ShardLease,
        span: Duration,
    ) -> Result<Option<ShardLease>, Error> {
        self.door.write(move |conn| Box::pin(shards::renew(conn, lease, span))).await
    }

    pub(crate) async fn release_shard(&self, lease: ShardLease) -> Result<bool, Error> {
        let given = self
            .door
            .write(move |conn| Box::pin(async move { shards::release(conn, &lease).await }))
            .await;
        self.stirring(given)
    }

    pub(crate) async fn shards(&self) -> Result<Vec<ShardState>, Error> {
        shards::all(&mut *self.door.read().await?).await
    }

    pub(crate) async fn shard(&self, id: ShardId) -> Result<Option<ShardState>, Error> {
        shards::read(&mut *self.door.read().await?, &id).await
    }

    pub(crate) async fn brake_shard(
        &self,
        id: ShardId,
        brake: Brake,
        on: bool,
        audit: Option<audit::Entry>,
    ) -> Result<ShardState, Error> {
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move {
                    let state = shards::brake(conn, &id, brake, on).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(state)
                })
            })
            .await;
        self.stirring(written)
    }

    pub(crate) async fn machines_of(
        &self,
        shard: &ShardId,
        after: Option<MachineLifeId>,
        count: u32,
    ) -> Result<Roll, Error> {
        machines::of_shard(&mut *self.door.read().await?, shard, after, count).await
    }

    pub(crate) async fn woken_machines(&self, shard: &ShardId, count: u32) -> Result<Roll, Error> {
        machines::woken(&mut *self.door.read().await?, shard, count).await
    }

    pub(crate) async fn heed_machines(
        &self,
        lease: ShardLease,
        read: Vec<(MachineLifeId, Version)>,
    ) -> Result<(), Error> {
        self.door
            .write(move |conn| {
                Box::pin(async move {
                    shards::fence(conn, &lease).await?;
                    machines::heed(conn, &lease.shard, &read).await
                })
            })
            .await
    }

    pub(crate) async fn commit_cycle(&self, cycle: Cycle) -> Result<Written, Error> {
        let write_id = Uuid::now_v7();
        let shard = cycle.lease.shard.clone();
        let lives: Vec<MachineLifeId> = cycle.writes.iter().map(|it| it.id).collect();
        let adopted = cycle.adopted.clone();
        // Whoever waits for a machine looks again when there are new ones.
        let tells = !adopted.is_empty() || cycle.writes.iter().any(|it| it.event.is_some());
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move { machines::commit(conn, &cycle, write_id).await })
            })
            .await;
        if tells {
            self.tell(&written);
        }
        match written {
            Err(Error::OutcomeUnknown { source }) => {
                let known = self.known_cycle(&shard, (&lives, &adopted), write_id).await?;
                known.ok_or_else(|| Error::new("commit", source))
            }
            other => other,
        }
    }

    /// What became of a cycle whose answer was lost: its rows say it, once nobody writes under a
    /// lease of the shard any more. A cycle without any trace was not written, or wrote nothing.
    async fn known_cycle(
        &self,
        shard: &ShardId,
        (lives, adopted): (&[MachineLifeId], &[Adopted]),
        write_id: Uuid,
    ) -> Result<Option<Written>, Error> {
        let conn = &mut *self.door.read().await?;
        shards::quiesce(conn, shard).await?;
        let done = machines::written_by(conn, lives, write_id).await?;
        let begun = machines::begun_by(conn, adopted, write_id).await?;
        if done.is_empty() && begun.iter().all(Option::is_none) {
            return Ok(None);
        }
        let moved = lives.iter().filter(|it| !done.contains(it.as_uuid())).copied().collect();
        Ok(Some(Written { adopted: begun, moved }))
    }

    pub(crate) async fn lists(&self, shard: &ShardId) -> Result<Vec<ListedAt>, Error> {
        shards::lists(&mut *self.door.read().await?, shard).await
    }

    pub(crate) async fn machine(&self, id: MachineLifeId) -> Result<StoredMachine, Error> {
        machines::read(&mut *self.door.read().await?, id).await
    }

    pub(crate) async fn machines(
        &self,
        query: &MachineQuery,
        after: Option<MachineLifeId>,
        count: u32,
    ) -> Result<Roll, Error> {
        machines::query(&mut *self.door.read().await?, query, after, count).await
    }

    pub(crate) async fn machine_holders(&self, shard: &ShardId) -> Result<Vec<ResourceId>, Error> {
        machines::holders(&mut *self.door.read().await?, shard).await
    }

    pub(crate) async fn holder_beside(
        &self,
        provider: &str,
    ) -> Result<Option<(ResourceId, String)>, Error> {
        machines::holder_beside(&mut *self.door.read().await?, provider).await
    }

    pub(crate) async fn find_machines(
        &self,
        name: &str,
        provider: Option<&str>,
    ) -> Result<Vec<StoredMachine>, Error> {
        machines::find(&mut *self.door.read().await?, name, provider).await
    }

    pub(crate) async fn order_machine(
        &self,
        id: MachineLifeId,
        order: MachineOrder,
        audit: Option<audit::Entry>,
    ) -> Result<StoredMachine, Error> {
        let write_id = Uuid::now_v7();
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move {
                    let machine = orders::order(conn, id, order, write_id).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(machine)
                })
            })
            .await;
        self.tell(&written);
        self.stirring(written)
    }

    pub(crate) async fn hear_demand(
        &self,
        it: RollUp,
        audit: Option<audit::Entry>,
    ) -> Result<Heard, Error> {
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move {
                    let heard = demand::hear(conn, it).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(heard)
                })
            })
            .await;
        self.stirring(written)
    }

    pub(crate) async fn demand_versions(
        &self,
        shard: &ShardId,
    ) -> Result<Vec<(ClusterId, Version)>, Error> {
        demand::versions(&mut *self.door.read().await?, shard).await
    }

    pub(crate) async fn demand(&self, cluster: &ClusterId) -> Result<Option<Demand>, Error> {
        demand::read(&mut *self.door.read().await?, cluster).await
    }

    pub(crate) async fn demands(
        &self,
        after: Option<&ClusterId>,
        count: u32,
    ) -> Result<Vec<Demand>, Error> {
        demand::all(&mut *self.door.read().await?, after, count).await
    }
}
