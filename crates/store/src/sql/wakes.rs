//! Writes that wake a life, and take its lease as well if somebody takes that over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use usher_domain::audit;
use usher_domain::broker::accept::Accepted;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::consequence::Consequences;
use usher_domain::object::id::ResourceId;
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Request};
use usher_kernel::schedule::Entry;
use usher_kernel::{Book, Record, Version};
use uuid::Uuid;

use super::super::Door;
use super::accept::Declared;
use super::commit::{Burial, Step};
use super::enrolment::Stirred;
use super::port::Port;
use super::queue::Taking;
use super::{accept, command, enrolment, queue};
use crate::error::Error;
use crate::handover::Seat;
use crate::jitter;
use crate::life::Life;
use crate::port::{Acceptance, Held, Leased, Order, ResourceWrite};
use crate::signal::Signals;
use crate::turn::Turns;

/// What follows a write that wakes. It is done also if whoever asked gives up waiting: a lease that
/// was taken and that nobody is told of would last until it ends.
struct Onward {
    door: Door,
    signals: Arc<Signals>,
    turns: Arc<Turns>,
    seat: Option<Seat>,
}

impl Onward {
    /// Hands a life over whose lease is written.
    async fn hand(self, leased: Leased) {
        let Some(seat) = self.seat else { return };
        let (life, claim) = (leased.life, leased.claim);
        if seat.hand(leased) {
            return;
        }
        // Its taker has just stopped. The lease ends by itself if this cannot be written.
        let back = self.door.write_one(move |conn| Box::pin(queue::give_back(conn, life, claim)));
        let _ = back.await;
    }

    /// Sees to it that whom a write woke is looked at: by whoever takes it over, by whoever steps
    /// it here, or by whoever looks who is due.
    async fn pass_on(self, stirred: Stirred) {
        match stirred {
            Stirred::Nobody => {}
            Stirred::Leased(leased) => self.hand(*leased).await,
            Stirred::Woken(life, wake_seq) => {
                if !self.turns.note_written(life, wake_seq) {
                    self.signals.stir();
                }
            }
        }
    }
}

impl Port {
    pub(crate) async fn accept(&self, acceptance: Acceptance) -> Result<(), Error> {
        let (onward, write_id) = (self.onward(true), Uuid::now_v7());
        let Accepted { resource, rows, .. } = &acceptance.accepted;
        let (id, now) = (resource.id(), resource.fields().created_at);
        let mut entry = Entry::new(now);
        let taking = self.taking(&onward);
        let claim = taking.and_then(|(pace, jitter)| entry.claim(&pace, jitter, now));
        let (state, book) = (resource.clone(), Book::new(rows.iter().cloned()));
        let record = Record { version: Acceptance::VERSION, state, book };
        let declared = Declared { acceptance, write_id, entry, stirs: AtomicBool::new(false) };
        let (declared, accepts) = (Arc::new(declared), Arc::clone(&self.accepts));
        let written = to_its_end(async move {
            let written = accepts.write(&onward.door, Arc::clone(&declared)).await;
            onward.signals.tell_of(&written);
            let others = declared.stirs.load(Ordering::Relaxed);
            if claim.is_none() || others || written.is_err() {
                onward.signals.stir_of(&written);
            }
            if let (Some(claim), Ok(())) = (claim, &written) {
                let (life, record) = (Life::Resource(id), Held::Resource(Box::new(record)));
                onward.hand(Leased { life, claim, record, now }).await;
            }
            written
        });
        match written.await {
            Err(Error::OutcomeUnknown { source }) => match self.written(*id.as_uuid()).await? {
                Some(_) => Ok(()),
                None => Err(Error::new("accept a declaration", source)),
            },
            other => other,
        }
    }

    pub(crate) async fn commit(&self, write: ResourceWrite) -> Result<(), Error> {
        self.commit_with(write, None).await
    }

