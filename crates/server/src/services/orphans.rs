//! What stands outside and has no owner, and the rails that hold absence.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_trait::async_trait;
use usher_api::ports::{Answer, Failure, Orphans};
use usher_api::refusal::Thing;
use usher_api::views::{Caller, GuardView, Orphan, Page, Paging};
use usher_domain::audit::Action;
use usher_domain::broker::event::Outcome;
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_domain::object::name;
use usher_kernel::{Book, Standing};
use usher_store::{Command, Error};
use uuid::Uuid;

use super::names::not_found;
use super::{Services, WORLD, failure, page_of_all};
use usher_local::error;
use usher_local::object::{Kind, Object};

#[async_trait]
impl Orphans for Services {
    async fn orphans(&self, paging: Paging) -> Answer<Page<Orphan>> {
        let all = self.all_orphans().await?;
        Ok(page_of_all(all, &paging, |it| format!("{}/{}/{}", it.world, it.kind, it.name)))
    }

    async fn reap(&self, caller: &Caller) -> Answer<Vec<Orphan>> {
        let mut reaped: Vec<Orphan> = Vec::new();
        let mut lives: BTreeMap<ResourceId, ()> = BTreeMap::new();
        for orphan in self.all_orphans().await?.into_iter().filter(|it| it.reapable) {
            let Some(id) = orphan.resource else { continue };
            if lives.insert(id, ()).is_none() {
                let order = Command::Reap { by: caller.name.to_string() };
                self.order(caller, id, (order, Action::ResourceReap)).await?;
            }
            reaped.push(orphan);
        }
        Ok(reaped)
    }

    async fn guards(&self) -> Answer<Vec<GuardView>> {
        let Some(state) = self.store.world(WORLD).await.map_err(failure)? else {
            return Ok(vec![]);
        };
        Ok(vec![self.rail(state.tripped_at).await?])
    }

    async fn reset_guard(&self, caller: &Caller, world: &str) -> Answer<GuardView> {
        let order = self.noted(caller, Action::RailOpen, (None, world.to_owned()));
        let opened = self.rails().open(world, order).await.map_err(failure)?;
        let state = opened.ok_or_else(|| not_found(Thing::World, world))?;
        self.rail(state.tripped_at).await
    }
}

/// What the ledger knows of one life.
struct Known {
    book: Book,
    resource: Option<ResourceId>,
    abandoned: bool,
}

impl Services {
    async fn rail(&self, tripped_at: Option<usher_kernel::Timestamp>) -> Answer<GuardView> {
        let now = self.store.now().await.map_err(failure)?;
        let loss = Services::rails(self).loss(WORLD, now).await.map_err(failure)?;
        let (vanished, present) = (loss.vanished, loss.present);
        Ok(GuardView { world: WORLD.to_owned(), tripped_at, vanished, present })
    }

    /// World minus ledger.
    async fn all_orphans(&self) -> Answer<Vec<Orphan>> {
        let installation = self.store.installation().id.to_string();
        let mut lives: BTreeMap<Uuid, Option<Known>> = BTreeMap::new();
        let mut orphans = Vec::new();
        for object in self.standing().map_err(|why| unread(&why))? {
            if object.label(name::LABEL_INSTALLATION) != Some(installation.as_str()) {
                continue;
            }
            let life = object.label(name::LABEL_RESOURCE_ID).and_then(|it| it.parse().ok());
            let Some(life) = life else { continue };
            let known = match lives.entry(life) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.known_life(life).await?),
            };
            orphans.extend(orphan(&object, known.as_ref()));
        }
        Ok(orphans)
    }

    /// Every object that stands in the world.
    fn standing(&self) -> Result<Vec<Object>, error::Error> {
        let registry = self.world.registry();
        let mut objects = Vec::new();
        for kind in Kind::ALL {
            for name in registry.names(kind)? {
                objects.extend(registry.get(kind, &name)?);
            }
        }
        Ok(objects)
    }

    async fn known_life(&self, life: Uuid) -> Answer<Option<Known>> {
        match self.store.resource(ResourceId::from_uuid(life)).await {
            Ok(record) => {
                let abandoned = record.state.fields().outcome == Some(Outcome::Abandoned);
                let resource = Some(record.state.id());
                return Ok(Some(Known { book: record.book, resource, abandoned }));
            }
            Err(
                Error::NotFound { .. }
                | Error::Refused(Refusal::ProvisionedResourceNotFound { .. }),
            ) => {}
            Err(error) => return Err(failure(error)),
        }
        match self.store.provider_config(ProviderConfigId::from_uuid(life)).await {
            Ok(record) => Ok(Some(Known { book: record.book, resource: None, abandoned: false })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }
}

/// The object as an orphan, unless an open row accounts for it.
fn orphan(object: &Object, known: Option<&Known>) -> Option<Orphan> {
    let (cause, resource, reapable) = match known {
        None => ("no life of this installation has its id", None, false),
        Some(known) => {
            let rows = known.book.rows().iter();
            let mut own = rows.filter(|row| row.uid.as_ref() == Some(&object.uid));
            let intended = known
                .book
                .rows()
                .iter()
                .any(|row| row.standing == Standing::Intended && row.name.name == object.name);
            match own.next_back().map(|row| row.standing) {
                Some(Standing::Seen) => return None,
                Some(Standing::Intended) | None if intended => return None,
                Some(Standing::Abandoned) => ("it was given up", known.resource, known.abandoned),
                Some(Standing::Gone) => ("it is recorded as gone", known.resource, false),
                Some(Standing::Intended | Standing::Foreign) | None => {
                    ("its life does not know it", known.resource, known.abandoned)
                }
            }
        }
    };
    Some(Orphan {
        world: WORLD.to_owned(),
        kind: object.ledger_kind.clone(),
        place: object.place.clone(),
        name: object.name.clone(),
        uid: Some(object.uid.0.clone()),
        resource,
        cause: cause.to_owned(),
        reapable,
    })
}

fn unread(why: &error::Error) -> Failure {
    Failure::Unavailable { what: why.to_string() }
}
