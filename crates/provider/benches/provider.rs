//! Measures the cost of a mutation and, in the same run, of the bare disk.
//!
//! `--quick` makes everything smaller.
#![expect(clippy::unwrap_used, reason = "a failed measurement ends")]
#![expect(clippy::print_stdout, reason = "the table is its output")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use usher_provider::fake::{Fake, Settings};
use usher_provider::state::{Token, TransitionRequest, Verb};
use usher_provider::{Kit, Options};
use usher_wire::fleet::{ListFilter, MachineState as State};

/// How large everything is.
#[derive(Clone, Copy)]
struct Sizes {
    machines: [usize; 3],
    /// How long each round lasts.
    round: Duration,
    /// How many rounds there are; the middle one counts.
    rounds: usize,
    /// Concurrent callers.
    callers: usize,
}

const FULL: Sizes = Sizes {
    machines: [1_000, 10_000, 100_000],
    round: Duration::from_secs(2),
    rounds: 5,
    callers: 64,
};
const QUICK: Sizes = Sizes {
    machines: [1_000, 10_000, 100_000],
    round: Duration::from_millis(500),
    rounds: 3,
    callers: 64,
};

fn main() {
    let quick = std::env::args().any(|it| it == "--quick");
    let sizes = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!(
        "| machines | bare append+fdatasync/s | p50 / p99 | one caller: mutations/s | p50 / p99 \
         | {} callers: mutations/s | full list |",
        sizes.callers
    );
    println!("|---|---|---|---|---|---|---|");
    for machines in sizes.machines {
        let folder = tempfile::tempdir_in(".").unwrap();
        runtime.block_on(measure(folder.path(), machines, sizes));
    }
    println!(
        "\nA mutation is a Create, Configure or Drain that was accepted and is durable; \
         its end is a second entry of the same journal. The disk is that of the working directory."
    );
}

async fn measure(folder: &Path, machines: usize, sizes: Sizes) {
    let settings = Settings { seed_count: machines, ..Settings::default() };
    let options =
        Options { state: Some(folder.join("state")), poll_interval: None, ..Options::default() };
    let kit = Kit::start(Fake::new(settings).unwrap(), options).await.unwrap();
    // Not measured: the first snapshot, which many new machines cause.
    mutate(&kit, sizes.callers, sizes).await;
    let (mut bare, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare_times, mut times) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let (rate, took) = append(&folder.join("bare"), sizes.round);
        bare.push(rate);
        bare_times.extend(took);
        let (rate, took) = mutate(&kit, 1, sizes).await;
        one.push(rate);
        times.extend(took);
        many.push(mutate(&kit, sizes.callers, sizes).await.0);
    }
    let begun = Instant::now();
    let listed = kit.list(&ListFilter::default()).await.unwrap().machines.len();
    let list = begun.elapsed();
    assert_eq!(listed, machines);
    println!(
        "| {machines} | {:.0} | {} | {:.0} | {} | {:.0} | {list:.1?} |",
        middle(bare),
        quantiles(bare_times),
        middle(one),
        quantiles(times),
        middle(many),
    );
}

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    format!("{:.2?} / {:.2?}", at(50), at(99))
}

/// The bare disk: appends the bytes of an entry and syncs, again and again.
fn append(path: &Path, time: Duration) -> (f64, Vec<Duration>) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let bytes = [7; 350];
    let (begun, mut took) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let one = Instant::now();
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        took.push(one.elapsed());
    }
    (rate(took.len(), begun.elapsed()), took)
}

/// Concurrent callers that drive machines of their own.
async fn mutate(kit: &Kit<Fake>, callers: usize, sizes: Sizes) -> (f64, Vec<Duration>) {
    let all = kit.list(&ListFilter::default()).await.unwrap().machines;
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let mine = all.iter().skip(caller).step_by(callers);
        let mut mine: Vec<(String, State)> = mine.map(|it| (it.id.clone(), it.state())).collect();
        let kit = kit.clone();
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::new();
            let mut at = 0;
            while begun.elapsed() < sizes.round {
                at = (at + 1) % mine.len();
                let (id, state) = &mut mine[at];
                if let Some(time) = step(&kit, id, state).await {
                    took.push(time);
                }
            }
            took
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    (rate(took.len(), begun.elapsed()), took)
}

fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / time.as_secs_f64()
}

/// Calls the next verb of a machine; `None` if the last one has not ended.
async fn step(kit: &Kit<Fake>, id: &str, state: &mut State) -> Option<Duration> {
    static SEQUENCE: AtomicI64 = AtomicI64::new(1);
    let (verb, next) = match state {
        State::Speculative | State::Deleting => (Verb::Create, State::Creating),
        State::Idle | State::Creating | State::Draining => (configure(), State::Configuring),
        State::Configured | State::Configuring => {
            (Verb::Drain { grace_seconds: 0 }, State::Draining)
        }
        State::Failed | State::Unspecified => return None,
    };
    let sequence = SEQUENCE.fetch_add(1, Ordering::SeqCst);
    let token = Token { shard: "shard-0".to_owned(), epoch: 1, sequence };
    let request = TransitionRequest { machine: id.to_owned(), token, verb };
    let begun = Instant::now();
    // A call during the last operation is refused and not counted.
    let accepted = kit.transition(&request).await.ok()?;
    accepted.work?;
    *state = next;
    Some(begun.elapsed())
}

fn configure() -> Verb {
    let key = |name: &str| format!("bigfleet.lucy.sh/assigned-{name}");
    let metadata = [(key("priority"), "1000"), (key("need-fingerprint"), "0123456789abcdef")];
    let metadata = metadata.map(|(key, value)| (key, value.to_owned())).into();
    Verb::Configure { cluster: "c".to_owned(), blob: "bootstrap".into(), metadata }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
