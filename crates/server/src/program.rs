//! The server as a whole: what is opened, started, and stopped again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use usher_api::AppState;
use usher_domain::object::authority::MassDeletionGuard;
use usher_domain::peers::{DrainTimeouts, Heartbeat};
use usher_domain::tokens::Lifetime;
use usher_kernel::schedule::Pace;
use usher_store::migrate::Direction;
use usher_store::relay::{self, Relay, SecretsOf};
use usher_store::{Place, Provenance, Retention, Settings, Store};

use super::control_plane::SqlControlPlane;
use super::fleet::holding::{Holding, Parts as PartBoots};
use super::fleet::home;
use super::fleet::settings::At;
use super::guard::{self, Guards};
use super::key_file::KeyFile;
use super::keyring::Keyring;
use super::mesh::Mesh;
use super::place::{self, DataDir};
use super::presence::PresencePoller;
use super::services::{Pins, Services};
use super::steps::{Reconcilers, WorldSteps};
use super::tally::{ConnectionTally, MeshTally, StoreTally, Tally};
use super::waker::Waker;
use super::worker::Worker;
use super::world_records::SqlWorldRecords;
use super::worlds::{Attached, Worlds};
use super::{fleet, housekeeping, listener, mesh, seed, worker};
use crate::config::{self, AgentMode, Config};
use crate::error::ServerError;
use usher_fleet::bootstrap::{Bootstrap, Nothing};
use usher_local::LocalWorld;
use usher_local::composer::{self, Agents};
use usher_wire::chain;

/// How long open requests may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// How often changed world revisions are recorded.
const WRITE_DOWN: Duration = Duration::from_secs(5);

/// Name of the local world.
const LOCAL_WORLD: &str = "local";
/// The folder of the local provider in the data directory.
const FLEET: &str = "fleet";

/// The mode of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `usher up`: an embedded database on one machine.
    Up,
    /// `usher serve`: PostgreSQL.
    Serve,
}

/// A server that listens and does not run yet.
pub struct Server {
    config: Config,
    data: DataDir,
    listener: TcpListener,
    connections: usher_listen::Settings,
    url: String,
    store: Arc<Store>,
    plane: SqlControlPlane,
    tally: Arc<Tally>,
    fleet: Arc<usher_fleet::tally::Tally>,
}

