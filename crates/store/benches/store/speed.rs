//! Accepts, commits and claims per second, beside bare transactions.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::broker::accept;
use usher_domain::broker::event::Event;
use usher_kernel::{NameState, Record, Wake};
use usher_store::{Acceptance, Leased, Release, ResourceWrite, Store, WorkItem};
use uuid::Uuid;

use crate::Sizes;
use crate::bare::{Bare, Shape};
use crate::bench_env::BenchEnv;
use crate::count::statements;
use crate::declare::{World, record, write};
use crate::depth;
use crate::pace::{AsyncDeed, pace};
use crate::report::{middle, say};

const WORKERS: [usize; 3] = [1, 8, 64];
/// How many items are due when claims are measured.
const WAITING: u64 = 40_000;
/// How many resources one worker commits to in turn.
const RESOURCES: usize = 8;

/// A verb of the store, and how to prepare workers for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Accept,
    AcceptOneCredential,
    Commit,
    Claim,
    ClaimMany,
}

impl Verb {
    const ALL: [Self; 5] =
        [Self::Accept, Self::AcceptOneCredential, Self::Commit, Self::Claim, Self::ClaimMany];

    const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::AcceptOneCredential => "accept, one credential for all",
            Self::Commit => "commit: state, name, event, release",
            Self::Claim => "claim of one",
            Self::ClaimMany => "claim of 16, counted singly",
        }
    }

    /// How many it requests at once.
    const fn batch(self) -> u32 {
        if matches!(self, Self::ClaimMany) { 16 } else { 1 }
    }

    /// What a bare transaction of as many statements is made of.
    fn shape(self, statements: u64) -> Shape {
        match self {
            // The placement is read; ProviderConfig, its version and its entry are updated.
            Self::Accept | Self::AcceptOneCredential => {
                Shape { selects: 1, updates: 3, inserts: statements - 4 }
            }
            // Version, state and entry are updated.
            Self::Commit => Shape { updates: 3, inserts: statements - 3, selects: 0 },
            // Leases are updated.
            Self::Claim | Self::ClaimMany => {
                Shape { updates: 1, selects: statements - 1, inserts: 0 }
            }
        }
    }
}

pub(crate) async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    let bare = Bare::new(bench_env).await;
    let overhead = overhead(bench_env).await;
    say("\n| verb | statements | workers | store/s | bare/s | store : bare |");
    say("|---|---:|---:|---:|---:|---:|");
    for verb in Verb::ALL {
        let mut workers = prepare(bench_env, verb, 1).await;
        // The first claim may read before it writes.
        Box::pin(verb.run(&mut workers[0])).await;
        let counted = Box::pin(statements(verb.run(&mut workers[0]))).await;
        let shape = verb.shape(counted - overhead);
        for count in WORKERS {
            let (mut ours, mut theirs) = (vec![], vec![]);
            for _ in 0..sizes.rounds {
                let span = Duration::from_millis(sizes.round_ms);
                let mut rows = vec![];
                for _ in 0..count {
                    rows.push((bare.clone(), shape, bare.row().await));
                }
                theirs.push(pace(rows, span, BareDeed).await);
                let workers = prepare(bench_env, verb, count).await;
                ours.push(pace(workers, span, verb).await);
            }
            let (ours, theirs) = (middle(ours), middle(theirs));
            let (name, statements) = (verb.name(), shape.statements());
            let ratio = ours / theirs;
            say(format_args!(
                "| {name} | {statements} | {count} | {ours:.0} | {theirs:.0} | {ratio:.2} |"
            ));
        }
    }
}

/// How many statements a transaction of the store has around the verb's own.
async fn overhead(bench_env: &BenchEnv) -> u64 {
    let world = World::new(&bench_env.store).await;
    let id = world.declare("woken").await.id();
    bench_env.store.wake(WorkItem::Resource(id)).await.unwrap();
    statements(bench_env.store.wake(WorkItem::Resource(id))).await - 1
}

struct BareDeed;

impl AsyncDeed<(Bare, Shape, Uuid)> for BareDeed {
    async fn run(&self, (bare, shape, row): &mut (Bare, Shape, Uuid)) -> u64 {
        bare.transaction(*shape, *row).await;
        1
    }
}