    /// As [`Port::commit`], by one who knows the identity rows before it: with them a tombstone
    /// that begins by it is handed over.
    pub(crate) async fn commit_with(
        &self,
        write: ResourceWrite,
        before: Option<&Book>,
    ) -> Result<(), Error> {
        let (write_id, bound) = (Uuid::now_v7(), self.settings.request_bound);
        let (id, version) = (write.next.id(), write.version);
        let (tells, ends) = (write.event.is_some(), write.lease.is_none());
        let buries = Consequences::of(&write.before, &write.next).bury;
        let book = before.filter(|_| buries).map(|it| it.with(&write.rows));
        let onward = self.onward(book.is_some());
        let burial = self.taking(&onward).map(|taking| Burial { taking, begun: Mutex::default() });
        let state = write.next.clone();
        let record = book.map(|book| Record { version: version.next(), state, book });
        let (step, commits) =
            (Arc::new(Step { write, write_id, bound, burial }), Arc::clone(&self.commits));
        let written = to_its_end(async move {
            let written = commits.write(&onward.door, Arc::clone(&step)).await;
            if tells {
                onward.signals.tell_of(&written);
            }
            // Whoever goes on under its lease is not due, and makes nobody so.
            if ends {
                onward.signals.stir_of(&written);
            }
            let begun = step.burial.as_ref().and_then(|it| {
                let begun = it.begun.lock();
                *begun.unwrap_or_else(PoisonError::into_inner)
            });
            if let (Some((claim, now)), Some(record), Ok(())) = (begun, record, &written) {
                let (life, record) = (Life::Tombstone(id), Held::Resource(Box::new(record)));
                onward.hand(Leased { life, claim, record, now }).await;
            }
            written
        });
        self.known(written.await, (*id.as_uuid(), version), write_id).await
    }

    pub(crate) async fn order(
        &self,
        id: ResourceId,
        order: Order,
        audit: Option<audit::Entry>,
    ) -> Result<(Resource, Version), Error> {
        let (write_id, bound) = (Uuid::now_v7(), self.settings.request_bound);
        let onward = self.onward(true);
        let taking = self.taking(&onward);
        // It may be the last user of its ProviderConfig.
        let parts = matches!(order, Order::Abandon { .. });
        to_its_end(async move {
            let written = onward.door.write(move |conn| {
                Box::pin(async move {
                    let audit = audit.as_ref();
                    command::carry_out(conn, (id, &order), audit, (write_id, bound, taking)).await
                })
            });
            let written = written.await;
            onward.signals.tell_of(&written);
            if parts || !written.as_ref().is_ok_and(|(.., leased)| leased.is_some()) {
                onward.signals.stir_of(&written);
            }
            let (next, version, leased) = written?;
            if let Some(leased) = leased {
                onward.hand(leased).await;
            }
            Ok((next, version))
        })
        .await
    }

    pub(crate) async fn redeem(&self, request: Request) -> Result<Outcome, Error> {
        let onward = self.onward(true);
        let how = (self.taking(&onward), self.settings.request_bound);
        to_its_end(async move {
            let written = onward.door.write(move |conn| {
                Box::pin(async move { enrolment::redeem(conn, &request, how).await })
            });
            let written = written.await.inspect_err(|_| onward.signals.stir());
            let (outcome, stirred) = written?;
            onward.pass_on(stirred).await;
            Ok(outcome)
        })
        .await
    }

    pub(crate) async fn move_peer(
        &self,
        before: Peer,
        after: Peer,
        audit: Option<audit::Entry>,
    ) -> Result<(), Error> {
        let onward = self.onward(true);
        let how = (self.taking(&onward), self.settings.request_bound);
        to_its_end(async move {
            let written = onward.door.write(move |conn| {
                Box::pin(async move {
                    let stirred = enrolment::leave(conn, (&before, &after), how).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(stirred)
                })
            });
            let stirred = written.await.inspect_err(|_| onward.signals.stir())?;
            onward.pass_on(stirred).await;
            Ok(())
        })
        .await
    }

    /// What follows a write, with a seat for whom it wakes if it wakes somebody and there is one.
    fn onward(&self, wakes: bool) -> Onward {
        Onward {
            door: self.door.clone(),
            signals: Arc::clone(&self.signals),
            turns: Arc::clone(&self.turns),
            seat: if wakes { self.handover.seat() } else { None },
        }
    }

    /// How a lease is taken by the write that wakes, if there is a seat for it.
    fn taking(&self, onward: &Onward) -> Option<Taking> {
        onward.seat.as_ref().map(|_| (self.settings.pace, jitter()))
    }
}

async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.map_err(|_| Error::Closed)?
}
