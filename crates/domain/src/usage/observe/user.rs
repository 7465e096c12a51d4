//! The users of held objects.

use usher_kernel::{Answer, NameState, Sighting};

use super::super::facts::{By, Resolve};
use super::super::reference::{ObjectKey, Role};
use super::super::snapshot::Found;
use super::Judge;

impl Judge<'_> {
    /// The user: of several users the one furthest from being gone.
    pub(super) fn by(&self) -> (By, Vec<Sighting>) {
        if !self.usage.has_user() {
            return (By::None, vec![]);
        }
        let (mut most, mut sightings) = (None::<By>, Vec::new());
        for key in self.usage.users() {
            let (by, answer) = self.user(key);
            sightings.extend(answer.map(|it| self.sighting(Role::User.name(key), it)));
            most = most.into_iter().chain([by]).max_by_key(|it| liveliness(*it));
        }
        (most.unwrap_or(By::Missing), sightings)
    }

    fn user(&self, key: &ObjectKey) -> (By, Option<Answer>) {
        let row = self.recorded(Role::User, key);
        let state = row.map_or(NameState::Intended, |it| it.state);
        let was_seen = match state {
            NameState::Seen | NameState::Gone => true,
            NameState::Intended | NameState::Foreign | NameState::Abandoned => false,
        };
        match self.reading(key, self.known(Role::User, key)) {
            Err(why) => (By::Unknown, Some(Answer::Unknown(why))),
            // Nothing is recorded of it: should the kind reappear, the users that were seen are
            // known.
            Ok(Found::KindRemoved) if state == NameState::Gone => (By::Gone, None),
            Ok(Found::KindRemoved) => (By::KindRemoved, None),
            Ok(Found::Absent) => {
                // A user that a selector found existed when it was found.
                let users = self.usage.status.by.as_ref();
                let selected = users.is_some_and(|it| it.from.is_selector());
                let by = if was_seen || selected { By::Gone } else { By::Missing };
                (by, Some(Answer::Absent { settled: false }))
            }
            // A Usage being deleted takes no new user: an object of the same name may use a later
            // object.
            Ok(Found::Present(_)) if !was_seen && self.usage.deleting => (By::Missing, None),
            Ok(Found::Present(object)) => {
                let same = row.and_then(|it| it.uid.as_ref()) == Some(&object.uid);
                let once = self.usage.facts().resolve == Resolve::Once;
                let other = was_seen && (!same || state == NameState::Gone);
                let ours = !(once && other);
                let answer = Answer::Present { uid: object.uid.clone(), ours };
                let by = match (ours, object.deleting) {
                    (false, _) => By::Gone,
                    (true, true) => By::Leaving,
                    (true, false) => By::Present,
                };
                (by, Some(answer))
            }
        }
    }
}

/// Which of several users is most alive.
const fn liveliness(by: By) -> u8 {
    match by {
        By::Present => 6,
        By::Leaving => 5,
        By::Unknown => 4,
        By::KindRemoved => 3,
        By::Missing => 2,
        By::Gone => 1,
        By::None => 0,
    }
}
