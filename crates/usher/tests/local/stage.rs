//! A local world with one declared resource, an inside in memory, and hands that meddle.

use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::broker::world::{ControlPlane, Identify, Known, Trust};
use usher_domain::object::authority::BoxFuture;
use usher_domain::object::enrolment::TokenText;
use usher_domain::object::id::TokenId;
use usher_hosts::clock;
use usher_kernel::{
    Decision, Generation, Ledger, Name, Record, Timestamp, Trouble, Version, World,
};
use usher_local::LocalWorld;
use usher_local::composer::Agents;
use usher_local::object::{Kind, Object};
use usher_local::watch::{News, Watch};
use usher_wire::http::{AgentEvent, Drain};

use crate::plane::Plane;
use usher_sim::contract::memory::{Memory, Wish};
use usher_sim::contract::substrate::{Meddling, TestWorld};

type Answer<'a, T> = BoxFuture<'a, Result<T, Trouble>>;

/// The control plane, shared by the world and the test.
#[derive(Clone)]
pub(crate) struct Shared {
    memory: Arc<Memory>,
    /// Whose goodbye a deregistration waits for, if it does.
    goodbye: Arc<OnceLock<Plane>>,
}

impl ControlPlane for Shared {
    fn of_resource<'a>(
        &'a self,
        _: &'a Resource,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Known, Trouble>> {
        Box::pin(async move {
            let known = self.memory.known(&identify().await?);
            let authority = known.authority;
            Ok(Known {
                trust: Trust { now: clock::now(), authority, guard_tripped: false },
                config_ready: known.config_ready,
                tokens: known.tokens,
                peers: Ok(known.peers),
                tags: BTreeMap::new(),
            })
        })
    }

    fn of_config<'a>(
        &'a self,
        _: &'a ProviderConfig,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Trust, Trouble>> {
        Box::pin(async move {
            let authority = self.memory.judge(&identify().await?);
            Ok(Trust { now: clock::now(), authority, guard_tripped: false })
        })
    }

    fn vanished<'a>(&'a self, _: &'a Resource, _: Timestamp) -> Answer<'a, bool> {
        Box::pin(ready(Ok(false)))
    }

    fn token<'a>(&'a self, _: &'a Resource, it: Generation) -> Answer<'a, TokenText> {
        Box::pin(ready(Ok(self.memory.token(it))))
    }

    fn issue<'a>(&'a self, _: &'a Resource, _: TokenId, it: Generation) -> Answer<'a, ()> {
        Box::pin(async move { self.memory.issue(it) })
    }

    fn deregister<'a>(&'a self, _: &'a Resource, _: TokenId) -> Answer<'a, ()> {
        let waits = self.goodbye.get().is_some_and(|plane| {
            plane.send(AgentEvent::Drain(Drain { grace_ms: 60_000 }));
            plane.state().leaves.is_empty()
        });
        if !waits {
            self.memory.deregister();
        }
        Box::pin(ready(Ok(())))
    }
}

/// A world that is kept, with everything that a test needs.
pub(crate) struct LocalStage {
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) memory: Arc<Memory>,
    shared: Shared,
    pub(crate) world: LocalWorld<Shared>,
    watch: tokio::sync::Mutex<Watch>,
    keeper: Mutex<Option<Kept>>,
    /// Where its agents really enrol, if they do.
    pub(crate) plane: Option<Plane>,
}

struct Kept {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LocalStage {
    /// A world whose agents somebody else runs.
    pub(crate) async fn open(wish: &Wish) -> Self {
        Self::with(wish, Agents::External).await
    }

    /// A world with these agents.
    pub(crate) async fn with(wish: &Wish, agents: Agents) -> Self {
        let stage = Self::unkept(wish, agents).await;
        stage.start();
        stage
    }

    /// A world that nobody keeps yet.
    pub(crate) async fn unkept(wish: &Wish, agents: Agents) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::within(dir, (1, wish), agents).await
    }

    /// Another life in the same world, which this stage keeps.
    pub(crate) async fn beside(&self, number: u8, wish: &Wish) -> Self {
        Self::within(Arc::clone(&self.dir), (number, wish), Agents::External).await
    }

    async fn within(
        dir: Arc<tempfile::TempDir>,
        (number, wish): (u8, &Wish),
        agents: Agents,
    ) -> Self {
        let memory = Arc::new(Memory::declare(number, wish, clock::now()).unwrap());
        let root = dir.path().join("world");
        let shared = Shared { memory: Arc::clone(&memory), goodbye: Arc::default() };
        let world = LocalWorld::open(root, agents, shared.clone()).await.unwrap();
        let watch = tokio::sync::Mutex::new(world.watch().unwrap());
        Self { dir, memory, shared, world, watch, keeper: Mutex::new(None), plane: None }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("world")
    }

    /// Lets a deregistration wait until the node has said goodbye, as the server does.
    pub(crate) fn wait_for_goodbye(&self, plane: &Plane) {
        assert!(self.shared.goodbye.set(plane.clone()).is_ok(), "it waits already");
    }

    /// Starts a keeper.
    pub(crate) fn start(&self) {
        let (stop, stopped) = oneshot::channel();
        let keeper = self.world.keeper();
        let task = tokio::spawn(async move { keeper.run(stopped, |_, _| ()).await });
        *self.keeper.lock().unwrap() = Some(Kept { stop, task });
    }

    /// Stops the keeper and waits for its end.
    pub(crate) async fn stop(&self) {
        let kept = self.keeper.lock().unwrap().take();
        if let Some(kept) = kept {
            let _ = kept.stop.send(());
            kept.task.await.unwrap();
        }
    }

    fn away(&self) -> PathBuf {
        self.dir.path().join("away")
    }

