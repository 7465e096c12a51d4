//! A runtime for properties: one thread, and a clock that jumps to whatever is waited for.

/// Runs to the end, however long that would have taken.
pub(crate) fn jumping<T>(deed: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(deed)
}
