//! A single-threaded runtime with a paused clock, for property tests.

/// Runs a future with a paused clock.
pub(crate) fn run_paused<T>(deed: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(deed)
}
