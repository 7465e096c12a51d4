//! Counts statements: sqlx checks for every one of them whether it should be logged.

use std::sync::atomic::{AtomicU64, Ordering};

use log::{LevelFilter, Log, Metadata, Record};

static STATEMENTS: AtomicU64 = AtomicU64::new(0);

struct Counter;

impl Log for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.target() == "sqlx::query" {
            STATEMENTS.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    fn log(&self, _: &Record<'_>) {}

    fn flush(&self) {}
}

/// To be called once.
pub(crate) fn install() {
    log::set_logger(&Counter).unwrap();
    log::set_max_level(LevelFilter::Off);
}

/// How many statements this takes, with those of the transaction around it.
pub(crate) async fn statements<T>(job: impl Future<Output = T>) -> u64 {
    log::set_max_level(LevelFilter::Debug);
    let before = STATEMENTS.load(Ordering::Relaxed);
    job.await;
    let after = STATEMENTS.load(Ordering::Relaxed);
    log::set_max_level(LevelFilter::Off);
    after - before
}
