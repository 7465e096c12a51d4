//! What can be asked of a Usage: to remember a denied deletion, and to forget it.
//!
//! Each answers with the Usage as it shall be, written if the version still holds.

use usher_kernel::{Timestamp, Uid};

use super::aggregate::Usage;
use super::attempt::{Attempt, Progress};
use super::refusal::Refusal;
use crate::object::offender::shortened;

/// How many denied deletions one Usage remembers.
pub const ATTEMPTS_MAX: usize = 64;

/// Remembers a denied deletion; asking again changes nothing. Where there is no room, the one that
/// runs out first is forgotten, unless its replay has begun.
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

/// Forgets a denied deletion at the request of whoever asked for it. What was asked before does not
/// bring it back.
pub fn withdraw(usage: &Usage, uid: &Uid, now: Timestamp) -> Result<Usage, Refusal> {
    let mut next = usage.clone();
    let attempt = next.status.attempts.iter_mut().find(|it| it.uid == *uid);
    let Some(attempt) = attempt else {
        return Err(Refusal::no_attempt(&usage.key, &uid.0));
    };
    match attempt.progress {
        Progress::Begun => Err(Refusal::ReplayBegun { uid: shortened(&uid.0) }),
        Progress::Withdrawn { .. } => Ok(next),
        Progress::Recorded => {
            attempt.progress = Progress::Withdrawn { at: now };
            Ok(next)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::usage::fixture::{NOW, attempt, usage, usage_key};

    #[test]
    fn a_deletion_is_remembered_once() {
        let once = record(&usage(|_| {}), &attempt("a"));
        assert_eq!(once.status.attempts, [attempt("a")]);
        assert_eq!(record(&once, &attempt("a")), once);
        let two = record(&once, &attempt("b"));
        assert_eq!(two.status.attempts, [attempt("a"), attempt("b")]);
    }

    #[test]
    fn where_there_is_no_room_the_one_that_runs_out_first_is_forgotten() {
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

    #[test]
    fn what_is_withdrawn_stays_withdrawn() {
        let recorded = record(&usage(|_| {}), &attempt("a"));
        let uid = Uid::new("a");
        let withdrawn = withdraw(&recorded, &uid, NOW).unwrap();
        let expected = Attempt { progress: Progress::Withdrawn { at: NOW }, ..attempt("a") };
        assert_eq!(withdrawn.status.attempts, [expected]);
        assert_eq!(
            withdraw(&withdrawn, &uid, NOW.after(Duration::from_secs(9))),
            Ok(withdrawn.clone())
        );
        assert_eq!(record(&withdrawn, &attempt("a")), withdrawn);
    }

    #[test]
    fn what_is_unknown_or_has_begun_is_not_withdrawn() {
        let plain = usage(|_| {});
        let uid = Uid::new("a");
        let refusal =
            Refusal::AttemptNotFound { usage: usage_key("u").to_string(), uid: "a".to_owned() };
        assert_eq!(withdraw(&plain, &uid, NOW), Err(refusal));
        let begun = Attempt { progress: Progress::Begun, ..attempt("a") };
        let begun = usage(|it| it.status.attempts = vec![begun]);
        let refusal = Refusal::ReplayBegun { uid: "a".to_owned() };
        assert_eq!(withdraw(&begun, &uid, NOW), Err(refusal));
    }
}