impl Server {
    /// Opens the data directory, the listener and the database; starts nothing.
    pub async fn open(config: Config, role: Role, data_dir: &Path) -> Result<Self, ServerError> {
        let place = match (role, config.database.url.as_str()) {
            (Role::Up, _) => None,
            (Role::Serve, "") => {
                return Err(ServerError::usage(
                    "missing database URL: set database.url or USHER_DATABASE_URL",
                ));
            }
            (Role::Serve, url) if !config::is_postgres(url) => {
                return Err(ServerError::usage(
                    "invalid setting database.url: must begin with postgres:// or postgresql://",
                ));
            }
            (Role::Serve, url) => Some(Place::Postgres(url.to_owned())),
        };
        let data = DataDir::open(data_dir)?;
        admit_agents(&config, &data)?;
        let connections = listener::settings(&config)?;
        let listener = listener::bind(&config.listen)?;
        let url = listener::api_url(&config, &listener)?;
        let embedded = place.is_none();
        let place = place.unwrap_or_else(|| Place::Sqlite(data.database()));
        if embedded {
            Store::migrate(&place, Direction::Up).await?;
        }
        let store = Arc::new(Store::open(&place, settings(&config)).await?);
        warn_of_provenance(&store);
        let file = KeyFile::new(&config.key.file, data.path());
        let keys = Keyring::open(file, Arc::clone(&store)).await?;
        admit_holders(&config, &store).await?;
        place::admit(&store, &data.token()?).await?;
        if embedded {
            seed::seed(&store, LOCAL_WORLD).await?;
        }
        let tally = Arc::new(Tally::default());
        let lifetime = Lifetime::new(config.tokens.lifetime.0);
        let lifetime = lifetime.map_err(|why| ServerError::usage(why.to_string()))?;
        let records = Arc::new(SqlWorldRecords(Arc::clone(&store)));
        let guards = Guards::new(records, guard_config(&config), Arc::clone(&tally));
        let mesh = Mesh::new(mesh_config(&config), Arc::clone(&tally));
        let control = SqlControlPlane {
            store: Arc::clone(&store),
            keys: Arc::new(keys),
            lifetime,
            guards: Arc::new(guards),
            mesh: Arc::new(mesh),
            alarms: Arc::default(),
        };
        let fleet = Arc::new(usher_fleet::tally::Tally::default());
        Ok(Self { config, data, listener, connections, url, store, plane: control, tally, fleet })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Runs until SIGTERM or SIGINT, then stops everything in order.
    pub async fn run(self) -> Result<(), ServerError> {
        let asked_to_stop = asked_to_stop();
        let agents = self.agents()?;
        let root = self.data.world();
        let local = LocalWorld::open(root, agents, self.plane.clone()).await;
        let local = Arc::new(local.map_err(|why| ServerError::unavailable(chain(&why)))?);
        let mut worlds = Worlds::default();
        worlds.attach(LOCAL_WORLD, local.clone());
        let worlds = Arc::new(worlds);
        let (stopping, stop) = watch::channel(false);
        let mut parts = Parts::start(&self, &local, &worlds, &stop)?;
        let (break_down, mut broken) = mpsc::channel(1);
        parts.tasks.extend(self.start_fleet(&local, &stop, break_down).await?);
        let router = self.router(worlds, &stop)?;
        let _announced = self.data.announce(&self.url)?;
        tracing::info!(url = self.url, data_dir = %self.data.path().display(), "serving");
        let serving = usher_listen::serve(self.listener, router, self.connections, stop.clone());
        let mut serving = tokio::spawn(serving);
        let ended = tokio::select! {
            () = asked_to_stop => Ok(()),
            Some(why) = broken.recv() => Err(why),
        };
        tracing::info!("stopping: finishing running steps and releasing leases");
        // Another process may take the port as soon as it is free.
        self.data.withdraw();
        stopping.send_replace(true);
        if timeout(LAST_ANSWERS, &mut serving).await.is_err() {
            serving.abort();
            tracing::warn!("open requests were cut off");
        }
        parts.end().await;
        self.store.close().await;
        ended
    }

    /// What runs the agents of the local world.
    fn agents(&self) -> Result<Agents, ServerError> {
        let grace = self.config.local.agent_grace.0;
        match self.config.local.agent {
            AgentMode::External => Ok(Agents::External),
            AgentMode::Process => {
                let program: PathBuf = std::env::current_exe().map_err(|why| {
                    ServerError::unavailable(format!("cannot find this program: {why}"))
                })?;
                Ok(Agents::Process { program, grace })
            }
            AgentMode::Fleet => {
                let shard = fleet::settings::shard_id(&self.config)?;
                let holding = Holding { store: Arc::clone(&self.store), shard, grace };
                let wait = self.config.local.wait_interval.0;
                Ok(Agents::Fleet(composer::Fleet { machines: Arc::new(holding), wait }))
            }
        }
    }

    /// Starts the shard, and the local provider where the settings name no other.
    async fn start_fleet(
        &self,
        world: &LocalWorld<SqlControlPlane>,
        stop: &watch::Receiver<bool>,
        break_down: mpsc::Sender<ServerError>,
    ) -> Result<Vec<JoinHandle<()>>, ServerError> {
        let mut tasks = vec![];
        let mut at = fleet::settings::provider(&self.config);
        let bootstrap: Arc<dyn Bootstrap> = match self.config.local.agent {
            AgentMode::External | AgentMode::Process => Arc::new(Nothing),
            AgentMode::Fleet => Arc::new(PartBoots(world.registry().clone())),
        };
        if self.config.local.agent == AgentMode::Fleet && at.is_none() {
            let root = self.data.path().join(FLEET);
            let hosts_folder = home::HostsFolder::open(root, self.config.local.clone())?;
            at = Some(At { name: home::NAME.to_owned(), address: hosts_folder.address() });
            // An error ends the start; a lock of another server is waited for.
            let first = hosts_folder.take().await?;
            let stop = stop.clone();
            tasks.push(tokio::spawn(async move {
                if let Err(why) = hosts_folder.keep(first, stop).await {
                    // The receiver stops the server at the first error.
                    let _ = break_down.send(why).await;
                }
            }));
        }
        if let Some(at) = at {
            let parts = (&self.store, bootstrap);
            let shard = fleet::settings::shard(&self.config, at, parts, &self.fleet)?;
            tasks.push(tokio::spawn(shard.run(stop.clone())));
        }
        Ok(tasks)
    }

    fn router(
        &self,
        worlds: Arc<Worlds>,
        stop: &watch::Receiver<bool>,
    ) -> Result<axum::Router, ServerError> {
        let usage = |why: String| ServerError::usage(why);
        let pins = Pins {
            api_url: self.url.parse().map_err(|why| usage(format!("{why}")))?,
            agent_image: self.config.agent_image.parse().map_err(|why| usage(format!("{why}")))?,
            key_keep: self.config.keep.idempotency_keys.0,
        };
        let services = Services {
            store: Arc::clone(&self.store),
            worlds,
            plane: self.plane.clone(),
            reconcilers: reconcilers(&self.config),
            pins,
            tally: Arc::clone(&self.tally),
            stop: stop.clone(),
        };
        let mut registry = Registry::default();
        self.tally.register(&mut registry);
        registry.register_collector(Box::new(StoreTally(Arc::clone(&self.store))));
        registry.register_collector(Box::new(MeshTally(Arc::clone(&self.plane.mesh))));
        let counts = Arc::clone(&self.connections.counts);
        registry.register_collector(Box::new(ConnectionTally(counts)));
        self.fleet.register(&mut registry);
        let metrics = usher_api::Metrics::register(&mut registry);
        let ports = Arc::new(services).ports();
        let state = AppState::new(ports, Arc::new(registry), metrics);
        let is_open = self.config.tls.client_ca.is_empty();
        Ok(if is_open { state } else { state.with_agent_certificates() }.router())
    }
}

/// The background tasks.
struct Parts {
    tasks: Vec<JoinHandle<()>>,
    keeper: JoinHandle<()>,
    stop_keeper: oneshot::Sender<()>,
}

impl Parts {
    fn start(
        server: &Server,
        local: &LocalWorld<SqlControlPlane>,
        worlds: &Arc<Worlds>,
        stop: &watch::Receiver<bool>,
    ) -> Result<Self, ServerError> {
        let Server { config, store, plane, tally, .. } = server;
        let (stop_keeper, stopped) = oneshot::channel();
        let keeper = local.keeper();
        let keeper = tokio::spawn(keeper.run(stopped, |item, why| {
            tracing::warn!(?item, error = %chain(why), "failed to reconcile a local object");
        }));
        let steps = WorldSteps {
            store: Arc::clone(store),
            worlds: Arc::clone(worlds),
            reconcilers: reconcilers(config),
            tally: Arc::clone(tally),
        };
        let worker_config = worker::WorkerConfig {
            steps_max: usize::try_from(config.worker.steps_max).unwrap_or(usize::MAX),
            step_deadline: config.worker.step_deadline.0,
            due_query: config.worker.due_query.0,
        };
        let (store, tally) = (Arc::clone(store), Arc::clone(tally));
        let worker =
            Worker::new(Arc::clone(&store), Arc::new(steps), worker_config, Arc::clone(&tally));
        let waker = |(name, attached): (&str, &Attached)| Waker {
            store: Arc::clone(&store),
            name: name.to_owned(),
            attached: attached.clone(),
            tally: Arc::clone(&tally),
        };
        let wakers: Vec<Waker> = worlds.iter().map(waker).collect();
        let (alarms, mesh) = (Arc::clone(&plane.alarms), Arc::clone(&plane.mesh));
        let house = housekeeping::HousekeepingConfig {
            retention: Retention { events: config.keep.events.0, ..Retention::default() },
            keep: config.keep.tombstones.0,
            write_down: WRITE_DOWN,
        };
        let guards = Arc::clone(&plane.guards);
        let relay = relay(&store)?;
        let mut relay_stop = stop.clone();
        let mut tasks = vec![
            tokio::spawn(worker.run(stop.clone())),
            tokio::spawn(alarms.run(Arc::clone(&store), stop.clone())),
            tokio::spawn(
                PresencePoller::new(Arc::clone(&store), Arc::clone(&mesh)).run(stop.clone()),
            ),
            tokio::spawn(mesh.listen(Arc::clone(&store), stop.clone())),
            tokio::spawn(housekeeping::run(store, guards, house, stop.clone())),
            tokio::spawn(relay.run(async move {
                let _ = relay_stop.wait_for(|it| *it).await;
            })),
        ];
        tasks.extend(wakers.into_iter().map(|it| tokio::spawn(it.run(stop.clone()))));
        Ok(Self { tasks, keeper, stop_keeper })
    }

