//! The verbs as this world does them. Each may be repeated.

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::provider_config::{KIND_EXTERNAL_SECRET, ProviderConfig, Verb};
use usher_domain::object::name;
use usher_kernel::{Name, Record, Timestamp, Trouble, Uid};

use super::error::Error;
use super::object::{Kind, Object};
use super::registry::Change;
use super::{LocalWorld, render};
use usher_domain::broker::world::ControlPlane;
use usher_hosts::clock::now;

impl<I: ControlPlane> LocalWorld<I> {
    pub(super) async fn perform(
        &self,
        record: &Record<Resource>,
        effect: &Effect,
    ) -> Result<(), Trouble> {
        let resource = &record.state;
        match effect {
            Effect::CreateAnchor { anchor } => {
                self.create(Kind::Anchor, render::anchor(resource, anchor, now())).await
            }
            Effect::IssueToken { token, generation } => {
                self.inside.issue(resource, *token, *generation).await
            }
            Effect::Apply { xr, uid, anchor } => {
                self.apply_xr(resource, (xr, uid.as_ref()), anchor).await
            }
            Effect::DeregisterNode { token } => self.inside.deregister(resource, *token).await,
            // Nothing of ours guards anything in this world.
            Effect::ReleaseProtection { .. } => Ok(()),
            Effect::DeleteSubstrate { xr, uid } => self.delete_substrate(xr, uid, now()).await,
            Effect::DeleteAnchor { anchor, uid } => self.remove_anchor(anchor, uid).await,
        }
    }

    pub(super) async fn perform_of_config(
        &self,
        record: &Record<ProviderConfig>,
        verb: &Verb,
    ) -> Result<(), Trouble> {
        let config = &record.state;
        match verb {
            Verb::CreateAnchor { anchor } => {
                self.create(Kind::Anchor, render::config_anchor(config, anchor, now())).await
            }
            Verb::Apply { objects, anchor } => {
                for (name, uid) in objects {
                    let kind = config_kind(name);
                    let object = render::config_object(config, (name, anchor), kind, now());
                    match uid {
                        None => self.create(kind, object).await?,
                        Some(uid) => self.apply(kind, (name, uid), object).await?,
                    }
                }
                Ok(())
            }
            Verb::Delete { object, uid, revision } => {
                let kind = config_kind(object);
                let change = self.change().await?;
                told(remove_revision(&change, kind, (object, uid), revision))
            }
            Verb::DeleteAnchor { anchor, uid } => self.remove_anchor(anchor, uid).await,
        }
    }

    async fn change(&self) -> Result<Change<'_>, Trouble> {
        told(self.registry.change().await)
    }

    /// A create is a create. What stands there already is ours if it is labelled and owned alike:
    /// then the answer to an earlier create was lost.
    async fn create(&self, kind: Kind, object: Object) -> Result<(), Trouble> {
        let (labels, owner) = (object.labels.clone(), object.owner.clone());
        let name = object.name.clone();
        let change = self.change().await?;
        match change.create(kind, object) {
            Err(Error::Exists { .. }) => {
                let found = told(self.registry.get(kind, &name))?;
                let ours = found
                    .is_some_and(|it| render::carries(&it.labels, &labels) && it.owner == owner);
                if ours { Ok(()) } else { Err(Trouble::Blocked { what: name }) }
            }
            done => told(done.map(|_| ())),
        }
    }

    async fn apply_xr(
        &self,
        resource: &Resource,
        (xr, uid): (&Name, Option<&Uid>),
        anchor: &Uid,
    ) -> Result<(), Trouble> {
        let tags = match self.tags.take(resource.id()) {
            Some(seen) => seen,
            None => self.inside.of_resource(resource, &|| self.identify()).await?.tags,
        };
        let token = if render::needs_agent(resource) {
            Some(self.inside.token(resource, xr.generation).await?)
        } else {
            None
        };
        let object = render::substrate(resource, (xr, anchor), &tags, token.as_ref(), now());
        match uid {
            None => self.create(Kind::Substrate, object).await,
            Some(uid) => self.apply(Kind::Substrate, (xr, uid), object).await,
        }
    }

    /// Writes onto the very object that was seen, and never creates. What the composer wrote stays,
    /// and so does the token: the key that it was derived with may be retired.
    async fn apply(
        &self,
        kind: Kind,
        (name, uid): (&Name, &Uid),
        wanted: Object,
    ) -> Result<(), Trouble> {
        let change = self.change().await?;
        let rewrite = |it: &mut Object| {
            it.manifest = wanted.manifest;
            // Whoever else wrote a label keeps it.
            it.labels.extend(wanted.labels);
            if let (Some(found), Some(mut wanted)) = (&mut it.substrate, wanted.substrate) {
                if let (Some(found), Some(wanted)) = (&mut found.boot, &mut wanted.boot) {
                    wanted.token = std::mem::take(&mut found.token);
                }
                found.boot = wanted.boot;
            }
        };
        told(change.update(kind, (&name.name, uid), rewrite).map(|_| ()))
    }

    /// Marks the substrate and its parts, and waits for neither.
    async fn delete_substrate(&self, xr: &Name, uid: &Uid, now: Timestamp) -> Result<(), Trouble> {
        let change = self.change().await?;
        let Some(found) = told(change.get(Kind::Substrate, &xr.name, uid))? else { return Ok(()) };
        if found.labels.contains_key(name::LABEL_IN_USE) {
            return told(Err(Error::InUse { name: xr.name.clone() }));
        }
        told(self.composer().mark_parts(&change, &found, now))?;
        told(change.mark(Kind::Substrate, (&xr.name, uid), now))
    }

    /// An anchor has nothing to wait for: what belongs to it is collected.
    async fn remove_anchor(&self, anchor: &Name, uid: &Uid) -> Result<(), Trouble> {
        let change = self.change().await?;
        told(change.remove(Kind::Anchor, &anchor.name, uid))
    }
}

fn remove_revision(
    change: &Change<'_>,
    kind: Kind,
    (object, uid): (&Name, &Uid),
    revision: &str,
) -> Result<(), Error> {
    let Some(found) = change.get(kind, &object.name, uid)? else { return Ok(()) };
    if found.revision.to_string() != revision {
        return Err(Error::NotThatOne { name: object.name.clone() });
    }
    change.remove(kind, &object.name, uid)
}

fn config_kind(name: &Name) -> Kind {
    if name.kind == KIND_EXTERNAL_SECRET { Kind::ExternalSecret } else { Kind::ProviderConfig }
}

fn told<T>(done: Result<T, Error>) -> Result<T, Trouble> {
    done.map_err(|why| why.trouble())
}