    /// Puts another, empty world in the place of this one.
    async fn displace(&self, id: Option<String>) {
        self.stop().await;
        fs::rename(self.root(), self.away()).unwrap();
        LocalWorld::open(self.root(), Agents::External, self.shared.clone()).await.unwrap();
        if let Some(id) = id {
            fs::write(self.root().join("id"), id).unwrap();
        }
    }
}

/// Removes a file, or a folder that others are still writing in.
pub(crate) fn clear(path: &Path) {
    for _ in 0..1_000 {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Ok(()) => return,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return,
            Err(why) if why.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            Err(why) => panic!("{}: {why}", path.display()),
        }
    }
    panic!("{} cannot be removed", path.display());
}

fn kind(name: &Name) -> Kind {
    if name.kind == "Anchor" { Kind::Anchor } else { Kind::Substrate }
}

fn hidden(root: &Path) -> PathBuf {
    root.join("hidden")
}

impl TestWorld for LocalStage {
    fn now(&self) -> Timestamp {
        clock::now()
    }

    async fn pass(&self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    fn resource(&self) -> Record<Resource> {
        self.memory.resource()
    }

    fn config(&self) -> Record<ProviderConfig> {
        self.memory.config()
    }

    fn events(&self) -> Vec<Event> {
        self.memory.events()
    }

    async fn enrol(&self) {
        let it = self.memory.resource().state;
        let ready = it.fields().substrate_ready_at.is_some();
        let enrolled = self.plane.as_ref().is_none_or(|plane| {
            let token = self.memory.token(it.generation());
            plane.state().nodes.contains_key(token.expose())
        });
        if ready && enrolled {
            self.memory.enrol(it.generation());
        }
        if let Some(plane) = &self.plane
            && !self.memory.is_registered()
            && it.is_tearing_down()
        {
            plane.send(AgentEvent::Drain(Drain { grace_ms: 60_000 }));
        }
    }

    async fn retire(&self) {
        self.memory.retire(clock::now());
    }

    async fn was_woken(&self) -> bool {
        let mut watch = self.watch.lock().await;
        let life = self.memory.resource().state.id().to_string();
        let mut woken = false;
        while let Ok(news) = tokio::time::timeout(Duration::from_millis(1), watch.next()).await {
            match news.unwrap() {
                News::All => {
                    let see = |of: Option<String>, _| woken |= of.as_ref() == Some(&life);
                    watch.survey(see).await.unwrap();
                }
                News::Changes(touched) => {
                    woken |= touched.iter().any(|it| it.life.as_ref() == Some(&life));
                }
            }
        }
        woken
    }

    async fn meddle(&self, meddling: Meddling) {
        let root = self.root();
        match meddling {
            Meddling::TakeName(name) => {
                let change = self.world.registry().change().await.unwrap();
                change.create(kind(&name), foreign(&name)).unwrap();
            }
            Meddling::Remove(name) => {
                clear(&self.world.registry().path(kind(&name), &name.name));
            }
            Meddling::Rebuild => self.displace(None).await,
            Meddling::Forget => {
                let id = fs::read_to_string(root.join("id")).unwrap();
                self.displace(Some(id)).await;
            }
            Meddling::Hide => {
                self.stop().await;
                fs::rename(root.join("substrate"), hidden(&root)).unwrap();
            }
            Meddling::Restore => {
                if self.away().exists() {
                    fs::remove_dir_all(&root).unwrap();
                    fs::rename(self.away(), &root).unwrap();
                } else {
                    fs::rename(hidden(&root), root.join("substrate")).unwrap();
                }
                self.start();
            }
        }
    }
}

fn foreign(name: &Name) -> Object {
    Object {
        name: name.name.clone(),
        uid: usher_kernel::Uid::new(""),
        ledger_kind: name.kind.clone(),
        place: name.place.clone(),
        labels: BTreeMap::new(),
        owner: None,
        revision: 0,
        created_at: clock::now(),
        deleting_at: None,
        manifest: serde_json::Value::Null,
        substrate: None,
        footing: None,
    }
}

impl World<Broker> for LocalStage {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        World::<Broker>::observe(&self.world, record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        World::<Broker>::apply(&self.world, record, effect).await
    }
}

impl World<Tombstone> for LocalStage {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        World::<Tombstone>::observe(&self.world, record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        World::<Tombstone>::apply(&self.world, record, effect).await
    }
}

impl World<provider_config::ProviderConfigReconciler> for LocalStage {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        World::<provider_config::ProviderConfigReconciler>::observe(&self.world, record).await
    }

    async fn apply(&self, record: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        World::<provider_config::ProviderConfigReconciler>::apply(&self.world, record, verb).await
    }
}

impl Ledger<Broker> for LocalStage {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ledger::<Broker>::load(&*self.memory).await
    }

    async fn commit(&self, version: Version, it: &Decision<Broker>) -> Result<(), Trouble> {
        Ledger::<Broker>::commit(&*self.memory, version, it).await
    }
}

impl Ledger<Tombstone> for LocalStage {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ledger::<Tombstone>::load(&*self.memory).await
    }

    async fn commit(&self, version: Version, it: &Decision<Tombstone>) -> Result<(), Trouble> {
        Ledger::<Tombstone>::commit(&*self.memory, version, it).await
    }
}

impl Ledger<provider_config::ProviderConfigReconciler> for LocalStage {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        Ledger::<provider_config::ProviderConfigReconciler>::load(&*self.memory).await
    }

    async fn commit(
        &self,
        version: Version,
        it: &Decision<provider_config::ProviderConfigReconciler>,
    ) -> Result<(), Trouble> {
        Ledger::<provider_config::ProviderConfigReconciler>::commit(&*self.memory, version, it)
            .await
    }
}
