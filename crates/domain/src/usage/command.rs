//! Commands to a Usage: to remember a denied deletion, and to forget it.
//!
//! Each answers with the Usage as it shall be, written if the version still holds.

use usher_kernel::{Timestamp, Uid};

use super::aggregate::Usage;
use super::attempt::{Attempt, Progress};
use super::refusal::Refusal;
use crate::object::offender::shortened;

/// How many denied deletions one Usage remembers.
pub const ATTEMPTS_MAX: usize = 64;

/// Remembers a denied deletion; a repeated request changes nothing. Where there is no room, the one
/// that runs out first is forgotten, unless its replay has begun.
pub fn record(usage: &Usage, attempt: &Attempt) -> Usage {
    let mut next = usage.clone();
    let attempts = &mut next.status.attempts;
    if let Some(known) = attempts.iter_mut().find(|it| it.uid == attempt.uid) {
        *known = known.merged(attempt);
        return next;
    }
    if attempts.len() >= ATTEMPTS_MAX {
        let waiting = attempts.iter().filter(|it| it.progress != Progress::Begun);
        let Some(first) = waiting.min_by_key(|it| it.expires_at).map(|it| it.uid.clone()) else {
            return next;
        };
        attempts.retain(|it| it.uid != first);
    }
    attempts.push(attempt.clone());
    next
}

/// Forgets a denied deletion at the request of its requester: with every Usage of the object
/// that remembers it or may receive it later. Answers with those that change; the command is
/// done when all of them are written.
///
/// An earlier request that is still in flight does not restore it.
pub fn withdraw(usages: &[Usage], uid: &Uid, now: Timestamp) -> Result<Vec<Usage>, Refusal> {
    let known: Vec<&Attempt> = usages.iter().filter_map(|it| it.attempt(uid)).collect();
    if known.iter().any(|it| it.progress == Progress::Begun) {
        return Err(Refusal::ReplayBegun(shortened(&uid.0)));
    }
    let Some(wanted) = known.iter().find(|it| it.progress == Progress::Recorded) else {
        return Err(Refusal::AttemptNotFound(shortened(&uid.0)));
    };
    let withdrawn = Attempt { progress: Progress::Withdrawn { at: now }, ..(*wanted).clone() };
    let concerned =
        usages.iter().filter(|it| it.attempt(uid).is_some() || it.holds(&wanted.object));
    let changed = concerned.map(|usage| {
        let mut next = usage.clone();
        next.status.attempts.retain(|it| it.uid != *uid);
        next.status.attempts.push(withdrawn.clone());
        next
    });
    Ok(changed.collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::usage::fixture::{NOW, attempt, usage};

    #[test]
    fn a_deletion_is_remembered_once() {
        let once = record(&usage(|_| {}), &attempt("a"));
        assert_eq!(once.status.attempts, [attempt("a")]);
        assert_eq!(record(&once, &attempt("a")), once);
        let two = record(&once, &attempt("b"));
        assert_eq!(two.status.attempts, [attempt("a"), attempt("b")]);
    }

    #[test]
    fn without_room_the_attempt_that_expires_first_is_dropped() {
        let lasting = |i: usize| {
            let lifetime = Duration::from_mins(100 + (i as u64 * 7) % 64);
            Attempt { expires_at: NOW.after(lifetime), ..attempt(&format!("a{i}")) }
        };
        let full = usage(|it| it.status.attempts = (0..ATTEMPTS_MAX).map(lasting).collect());
        let after = record(&full, &attempt("new"));
        assert_eq!(after.status.attempts.len(), ATTEMPTS_MAX);
        assert_eq!(after.attempt(&Uid::new("a0")), None, "it had the least time left");
        assert_eq!(after.attempt(&Uid::new("new")), Some(&attempt("new")));
        let begun = usage(|it| {
            let all = (0..ATTEMPTS_MAX).map(lasting);
            it.status.attempts =
                all.map(|it| Attempt { progress: Progress::Begun, ..it }).collect();
        });
        assert_eq!(record(&begun, &attempt("new")), begun, "what has begun is not forgotten");
    }

    // Requirement: G-8
    #[test]
    fn what_is_withdrawn_stays_withdrawn_with_every_holder() {
        let remembering = record(&usage(|_| {}), &attempt("a"));
        let holding = usage(|it| it.uid = Uid::new("u-2"));
        let elsewhere = usage(|it| it.status.of = None);
        let uid = Uid::new("a");
        let all = [remembering, holding, elsewhere];
        let withdrawn = withdraw(&all, &uid, NOW).unwrap();
        let expected = Attempt { progress: Progress::Withdrawn { at: NOW }, ..attempt("a") };
        assert_eq!(withdrawn.len(), 2, "a Usage that neither remembers nor holds is not changed");
        for it in &withdrawn {
            assert_eq!(it.status.attempts, std::slice::from_ref(&expected));
            assert_eq!(record(it, &attempt("a")), *it, "an earlier request stays forgotten");
        }
    }

    #[test]
    fn what_is_unknown_or_has_begun_is_not_withdrawn() {
        let uid = Uid::new("a");
        let unknown = Refusal::AttemptNotFound("a".to_owned());
        assert_eq!(withdraw(&[usage(|_| {})], &uid, NOW), Err(unknown.clone()));
        let with =
            |progress| usage(|it| it.status.attempts = vec![Attempt { progress, ..attempt("a") }]);
        let withdrawn = with(Progress::Withdrawn { at: NOW });
        assert_eq!(withdraw(&[withdrawn], &uid, NOW), Err(unknown));
        let all = [with(Progress::Recorded), with(Progress::Begun)];
        let refusal = Refusal::ReplayBegun("a".to_owned());
        assert_eq!(withdraw(&all, &uid, NOW), Err(refusal));
    }
}
