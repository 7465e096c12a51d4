//! Runs steps on a server, with config maps in a namespace of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config, Error};
use serde_json::json;
use tokio::time::Instant;

use crate::model::{Model, ObjectState, Snapshot};
use crate::sequence::{Owners, Policy, Step};

/// The finalizer that holds an object.
pub(crate) const FINALIZER: &str = "usher.example/hold";
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs steps on one server, and remembers the uids.
pub(crate) struct Player {
    pub(crate) maps: Api<ConfigMap>,
    /// The newest uid of every name.
    uids: BTreeMap<usize, String>,
}

/// The timeout of a step, and how long the end state must be stable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) step: Duration,
    pub(crate) end: Duration,
}

/// A client of a kubeconfig.
pub(crate) async fn client(kubeconfig: &str) -> Result<Client, Box<dyn std::error::Error>> {
    let config = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Plays a sequence in a new namespace and compares the server with the model after every step;
/// returns the first difference.
pub(crate) async fn compare(
    client: Client,
    steps: &[Step],
    timeouts: Timeouts,
) -> Result<Option<String>, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"generateName": "owners-"}});
    let namespace = serde_json::from_value(namespace).map_err(Error::SerdeError)?;
    let made = namespaces.create(&PostParams::default(), &namespace).await?;
    let name = made.metadata.name.unwrap_or_default();
    let mut player = Player::new(Api::namespaced(client, &name));
    let found = player.differs(steps, timeouts).await;
    player.release_all().await?;
    namespaces.delete(&name, &DeleteParams::default()).await?;
    found
}

impl Player {
    pub(crate) fn new(maps: Api<ConfigMap>) -> Self {
        Self { maps, uids: BTreeMap::new() }
    }

    async fn differs(
        &mut self,
        steps: &[Step],
        timeouts: Timeouts,
    ) -> Result<Option<String>, Error> {
        let mut model = Model::default();
        for (index, step) in steps.iter().enumerate() {
            self.step(step).await?;
            model.step(step);
            let wanted = model.snapshot();
            let until = Instant::now() + timeouts.step;
            let mut found = self.snapshot().await?;
            while found != wanted && Instant::now() < until {
                tokio::time::sleep(POLL_INTERVAL).await;
                found = self.snapshot().await?;
            }
            if found != wanted {
                let difference =
                    format!("step {index}, {step:?}: expected {wanted:?}, found {found:?}");
                return Ok(Some(difference));
            }
        }
        tokio::time::sleep(timeouts.end).await;
        let (wanted, found) = (model.snapshot(), self.snapshot().await?);
        let difference = || format!("at the end: expected {wanted:?}, found {found:?}");
        Ok((wanted != found).then(difference))
    }

    /// Runs a step; returns the uid that it deleted.
    pub(crate) async fn step(&mut self, step: &Step) -> Result<Option<String>, Error> {
        let done = match step {
            Step::Create { name, owners, held } => self.create(*name, owners, *held).await,
            Step::Own { name, owners } => self.own(*name, owners).await,
            Step::Delete { name, policy } => self.delete(*name, *policy).await,
            Step::Release { name } => self.release(*name).await,
        };
        match done {
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            done => done,
        }
    }

    /// The existing objects and their states.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Error> {
        let list = self.maps.list(&ListParams::default()).await?;
        let ours = list.items.iter().filter_map(|map| {
            let name = map.metadata.name.as_deref()?.strip_prefix('o')?.parse().ok()?;
            Some((name, self.state_of(map)))
        });
        Ok(ours.collect())
    }

    fn state_of(&self, map: &ConfigMap) -> ObjectState {
        let metadata = &map.metadata;
        if metadata.deletion_timestamp.is_some() {
            let mut finalizers = metadata.finalizers.iter().flatten();
            let held = finalizers.all(|finalizer| finalizer == FINALIZER);
            return if held { ObjectState::Held } else { ObjectState::Leaving };
        }
        let name_of = |uid: &str| {
            self.uids.iter().find(|(_, known)| *known == uid).map_or(usize::MAX, |(name, _)| *name)
        };
        let owners = metadata.owner_references.iter().flatten();
        ObjectState::Owned(owners.map(|owner| name_of(&owner.uid)).collect())
    }

    async fn create(
        &mut self,
        name: usize,
        owners: &Owners,
        held: bool,
    ) -> Result<Option<String>, Error> {
        let mut map = ConfigMap::default();
        map.metadata.finalizers = held.then(|| vec![FINALIZER.to_owned()]);
        map.metadata.name = Some(called(name));
        map.metadata.owner_references = Some(self.references(name, owners));
        let made = self.maps.create(&PostParams::default(), &map).await?;
        self.uids.insert(name, made.metadata.uid.unwrap_or_default());
        Ok(None)
    }

    async fn own(&self, name: usize, owners: &Owners) -> Result<Option<String>, Error> {
        let references = self.references(name, owners);
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": references}}));
        self.maps.patch(&called(name), &PatchParams::default(), &patch).await?;
        Ok(None)
    }

    async fn delete(&self, name: usize, policy: Policy) -> Result<Option<String>, Error> {
        let policy = match policy {
            Policy::Background => PropagationPolicy::Background,
            Policy::Foreground => PropagationPolicy::Foreground,
            Policy::Orphan => PropagationPolicy::Orphan,
        };
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        let gone = self.maps.delete(&called(name), &params).await?;
        let waits = |map: ConfigMap| map.metadata.uid;
        let done = |status: kube_client::core::Status| status.details.map(|details| details.uid);
        Ok(gone.either(waits, done))
    }

    async fn release(&self, name: usize) -> Result<Option<String>, Error> {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.maps.patch(&called(name), &PatchParams::default(), &patch).await?;
        Ok(None)
    }

    /// Removes all finalizers, so that the namespace can be deleted.
    async fn release_all(&mut self) -> Result<(), Error> {
        let names: Vec<usize> = self.uids.keys().copied().collect();
        for name in names {
            self.step(&Step::Release { name }).await?;
        }
        Ok(())
    }

    fn references(&self, of: usize, owners: &Owners) -> Vec<OwnerReference> {
        let known = owners.iter().filter(|(owner, _)| **owner != of);
        let reference = |(owner, blocks): (&usize, &bool)| {
            Some(OwnerReference {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name: called(*owner),
                uid: self.uids.get(owner)?.clone(),
                block_owner_deletion: Some(*blocks),
                controller: None,
            })
        };
        known.filter_map(reference).collect()
    }
}

fn called(name: usize) -> String {
    format!("o{name}")
}