    /// Waits for all tasks to end; the keeper last, because running steps need it.
    async fn end(self) {
        for task in self.tasks {
            if let Err(why) = task.await {
                tracing::error!(error = %why, "background task failed");
            }
        }
        let _ = self.stop_keeper.send(());
        let _ = self.keeper.await;
    }
}

fn relay(store: &Arc<Store>) -> Result<Relay, ServerError> {
    let secrets = Arc::new(SecretsOf(crate::config::variable));
    let relay = Relay::new(Arc::clone(store), secrets, relay::RelayConfig::default());
    relay.map_err(|why| ServerError::unavailable(chain(&why)))
}

/// Ends at SIGTERM or SIGINT; the handlers are installed by this call.
fn asked_to_stop() -> impl Future<Output = ()> {
    let asked = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut term), Ok(mut int)) = asked else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

/// Logs a warning if the database was moved or recovered.
fn warn_of_provenance(store: &Store) {
    match store.installation().provenance {
        Provenance::New | Provenance::Known => {}
        Provenance::Recovered => tracing::warn!(
            "database server promoted or recovered: commits that were seen may be missing"
        ),
        Provenance::Moved { before } => tracing::warn!(
            %before,
            "database moved: this is a new installation that owns none of the recorded objects"
        ),
    }
}

