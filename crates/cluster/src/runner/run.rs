//! The loop of a runner, one term after another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use usher_kernel::schedule::Claim;
use usher_kernel::{Stopped, Trouble};

use super::context::Context;
use super::list::Following;
use super::queue::{After, Claimed, Ended};
use super::{Count, Item, ObjectRunner, Stepped};
use crate::lease::Term;
use crate::watches::Interest;

/// The running steps of a term.
struct Running<K> {
    tasks: JoinSet<Left>,
    /// The item of each task, needed if the task panics.
    claims: HashMap<Id, (Arc<K>, Claim)>,
}

/// What a task leaves: how its step ended unless it was too slow, and what it depends on.
type Left = (Option<Stepped>, Vec<Interest>);

/// Why no more steps are begun.
enum Why {
    /// The running ones may be finished.
    Finish,
    /// The term has ended: they are cancelled.
    Cut,
}

impl<I: Item> ObjectRunner<I> {
    /// Runs until it is stopped or the elector is gone, in each term that the elector publishes.
    /// A term that is withdrawn without having ended is used until the running steps are finished.
    pub async fn run(
        self,
        mut lease: watch::Receiver<Option<Term>>,
        mut stop: watch::Receiver<bool>,
    ) {
        while let Some(term) = next_term(&mut lease, &mut stop).await {
            self.run_term(term, &mut lease, &mut stop).await;
        }
    }

    async fn run_term(
        &self,
        term: Term,
        lease: &mut watch::Receiver<Option<Term>>,
        stop: &mut watch::Receiver<bool>,
    ) {
        self.tally.count(Count::Terms);
        self.queue.begin(term.clone());
        let sources = self.item.sources().into_iter().map(|source| {
            let counted = (&self.config, &self.tally);
            Following::start((&self.item, &self.queue), &self.watches, source, counted)
        });
        let sources: Vec<Following> = sources.collect();
        let mut running = Running { tasks: JoinSet::new(), claims: HashMap::new() };
        let why = self.step_due(&mut running, &term, (lease, stop)).await;
        drop(sources);
        if let Why::Finish = why {
            self.finish(&mut running, &term).await;
        }
        let cut = running.tasks.len();
        if cut > 0 {
            running.tasks.shutdown().await;
            term.note_unanswered();
            self.tally.add(Count::Cancelled, cut);
            tracing::warn!(epoch = term.epoch(), steps = cut, "steps cancelled: their term ended");
        }
        self.queue.end();
    }

    /// Steps what is due until the term ends or is withdrawn.
    async fn step_due(
        &self,
        running: &mut Running<I::Key>,
        term: &Term,
        (lease, stop): (&mut watch::Receiver<Option<Term>>, &mut watch::Receiver<bool>),
    ) -> Why {
        loop {
            while running.tasks.len() < self.config.steps_max {
                let Some(claimed) = self.queue.claim() else { break };
                self.spawn(running, claimed, term);
            }
            let has_room = running.tasks.len() < self.config.steps_max;
            tokio::select! {
                biased;
                () = term.ended() => return Why::Cut,
                () = stopped(stop) => return Why::Finish,
                () = withdrawn(lease, term) => return Why::Finish,
                Some(ended) = running.tasks.join_next_with_id() => self.end(running, ended, term),
                () = self.queue.ready(), if has_room => {}
            }
        }
    }

    fn spawn(&self, running: &mut Running<I::Key>, claimed: Claimed<I::Key>, term: &Term) {
        let Claimed { key, claim, may_act_until, wake } = claimed;
        let term = (term.clone(), may_act_until);
        let context = Context::new(term, Arc::clone(&self.watches), wake);
        let (item, deadline) = (Arc::clone(&self.item), self.deadline());
        let task = running.tasks.spawn({
            let key = Arc::clone(&key);
            async move {
                let stepped = tokio::time::timeout(deadline, item.step(&key, &context)).await.ok();
                (stepped, context.into_interests())
            }
        });
        running.claims.insert(task.id(), (key, claim));
    }

    /// A step ends before its lease in the queue does.
    fn deadline(&self) -> Duration {
        self.config.step_deadline.min(self.config.pace.lease.mul_f64(0.9))
    }

    fn end(
        &self,
        running: &mut Running<I::Key>,
        ended: Result<(Id, Left), JoinError>,
        term: &Term,
    ) {
        let (id, ended) = match ended {
            Ok((id, (stepped, interests))) => (id, self.ended(stepped, interests)),
            Err(error) => {
                self.tally.count(Count::Panicked);
                let what = "the state after a step panicked: this is a bug".to_owned();
                let trouble = Trouble::Corrupt { what };
                (error.id(), Ended::Failed { trouble, interests: None })
            }
        };
        let Some((key, claim)) = running.claims.remove(&id) else { return };
        if let Ended::Failed { trouble, .. } = &ended {
            self.tally.count(Count::Troubles);
            tracing::warn!(item = %key, %trouble, "step not finished");
            match trouble {
                Trouble::Unavailable { .. } | Trouble::Corrupt { .. } => term.note_unanswered(),
                Trouble::Conflict | Trouble::Blocked { .. } | Trouble::Rejected { .. } => {}
            }
        }
        let (after, is_deaf) = self.queue.release((&key, &claim), self.config.deaf, ended);
        if is_deaf {
            self.tally.count(Count::Deaf);
        }
        if after == After::Parked {
            self.tally.count(Count::Parked);
            tracing::error!(item = %key, "item parked");
        }
    }

    fn ended(&self, stepped: Option<Stepped>, interests: Vec<Interest>) -> Ended {
        match stepped {
            None => {
                self.tally.count(Count::TooSlow);
                let trouble = Trouble::unavailable("the end of the step before its deadline");
                Ended::Failed { trouble, interests: None }
            }
            Some(Stepped::Stopped(Stopped { trouble, .. })) => {
                Ended::Failed { trouble, interests: Some(interests) }
            }
            Some(Stepped::Gone) => {
                self.tally.count(Count::Steps);
                Ended::Gone
            }
            Some(Stepped::Done { wake, acted }) => {
                self.tally.count(Count::Steps);
                if acted {
                    self.tally.count(Count::Acted);
                }
                Ended::Done { wake, acted, interests }
            }
        }
    }

    /// Waits for the running steps, which end by their deadline, unless the term ends before.
    async fn finish(&self, running: &mut Running<I::Key>, term: &Term) {
        loop {
            tokio::select! {
                biased;
                () = term.ended() => return,
                ended = running.tasks.join_next_with_id() => match ended {
                    Some(ended) => self.end(running, ended, term),
                    None => return,
                },
            }
        }
    }
}

/// The next term that has not ended; none if the runner is stopped, or the elector gone.
async fn next_term(
    lease: &mut watch::Receiver<Option<Term>>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Term> {
    tokio::select! {
        biased;
        () = stopped(stop) => None,
        term = lease.wait_for(|it| it.as_ref().is_some_and(|it| !it.has_ended())) => {
            term.ok().and_then(|it| it.clone())
        }
    }
}

/// Resolves when another term or none is published, or the elector is gone.
async fn withdrawn(lease: &mut watch::Receiver<Option<Term>>, term: &Term) {
    let epoch = Some(term.epoch());
    let _ = lease.wait_for(|it| it.as_ref().map(Term::epoch) != epoch).await;
}

/// Ends when the runner is stopped. A dropped sender counts as a stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
