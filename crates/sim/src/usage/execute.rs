//! Verbs arriving in the cluster: what the API server does with them.

use usher_domain::usage::admit::{Request as Asking, Update};
use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::effect::Effect;
use usher_domain::usage::reference::ObjectKey;
use usher_domain::usage::stray::Unmark;
use usher_kernel::{Trouble, Uid, Version};

use crate::clock::Tick;
use crate::sim_world::SimWorld as _;
use crate::usage::admission::{Admitted, DeletionRequest};
use crate::usage::breakage::Breakage;
use crate::usage::outside::{Object, number};
use crate::usage::state::State;

/// Who our drivers are.
pub const USHER: &str = "usher";

/// One verb in flight, with what its sender knew.
#[derive(Clone, Debug)]
pub struct Request {
    /// The Usage, or the marked object, that it serves.
    pub sender: u64,
    /// The revision at which its sender read the Usage.
    pub version: Version,
    /// The verb.
    pub verb: Verb,
    /// When its sender observed the world.
    pub observed_at: Tick,
}

/// A verb of either kind of work item.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Of a Usage.
    Usage(Effect),
    /// Of a marked object.
    Stray(Unmark),
}

impl State {
    /// Does what a request asks for, as the real server would.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<(), Trouble> {
        self.log.last_write = self.base.tick;
        match &request.verb {
            Verb::Stray(Unmark { object, uid, mark }) => self.unmark(object, uid, mark),
            Verb::Usage(effect) => self.serve_usage(request, effect),
        }
    }

    fn serve_usage(&mut self, request: &Request, effect: &Effect) -> Result<(), Trouble> {
        let sender = request.sender;
        self.say(|it| format!("{}: {effect:?}", it.named(sender)));
        match effect {
            Effect::AddFinalizer => {
                self.as_read(request)?;
                if self.outside.by_uid(sender).is_some_and(|it| it.deleting.is_some()) {
                    return Err(rejected());
                }
                self.log.held.insert(sender);
                self.write(sender, |it| {
                    if let Some(body) = &mut it.body {
                        body.finalizer = true;
                    }
                });
                Ok(())
            }
            Effect::Yield => {
                self.as_read(request)?;
                self.write(sender, |it| {
                    for owner in &mut it.owners {
                        owner.blocks = false;
                    }
                    it.collect_at = 0;
                });
                Ok(())
            }
            Effect::Retire => {
                let asked = DeletionRequest {
                    requester: USHER,
                    propagation: Propagation::Background,
                    dry_run: false,
                };
                self.as_read(request)?;
                self.delete(sender, asked)
            }
            Effect::RemoveFinalizer => {
                self.as_read(request)?;
                self.check_letting_go(sender);
                self.write(sender, |it| {
                    if let Some(body) = &mut it.body {
                        body.finalizer = false;
                    }
                });
                Ok(())
            }
            Effect::Mark { object, uid, mark } => self.mark(sender, object, (uid, mark)),
            Effect::Unblock { object, uid } => {
                let place = self.meant(object, uid)?.uid;
                self.write(place, |it| {
                    for owner in &mut it.owners {
                        owner.blocks = false;
                    }
                });
                Ok(())
            }
            Effect::Unmark { object, uid, mark } => self.unmark(object, uid, mark),
            Effect::HandOver { uid, attempt, .. } => {
                if self.record_attempt(uid, attempt) {
                    Ok(())
                } else {
                    Err(blocked())
                }
            }
            Effect::Replay { object, uid, propagation, revision } => {
                self.replay(request, object, (uid, revision.as_deref()), *propagation)
            }
        }
    }

    /// The Usage is the one that was read.
    fn as_read(&self, request: &Request) -> Result<(), Trouble> {
        let current = self.outside.by_uid(request.sender).map(|it| Version(it.revision));
        if current == Some(request.version) || self.is_broken(Breakage::SkipVersion) {
            Ok(())
        } else {
            Err(Trouble::Conflict)
        }
    }

    /// The object under a name, if it is the one that is meant.
    fn meant(&self, key: &ObjectKey, uid: &Uid) -> Result<&Object, Trouble> {
        let object = self.outside.under(key).ok_or_else(blocked)?;
        if object.uid == number(uid) { Ok(object) } else { Err(blocked()) }
    }

    fn mark(
        &mut self,
        sender: u64,
        key: &ObjectKey,
        (uid, mark): (&Uid, &String),
    ) -> Result<(), Trouble> {
        let place = self.meant(key, uid)?.uid;
        self.check_marking(sender, place);
        self.write(place, |it| it.mark = Some(mark.clone()));
        Ok(())
    }

    fn unmark(&mut self, key: &ObjectKey, uid: &Uid, mark: &str) -> Result<(), Trouble> {
        let object = self.meant(key, uid)?;
        let place = object.uid;
        match &object.mark {
            None => return Ok(()),
            Some(found) if found != mark => return Err(blocked()),
            Some(_) => {}
        }
        if self.is_broken(Breakage::IgnoreOthers) {
            self.write(place, |it| it.mark = None);
        } else {
            self.strip(place)?;
        }
        self.check_unmarked(place);
        Ok(())
    }

    /// Takes the mark off an object, if admission allows that.
    pub(crate) fn strip(&mut self, place: u64) -> Result<(), Trouble> {
        let Some(key) = self.outside.by_uid(place).map(|it| it.key.clone()) else {
            return Ok(());
        };
        let update = Update { object: key, marked: true, keeps_mark: false };
        match self.admit(&Asking::Update(update)) {
            Admitted::No(_) if self.is_broken(Breakage::StripUnguarded) => {}
            Admitted::Yes => {}
            Admitted::No(_) => return Err(blocked()),
            Admitted::Unanswered => {
                return Err(Trouble::unavailable("admission".to_owned()));
            }
        }
        self.write(place, |it| it.mark = None);
        Ok(())
    }

    fn replay(
        &mut self,
        request: &Request,
        key: &ObjectKey,
        (uid, revision): (&Uid, Option<&str>),
        propagation: Propagation,
    ) -> Result<(), Trouble> {
        let place = if self.is_broken(Breakage::ReplayWithoutUid) {
            self.outside.under(key).ok_or_else(blocked)?.uid
        } else {
            self.meant(key, uid)?.uid
        };
        let object = self.outside.by_uid(place).ok_or_else(blocked)?;
        if revision.is_some_and(|it| it != object.revision.to_string()) {
            return Err(blocked());
        }
        self.check_replay(request, place, uid);
        let existing = object_exists(self, place);
        let asked = DeletionRequest { requester: USHER, propagation, dry_run: false };
        let done = self.delete(place, asked);
        if existing && done.is_ok() {
            self.check_replayed(request.sender, place, uid);
        }
        done
    }
}

fn object_exists(state: &State, place: u64) -> bool {
    state.outside.by_uid(place).is_some_and(|it| it.deleting.is_none())
}

fn blocked() -> Trouble {
    Trouble::Blocked { what: "the cluster".to_owned() }
}

fn rejected() -> Trouble {
    Trouble::Rejected { what: "the cluster".to_owned() }
}