/// A worker, with what is prepared for it.
struct Worker {
    store: Arc<Store>,
    acceptances: Vec<Acceptance>,
    writes: Vec<ResourceWrite>,
    turn: usize,
}

impl AsyncDeed<Worker> for Verb {
    async fn run(&self, worker: &mut Worker) -> u64 {
        match self {
            Self::Accept | Self::AcceptOneCredential => {
                let Some(acceptance) = worker.acceptances.pop() else { return 0 };
                worker.store.accept(acceptance).await.unwrap();
                1
            }
            Self::Commit => {
                worker.turn = (worker.turn + 1) % worker.writes.len();
                let write = &mut worker.writes[worker.turn];
                worker.store.commit(write.clone()).await.unwrap();
                write.version = write.version.next();
                std::mem::swap(&mut write.before, &mut write.next);
                1
            }
            Self::Claim | Self::ClaimMany => {
                let batch = worker.store.claim_due(self.batch()).await.unwrap();
                u64::try_from(batch.leased.len()).unwrap()
            }
        }
    }
}

async fn prepare(bench_env: &BenchEnv, verb: Verb, count: usize) -> Vec<Worker> {
    let worlds: Vec<World> = {
        let mut worlds = vec![];
        for _ in 0..count {
            worlds.push(World::new(&bench_env.store).await);
        }
        worlds
    };
    if matches!(verb, Verb::Claim | Verb::ClaimMany) {
        let resource = worlds[0].declare("first").await;
        let waiting = "SELECT COUNT(*) FROM queue WHERE lease_until IS NULL AND due IS NOT NULL";
        let waiting = u64::try_from(bench_env.number(waiting).await).unwrap();
        depth::fill_queue(bench_env, resource.id(), WAITING.saturating_sub(waiting)).await;
    }
    let mut workers = vec![];
    for world in &worlds {
        let of = if verb == Verb::AcceptOneCredential { &worlds[0] } else { world };
        workers.push(Worker {
            store: Arc::clone(&bench_env.store),
            acceptances: match verb {
                Verb::Accept | Verb::AcceptOneCredential => acceptances(of, count).await,
                Verb::Commit | Verb::Claim | Verb::ClaimMany => vec![],
            },
            writes: if verb == Verb::Commit { writes(of).await } else { vec![] },
            turn: 0,
        });
    }
    workers
}

/// More declarations than one worker can make in a round, resolved and ready to be written.
async fn acceptances(world: &World, workers: usize) -> Vec<Acceptance> {
    let command = world.command("first");
    let snapshot = world.store.snapshot(&command, None).await.unwrap();
    if snapshot.views.provider_config.is_none() {
        world.declare("first").await;
    }
    let command = world.command("later");
    let snapshot = world.store.snapshot(&command, None).await.unwrap();
    (0..(12_000 / workers).max(1_000))
        .map(|_| {
            let mut command = command.clone();
            command.name = format!("r{}", Uuid::now_v7().simple());
            let (views, minted) = (&snapshot.views, &world.minted());
            let accepted = accept::provision(&command, views, minted, snapshot.now).unwrap();
            Acceptance { accepted, audit: None, key: None }
        })
        .collect()
}

/// Writes that change the state, one name, the log and the queue, each as often as requested.
async fn writes(world: &World) -> Vec<ResourceWrite> {
    let mut writes = vec![];
    for turn in 0..RESOURCES {
        let id = world.declare(&format!("c{turn}")).await.id();
        let item = WorkItem::Resource(id);
        let leased = claimed(world, item).await;
        let record: &Record<_> = record(&leased);
        let mut write = write(
            record,
            |it| it.updated_at = it.updated_at.after(Duration::from_secs(1)),
            Some(Event::Ready),
        );
        write.rows = record.name_ledger.rows().iter().take(1).cloned().collect();
        for row in &mut write.rows {
            row.state = NameState::Seen;
        }
        let (claim, wake) = (leased.claim, Wake::OnChange);
        write.release = Some(Release { item, claim, wake, reason: "AsDeclared" });
        writes.push(write);
    }
    writes
}

/// Claims until this item comes, and releases the others.
async fn claimed(world: &World, item: WorkItem) -> Leased {
    loop {
        let batch = world.store.claim_due(64).await.unwrap();
        for leased in batch.leased {
            if leased.item == item {
                return leased;
            }
        }
    }
}