/// Refuses a change of `local.agent` while agents of the previous mode exist: they would become
/// orphans.
fn admit_agents(config: &Config, data: &DataDir) -> Result<(), ServerError> {
    let unreadable = |why| ServerError::unavailable(format!("failed to list agents: {why}"));
    let processes = usher_local::has_processes(&data.world()).map_err(unreadable)?;
    let hosts = usher_hosts::has_hosts(&data.path().join(FLEET)).map_err(unreadable)?;
    let at_home = config.local.agent == AgentMode::Fleet && config.fleet.provider.is_empty();
    if hosts && !at_home {
        return Err(ServerError::usage(
            "cannot leave the machines of this directory: set local.agent=fleet without \
            fleet.provider, and deprovision what runs on them first",
        ));
    }
    if processes && config.local.agent == AgentMode::Fleet {
        return Err(ServerError::usage(
            "cannot run agents on the fleet: this directory has agents that are not on its \
            machines; set local.agent=process (or external, if it was), deprovision them, and \
            start again",
        ));
    }
    Ok(())
}

/// Refuses a change of the provider while resources hold its machines: they would become orphans,
/// and no other provider can answer for them.
async fn admit_holders(config: &Config, store: &Store) -> Result<(), ServerError> {
    let provider = match (config.local.agent, fleet::settings::provider(config)) {
        (AgentMode::Fleet, Some(at)) => at.name,
        (AgentMode::Fleet, None) => home::NAME.to_owned(),
        (AgentMode::Process | AgentMode::External, _) => String::new(),
    };
    let Some((holder, other)) = store.holder_beside(&provider).await? else { return Ok(()) };
    Err(ServerError::usage(format!(
        "cannot leave the machines of provider \"{other}\": resource {holder} holds one; set \
         local.agent=fleet with that provider as before, deprovision what runs there, and start \
         again"
    )))
}

fn settings(config: &Config) -> Settings {
    let config::Worker { lease, request_bound, back_off_base, back_off_max, .. } = &config.worker;
    Settings {
        pace: Pace { lease: lease.0, base: back_off_base.0, max: back_off_max.0 },
        request_bound: request_bound.0,
        connections_max: config.database.connections_max,
        statement_timeout: config.database.statement_timeout.0,
        log_poll: config.database.log_poll.0,
        ..Settings::default()
    }
}

fn reconcilers(config: &Config) -> Reconcilers {
    let config::Broker {
        reconcile_interval,
        provisioning_deadline,
        enrolment_deadline,
        drain_deadline,
        teardown_deadline,
    } = &config.broker;
    let mut reconcilers = Reconcilers::default();
    reconcilers.broker.interval = reconcile_interval.0;
    reconcilers.broker.deadlines.provisioning = provisioning_deadline.0;
    reconcilers.broker.deadlines.enrolment = enrolment_deadline.0;
    reconcilers.broker.deadlines.drain = drain_deadline.0;
    reconcilers.broker.deadlines.teardown = teardown_deadline.0;
    reconcilers.tombstone.interval = reconcile_interval.0;
    reconcilers.tombstone.keep = config.keep.tombstones.0;
    reconcilers.config.interval = reconcile_interval.0;
    reconcilers
}

fn guard_config(config: &Config) -> guard::Config {
    let config::GuardConfig { count, percent, window } = &config.guard;
    guard::Config {
        guard: MassDeletionGuard { count: *count, percent: *percent },
        window: window.0,
    }
}

fn mesh_config(config: &Config) -> mesh::MeshConfig {
    let config::Mesh { heartbeat, missed_max, drain_grace, acknowledgements } = &config.mesh;
    mesh::MeshConfig {
        heartbeat: Heartbeat { interval: heartbeat.0, missed_max: *missed_max },
        drain_timeouts: DrainTimeouts {
            acknowledgements: acknowledgements.0,
            grace: drain_grace.0,
        },
    }
}
