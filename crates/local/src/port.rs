//! This world as the server reaches it.

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::world::{
    BrokerWorld, ControlPlane, Explanation, OwnObject, Presence, WaitingObject, WorldNews,
    WorldWatch,
};
use usher_domain::object::authority::BoxFuture;
use usher_domain::object::name;
use usher_kernel::{Record, Trouble, Uid};
use uuid::Uuid;

use crate::LocalWorld;
use crate::error::Error;
use crate::object::{Condition, Footing, Kind, Object};
use crate::registry::Registry;
use crate::watch::{News, Watch};

impl<I: ControlPlane> BrokerWorld for LocalWorld<I> {
    fn observe<'a>(
        &'a self,
        record: &'a Record<Resource>,
    ) -> BoxFuture<'a, Result<Observed, Trouble>> {
        Box::pin(self.observed(record))
    }

    fn apply<'a>(
        &'a self,
        record: &'a Record<Resource>,
        effect: &'a Effect,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(self.perform(record, effect))
    }

    fn observe_config<'a>(
        &'a self,
        record: &'a Record<ProviderConfig>,
    ) -> BoxFuture<'a, Result<provider_config::Observed, Trouble>> {
        Box::pin(self.observed_config(record))
    }

    fn apply_config<'a>(
        &'a self,
        record: &'a Record<ProviderConfig>,
        verb: &'a Verb,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(self.perform_of_config(record, verb))
    }

    fn watch(&self) -> BoxFuture<'_, Result<Box<dyn WorldWatch>, Trouble>> {
        Box::pin(async {
            let watch = self.watch().map_err(unavailable)?;
            Ok(Box::new(watch) as Box<dyn WorldWatch>)
        })
    }

    fn objects<'a>(
        &'a self,
        installation: &'a str,
    ) -> BoxFuture<'a, Result<Vec<OwnObject>, Trouble>> {
        Box::pin(async move {
            let all = all_objects(self.registry()).map_err(unavailable)?;
            let ours = |it: &Object| it.label(name::LABEL_INSTALLATION) == Some(installation);
            Ok(all.into_iter().filter(ours).map(own).collect())
        })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), Trouble>> {
        Box::pin(async {
            let pin = self.registry().pin().map_err(unavailable)?;
            if pin.identity.0.is_empty() {
                return Err(Trouble::unavailable("its identity, which it has lost"));
            }
            Ok(())
        })
    }

    fn explain<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Explanation> {
        let xr = &resource.pinned().xr_name;
        let (failure, waits) = (failure_of(self.registry(), xr), waits_of(self.registry(), xr));
        Box::pin(std::future::ready(Explanation { failure, waits }))
    }
}

impl WorldWatch for Watch {
    fn next(&mut self) -> BoxFuture<'_, Result<WorldNews, Trouble>> {
        Box::pin(async {
            match self.next().await.map_err(unavailable)? {
                News::All => Ok(WorldNews::Relist),
                News::Changes(touched) => {
                    let owners = touched.into_iter().filter_map(|it| it.life?.parse().ok());
                    Ok(WorldNews::Changed(owners.collect()))
                }
            }
        })
    }

    fn list(&mut self) -> BoxFuture<'_, Result<Vec<Presence>, Trouble>> {
        Box::pin(async {
            let mut all = Vec::new();
            let see = |owner: Option<String>, object: Option<Object>| {
                if let Some(owner) = owner.and_then(|it| it.parse().ok()) {
                    all.push(presence(owner, object.as_ref()));
                }
            };
            self.survey(see).await.map_err(unavailable)?;
            Ok(all)
        })
    }
}

/// An object that cannot be read makes its record be reconciled, which finds it unknown as well.
fn presence(owner: Uuid, object: Option<&Object>) -> Presence {
    let substrate = object.and_then(|it| it.substrate.as_ref());
    let uid = |Uid(uid): &Uid| uid.parse().ok();
    Presence {
        owner,
        uid: object.and_then(|it| uid(&it.uid)),
        is_deleting: object.is_some_and(|it| it.deleting_at.is_some()),
        is_converging: substrate.is_some_and(|it| it.condition != Condition::Ready),
    }
}

fn all_objects(registry: &Registry) -> Result<Vec<Object>, Error> {
    let mut objects = Vec::new();
    for kind in Kind::ALL {
        for name in registry.names(kind)? {
            objects.extend(registry.get(kind, &name)?);
        }
    }
    Ok(objects)
}

fn own(object: Object) -> OwnObject {
    let owner = object.label(name::LABEL_RESOURCE_ID).and_then(|it| it.parse().ok());
    let Object { ledger_kind, place, name, uid, .. } = object;
    OwnObject { kind: ledger_kind, place, name, uid, owner }
}

/// The message with which a substrate failed.
fn failure_of(registry: &Registry, xr: &str) -> Option<String> {
    let found = registry.get(Kind::Substrate, xr).ok().flatten()?;
    match found.substrate?.condition {
        Condition::Failed { message } => Some(message),
        Condition::Converging | Condition::Ready => None,
    }
}

/// The parts of a substrate that wait for a machine of the fleet.
fn waits_of(registry: &Registry, xr: &str) -> Vec<WaitingObject> {
    let parts = registry.owned(Kind::Substrate, xr).unwrap_or_default().into_iter();
    let found = parts.filter_map(|(kind, name)| registry.get(kind, &name).ok().flatten());
    found
        .filter(|it| it.footing == Some(Footing::Waiting))
        .map(|it| WaitingObject {
            kind: it.ledger_kind,
            name: it.name,
            since: it.created_at,
            text: "no machine of the fleet is free; the next one that is becomes its own, see \
                `usher get machines`"
                .to_owned(),
        })
        .collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unavailable(error: Error) -> Trouble {
    let source = std::error::Error::source(&error).map(|it| format!(": {it}"));
    Trouble::unavailable(format!("{error}{}", source.unwrap_or_default()))
}
