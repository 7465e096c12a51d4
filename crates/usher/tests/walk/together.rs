//! Concurrent futures on one task.

use std::task::Poll;

pub(crate) async fn side_by_side<T>(work: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = work.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        for (work, done) in running.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(it) = work.as_mut().poll(context) {
                *done = Some(it);
            }
        }
        let all = running.iter().all(|(_, done)| done.is_some());
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}
