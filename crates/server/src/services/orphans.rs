//! Orphans, and the mass-deletion guards.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_trait::async_trait;
use usher_api::ports::{Answer, Orphans};
use usher_api::refusal::Thing;
use usher_api::views::{Caller, GuardView, Orphan, Page, Paging};
use usher_domain::audit::Action;
use usher_domain::broker::event::Outcome;
use usher_domain::broker::refusal::Refusal;
use usher_domain::broker::world::OwnObject;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_kernel::{NameLedger, NameState, Timestamp};
use usher_store::{Command, Error};
use uuid::Uuid;

use super::names::not_found;
use super::{Services, failure, page_of_all, unavailable};

#[async_trait]
impl Orphans for Services {
    async fn orphans(&self, paging: Paging) -> Answer<Page<Orphan>> {
        let all = self.all_orphans().await?;
        Ok(page_of_all(all, &paging, |it| format!("{}/{}/{}", it.world, it.kind, it.name)))
    }

    async fn reap(&self, caller: &Caller) -> Answer<Vec<Orphan>> {
        let mut reaped: Vec<Orphan> = Vec::new();
        let mut seen: BTreeMap<ResourceId, ()> = BTreeMap::new();
        for orphan in self.all_orphans().await?.into_iter().filter(|it| it.reapable) {
            let Some(id) = orphan.resource else { continue };
            if seen.insert(id, ()).is_none() {
                let command = Command::Reap { by: caller.name.to_string() };
                self.execute(caller, id, (command, Action::ResourceReap)).await?;
            }
            reaped.push(orphan);
        }
        Ok(reaped)
    }

    async fn guards(&self) -> Answer<Vec<GuardView>> {
        let mut guards = Vec::new();
        for (world, _) in self.worlds.iter() {
            if let Some(state) = self.store.world(world).await.map_err(failure)? {
                guards.push(self.guard(world, state.tripped_at).await?);
            }
        }
        Ok(guards)
    }

    async fn reset_guard(&self, caller: &Caller, world: &str) -> Answer<GuardView> {
        if self.store.world(world).await.map_err(failure)?.is_none() {
            return Err(not_found(Thing::World, world));
        }
        self.guards().forget(world);
        let audited = self.with_audit(caller, Action::GuardReset, (None, world.to_owned()));
        audited.set_guard(world.to_owned(), false).await.map_err(failure)?;
        let state = self.store.world(world).await.map_err(failure)?;
        self.guard(world, state.and_then(|it| it.tripped_at)).await
    }
}

/// The ledger of one owner.
struct Known {
    name_ledger: NameLedger,
    resource: Option<ResourceId>,
    abandoned: bool,
}

impl Services {
    async fn guard(&self, world: &str, tripped_at: Option<Timestamp>) -> Answer<GuardView> {
        let now = self.store.now().await.map_err(failure)?;
        let loss = self.guards().loss(world, now).await.map_err(unavailable)?;
        let (vanished, present) = (loss.vanished, loss.present);
        Ok(GuardView { world: world.to_owned(), tripped_at, vanished, present })
    }

    /// The objects of every world that no ledger accounts for.
    async fn all_orphans(&self) -> Answer<Vec<Orphan>> {
        let installation = self.store.installation().id.to_string();
        let mut owners: BTreeMap<Uuid, Option<Known>> = BTreeMap::new();
        let mut orphans = Vec::new();
        for (world, attached) in self.worlds.iter() {
            let objects = attached.world.objects(&installation).await.map_err(unavailable)?;
            for object in objects {
                let Some(owner) = object.owner else { continue };
                let known = match owners.entry(owner) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => place.insert(self.known_owner(owner).await?),
                };
                orphans.extend(orphan(world, object, known.as_ref()));
            }
        }
        Ok(orphans)
    }

    async fn known_owner(&self, owner: Uuid) -> Answer<Option<Known>> {
        match self.store.resource(ResourceId::from_uuid(owner)).await {
            Ok(record) => {
                let abandoned = record.state.fields().outcome == Some(Outcome::Abandoned);
                let resource = Some(record.state.id());
                return Ok(Some(Known { name_ledger: record.name_ledger, resource, abandoned }));
            }
            Err(
                Error::NotFound { .. }
                | Error::Refused(Refusal::ProvisionedResourceNotFound { .. }),
            ) => {}
            Err(error) => return Err(failure(error)),
        }
        match self.store.provider_config(ProviderConfigId::from_uuid(owner)).await {
            Ok(record) => Ok(Some(Known {
                name_ledger: record.name_ledger,
                resource: None,
                abandoned: false,
            })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }
}

/// The object as an orphan, unless an open row accounts for it.
fn orphan(world: &str, object: OwnObject, known: Option<&Known>) -> Option<Orphan> {
    let (cause, resource, reapable) = match known {
        None => ("no record of this installation has its owner id", None, false),
        Some(known) => {
            let rows = known.name_ledger.rows().iter();
            let mut own = rows.filter(|row| row.uid.as_ref() == Some(&object.uid));
            let intended = known
                .name_ledger
                .rows()
                .iter()
                .any(|row| row.state == NameState::Intended && row.name.name == object.name);
            match own.next_back().map(|row| row.state) {
                Some(NameState::Seen) => return None,
                Some(NameState::Intended) | None if intended => return None,
                Some(NameState::Abandoned) => ("it was abandoned", known.resource, known.abandoned),
                Some(NameState::Gone) => ("it is recorded as gone", known.resource, false),
                Some(NameState::Intended | NameState::Foreign) | None => {
                    ("its owner has no ledger row for it", known.resource, known.abandoned)
                }
            }
        }
    };
    Some(Orphan {
        world: world.to_owned(),
        kind: object.kind,
        place: object.place,
        name: object.name,
        uid: Some(object.uid.0),
        resource,
        cause: cause.to_owned(),
        reapable,
    })
}
