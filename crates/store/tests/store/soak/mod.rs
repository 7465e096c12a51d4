//! A writer is killed under load, again and again, and its database is checked each time: what was
//! acknowledged exists, nothing is half-written, no lease was granted twice, no wake-up was lost.
//!
//! The writer is this test program once more, in a process of its own; it prints what
//! it is about to do and what was acknowledged.

mod check;
mod journal;
mod writer;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use usher_store::Place;
use usher_store::migrate::Direction;
use usher_store::{Settings, Store};

use crate::asked;
use crate::test_store::TestDatabase;
use check::Checker;
use journal::Line;

/// How many rounds the tests run on each database, unless it is set otherwise.
const ROUNDS: u64 = 4;
/// The most rounds until a breakage must have been noticed.
const NOTICED: u64 = 300;

/// What the writer breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bend {
    /// An event is written by a second transaction.
    TellLater,
    /// A commit is acknowledged before it is done.
    AckEarly,
    /// A lease is taken away from its holder.
    DoubleLease,
    /// A release ignores the wake-ups since its claim.
    LoseWakeUp,
}

impl Bend {
    const ALL: [Self; 4] = [Self::TellLater, Self::AckEarly, Self::DoubleLease, Self::LoseWakeUp];

    fn word(self) -> String {
        format!("{self:?}")
    }

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// One round: a writer until it is killed, and its output.
#[expect(clippy::disallowed_methods, reason = "it is killed at some instant of the real clock")]
fn round(place: &Place, number: u64, bend: Option<Bend>) -> Vec<Line> {
    let (kind, path) = match place {
        Place::Postgres(url) => ("postgres", url.clone()),
        Place::Sqlite(path) => ("sqlite", path.display().to_string()),
    };
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["soak::writer::write_until_killed", "--exact", "--nocapture"])
        .env("USHER_SOAK_KIND", kind)
        .env("USHER_SOAK_PLACE", path)
        .env("USHER_SOAK_ROUND", number.to_string())
        .env("USHER_SOAK_BEND", bend.map_or_else(String::new, Bend::word))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok).filter_map(|line| Line::read(&line));
    let first = lines.next().unwrap();
    let reader = std::thread::spawn(move || std::iter::once(first).chain(lines).collect());
    // Some instants are early, in the first writes, and some are in the middle of everything.
    let mut random = usher_sim::rng::Rng::new(number);
    let delay = random.below(if number.is_multiple_of(3) { 60 } else { 400 });
    std::thread::sleep(Duration::from_millis(delay));
    let ended = writer.try_wait().unwrap();
    assert!(ended.is_none(), "the writer ended by itself: {ended:?}");
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap()
}

/// Runs rounds until one corrupts the database; returns how much was acknowledged.
async fn play(
    test_database: TestDatabase,
    rounds: u64,
    bend: Option<Bend>,
) -> Result<String, String> {
    Store::migrate(&test_database.place, Direction::Up).await.unwrap();
    let mut checker = Checker::default();
    for number in 0..rounds {
        let place = test_database.place.clone();
        let lines = tokio::task::spawn_blocking(move || round(&place, number, bend));
        let lines = lines.await.unwrap();
        until_writers_stop(&test_database).await;
        let store = Store::open(&test_database.place, Settings::default()).await.unwrap();
        let verdict = checker.check(&store, &test_database, &lines).await;
        store.close().await;
        verdict.map_err(|what| format!("round {number}: {what}"))?;
    }
    Ok(format!("{rounds} rounds, {checker:?}"))
}

/// Waits until the server has ended the sessions of a client that is gone.
async fn until_writers_stop(test_database: &TestDatabase) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while test_database.is_postgres() && test_database.number(sql).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn survives(test_database: TestDatabase, name: &str) {
    let rounds = asked("USHER_SOAK_ROUNDS", ROUNDS);
    match play(test_database, rounds, None).await {
        Ok(summary) => eprintln!("{name}: {summary}"),
        Err(what) => panic!("{name}: {what}"),
    }
}

/// Red by: each of the bends.
// Requirement: Q-22
#[tokio::test]
async fn a_killed_writer_corrupts_nothing_on_sqlite() {
    survives(TestDatabase::sqlite(), "SQLite").await;
}

/// Red by: each of the bends.
// Requirement: Q-22
#[tokio::test]
async fn a_killed_writer_corrupts_nothing_on_postgresql() {
    if let Some(test_database) = TestDatabase::postgres().await {
        survives(test_database, "PostgreSQL").await;
    }
}

/// Red by: a check that checks nothing.
// Requirement: Q-22
#[tokio::test]
async fn the_corruption_of_a_broken_writer_is_noticed() {
    for bend in Bend::ALL {
        let noticed = play(TestDatabase::sqlite(), NOTICED, Some(bend)).await;
        let what = noticed.expect_err(&format!("{bend:?} is not noticed"));
        eprintln!("{bend:?}: {what}");
    }
}
