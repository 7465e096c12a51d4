//! How often workers get something done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lets every worker repeat its job for so long, and returns the rate per second.
pub(crate) async fn pace<W, F>(workers: Vec<W>, span: Duration, deed: F) -> f64
where
    W: Send + 'static,
    F: AsyncDeed<W>,
{
    let done = Arc::new(AtomicU64::new(0));
    let deed = Arc::new(deed);
    let begun = Instant::now();
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let (done, deed) = (Arc::clone(&done), Arc::clone(&deed));
            tokio::spawn(async move {
                while begun.elapsed() < span {
                    let count = deed.run(&mut worker).await;
                    done.fetch_add(count, Ordering::Relaxed);
                    if count == 0 {
                        return;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let done = done.load(Ordering::Relaxed) as f64;
    done / begun.elapsed().as_secs_f64()
}

/// Something a worker does again and again; the answer is how often it counts, and nothing ends it.
pub(crate) trait AsyncDeed<W>: Send + Sync + 'static {
    fn run(&self, worker: &mut W) -> impl Future<Output = u64> + Send;
}
