//! Writes that wake a life, and take its lease as well if somebody takes that over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use usher_domain::audit;
use usher_domain::broker::accept::Accepted;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::consequence::Consequences;
use usher_domain::object::id::ResourceId;
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Request};
use usher_kernel::schedule::Entry;
use usher_kernel::{Book, Record, Timestamp, Version};
use uuid::Uuid;

use super::accept::Declared;
use super::commit::Step;
use super::enrolment::Stirred;
use super::port::Port;
use super::queue::Taking;
use super::{accept, command, enrolment};
use crate::error::Error;
use crate::handover::Seat;
use crate::jitter;
use crate::life::Life;
use crate::port::{Acceptance, Held, Leased, Order, ResourceWrite};

impl Port {
    pub(crate) async fn accept(&self, acceptance: Acceptance) -> Result<(), Error> {
        let write_id = Uuid::now_v7();
        let (seat, now) = (self.handover.seat(), acceptance.accepted.resource.fields().created_at);
        let Accepted { resource, rows, .. } = &acceptance.accepted;
        let (life, id) = (Life::Resource(resource.id()), *resource.id().as_uuid());
        let (state, book) = (resource.clone(), Book::new(rows.iter().cloned()));
        let record = Record { version: Acceptance::VERSION, state, book };
        let (entry, leased) = self.entered(seat.as_ref(), (life, Some(record)), now);
        let declared = Declared { acceptance, write_id, entry, stirs: AtomicBool::new(false) };
        let (declared, taken) = (Arc::new(declared), leased.is_some());
        let (door, accepts) = (self.door.clone(), Arc::clone(&self.accepts));
        let write = Arc::clone(&declared);
        let written = to_its_end(async move {
            accepts.write(&door, write).await?;
            hand(seat, leased);
            Ok(())
        });
        let written = written.await;
        self.tell(&written);
        if !taken || written.is_err() || declared.stirs.load(Ordering::Relaxed) {
            self.stir(&written);
        }
        match written {
            Err(Error::OutcomeUnknown { source }) => match self.written(id).await? {
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
        let (id, version) = (*write.next.id().as_uuid(), write.version);
        let (tells, ends) = (write.event.is_some(), write.lease.is_none());
        let begins = Consequences::of(&write.before, &write.next).bury;
        let book = before.filter(|_| begins).map(|it| it.with(&write.rows));
        let seat = book.as_ref().and_then(|_| self.handover.seat());
        let (state, now) = (write.next.clone(), write.next.fields().updated_at);
        let record = book.map(|book| Record { version: version.next(), state, book });
        let life = Life::Tombstone(write.next.id());
        let (tombstone, leased) = self.entered(seat.as_ref(), (life, record), now);
        let step = Arc::new(Step { write, write_id, bound, tombstone });
        let (door, commits) = (self.door.clone(), Arc::clone(&self.commits));
        let written = to_its_end(async move {
            commits.write(&door, step).await?;
            hand(seat, leased);
            Ok(())
        });
        let written = written.await;
        if tells {
            self.tell(&written);
        }
        // Whoever goes on under its lease is not due, and makes nobody so.
        if ends {
            self.stir(&written);
        }
        self.known(written, (id, version), write_id).await
    }

    pub(crate) async fn order(
        &self,
        id: ResourceId,
        order: Order,
        audit: Option<audit::Entry>,
    ) -> Result<(Resource, Version), Error> {
        let (write_id, bound) = (Uuid::now_v7(), self.settings.request_bound);
        let seat = self.handover.seat();
        let taking = self.taking(seat.as_ref());
        let door = self.door.clone();
        let written = to_its_end(async move {
            let written = door.write(move |conn| {
                Box::pin(async move {
                    let audit = audit.as_ref();
                    command::carry_out(conn, (id, &order), audit, (write_id, bound, taking)).await
                })
            });
            let (next, version, leased) = written.await?;
            let taken = leased.is_some();
            hand(seat, leased);
            Ok((next, version, taken))
        });
        let written = written.await;
        self.tell(&written);
        if !written.as_ref().is_ok_and(|(.., taken)| *taken) {
            self.stir(&written);
        }
        written.map(|(next, version, _)| (next, version))
    }

    pub(crate) async fn redeem(&self, request: Request) -> Result<Outcome, Error> {
        let seat = self.handover.seat();
        let how = (self.taking(seat.as_ref()), self.settings.request_bound);
        let door = self.door.clone();
        let written = to_its_end(async move {
            let written = door.write(move |conn| {
                Box::pin(async move { enrolment::redeem(conn, &request, how).await })
            });
            let (outcome, stirred) = written.await?;
            Ok((outcome, handed(seat, stirred)))
        });
        let (outcome, woken) = self.stirring_if_unknown(written.await)?;
        self.pass_on(woken);
        Ok(outcome)
    }

    pub(crate) async fn move_peer(
        &self,
        before: Peer,
        after: Peer,
        audit: Option<audit::Entry>,
    ) -> Result<(), Error> {
        let seat = self.handover.seat();
        let how = (self.taking(seat.as_ref()), self.settings.request_bound);
        let door = self.door.clone();
        let written = to_its_end(async move {
            let written = door.write(move |conn| {
                Box::pin(async move {
                    let stirred = enrolment::leave(conn, (&before, &after), how).await?;
                    accept::note_order(conn, audit.as_ref()).await?;
                    Ok(stirred)
                })
            });
            Ok(handed(seat, written.await?))
        });
        let woken = self.stirring_if_unknown(written.await)?;
        self.pass_on(woken);
        Ok(())
    }

    /// A new entry, and its life if its lease is taken with it.
    fn entered(
        &self,
        seat: Option<&Seat>,
        (life, record): (Life, Option<Record<Resource>>),
        now: Timestamp,
    ) -> (Entry, Option<Leased>) {
        let mut entry = Entry::new(now);
        let taking = self.taking(seat).filter(|_| record.is_some());
        let claim = taking.and_then(|(pace, jitter)| entry.claim(&pace, jitter, now));
        let leased = claim.zip(record).map(|(claim, record)| {
            let record = Held::Resource(Box::new(record));
            Leased { life, claim, record, now }
        });
        (entry, leased)
    }

    /// Sees to it that whom a write woke is looked at: by whoever steps it here, or by whoever
    /// looks who is due.
    fn pass_on(&self, woken: Option<(Life, u64)>) {
        if let Some((life, wake_seq)) = woken
            && !self.turns.note_written(life, wake_seq)
        {
            self.signals.stir();
        }
    }

    fn stirring_if_unknown<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        if written.is_err() {
            self.stir(&written);
        }
        written
    }

    /// How a lease is taken by the write that wakes, if there is a seat for it.
    fn taking(&self, seat: Option<&Seat>) -> Option<Taking> {
        seat.map(|_| (self.settings.pace, jitter()))
    }
}

/// Does it also if the caller gives up waiting: a lease that was taken and that nobody is told of
/// would last until it ends.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.map_err(|_| Error::Closed)?
}

/// Hands a life over whose lease is written; who else was woken, and how often by now.
fn handed(seat: Option<Seat>, stirred: Stirred) -> Option<(Life, u64)> {
    match stirred {
        Stirred::Nobody => None,
        Stirred::Leased(leased) => {
            hand(seat, Some(*leased));
            None
        }
        Stirred::Woken(life, wake_seq) => Some((life, wake_seq)),
    }
}

/// Hands a life over whose lease is written.
fn hand(seat: Option<Seat>, leased: Option<Leased>) {
    if let (Some(seat), Some(leased)) = (seat, leased) {
        seat.hand(leased);
    }
}
