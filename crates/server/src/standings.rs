//! What stands in the world, as little of it as tells whether a life must look.
//!
//! A world of many objects is held in a few bytes each: it is compared while everything else
//! starts.

use std::collections::BTreeSet;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::world::Presence;
use usher_kernel::{Book, Record, Standing, Uid};
use uuid::Uuid;

/// What stands in a world, by the life it belongs to.
#[derive(Debug)]
pub(super) struct Standings(Vec<Presence>);

impl Standings {
    /// What a world listed.
    pub(super) fn new(mut listed: Vec<Presence>) -> Self {
        listed.sort_unstable_by_key(|it| it.owner);
        Self(listed)
    }

    /// How many objects there are.
    pub(super) const fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a resource must look: it is on its way, or the world is not as it is recorded.
    pub(super) fn disagrees(&self, record: &Record<Resource>) -> bool {
        let stands = self.of(record.state.id().as_uuid());
        match record.state.phase() {
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => true,
            Phase::Deleted => !stands.is_empty(),
            Phase::Ready => {
                stands.iter().any(|it| it.is_converging) || !is_recorded(&record.book, stands)
            }
            Phase::Failed => !is_recorded(&record.book, stands),
        }
    }

    /// Whether a ProviderConfig must look.
    pub(super) fn disagrees_with_config(&self, record: &Record<ProviderConfig>) -> bool {
        let stands = self.of(record.state.id.as_uuid());
        match record.state.phase {
            provider_config::Phase::Pending | provider_config::Phase::Leaving => true,
            provider_config::Phase::Ready => !is_recorded(&record.book, stands),
            provider_config::Phase::Gone => !stands.is_empty(),
        }
    }

    fn of(&self, life: &Uuid) -> &[Presence] {
        let begin = self.0.partition_point(|it| it.owner < *life);
        let all = self.0.get(begin..).unwrap_or_default();
        let end = all.partition_point(|it| it.owner == *life);
        all.get(..end).unwrap_or_default()
    }
}

fn made_here(uid: &Uid) -> Option<Uuid> {
    uid.0.parse().ok()
}

/// Whether exactly what is recorded as seen stands there, and none of it is on its way out.
fn is_recorded(book: &Book, stands: &[Presence]) -> bool {
    let outside = |kind: &str| kind.contains('/') || kind.contains("Anchor");
    let seen =
        book.rows().iter().filter(|row| row.standing == Standing::Seen && outside(&row.name.kind));
    let seen: Option<BTreeSet<Uuid>> =
        seen.filter_map(|row| row.uid.as_ref()).map(made_here).collect();
    let standing: Option<BTreeSet<Uuid>> = stands.iter().map(|it| it.uid).collect();
    seen.is_some() && seen == standing && stands.iter().all(|it| !it.is_deleting)
}

#[cfg(test)]
mod tests {
    use usher_kernel::{Generation, Name, Row, Timestamp};

    use super::*;

    const LIFE: Uuid = Uuid::from_u128(7);
    const OTHER: Uuid = Uuid::from_u128(8);

    fn seen(kind: &str, uid: &str) -> Row {
        let (place, name) = ("ns".to_owned(), format!("{kind}-{uid}"));
        let name = Name { kind: kind.to_owned(), place, name, generation: Generation::FIRST };
        let row = Row::intended(name, "test", Timestamp::ZERO);
        Row { standing: Standing::Seen, uid: Some(Uid::new(uid)), ..row }
    }

    fn stands(life: Uuid, uid: u128) -> Presence {
        Presence {
            owner: life,
            uid: Some(Uuid::from_u128(uid)),
            is_deleting: false,
            is_converging: false,
        }
    }

    /// Red by: a world that changed while nobody watched and is taken for unchanged.
    #[test]
    fn what_is_recorded_is_all_of_it_and_nothing_else() {
        let uid = |it: u128| Uuid::from_u128(it).to_string();
        let token = seen("Token", "t");
        let book = Book::new([seen("ClusterAnchor", &uid(1)), seen("x/Y", &uid(2)), token]);
        let whole = [stands(LIFE, 1), stands(LIFE, 2)];
        assert!(is_recorded(&book, &whole), "what is not of this world does not matter");
        assert!(!is_recorded(&book, &whole[..1]), "one is gone");
        assert!(!is_recorded(&book, &[whole[0], stands(LIFE, 3)]), "one is another");
        assert!(!is_recorded(&book, &[whole[0], whole[1], stands(LIFE, 3)]), "one came");
        assert!(!is_recorded(&book, &[whole[0], Presence { is_deleting: true, ..whole[1] }]));
        assert!(!is_recorded(&book, &[whole[0], Presence { uid: None, ..whole[1] }]), "unreadable");
        let foreign = Book::new([seen("x/Y", "not made here")]);
        let unreadable = Presence { uid: None, ..whole[0] };
        assert!(!is_recorded(&foreign, &[unreadable]), "two that are unknown are not the same");
    }

    #[test]
    fn each_life_is_compared_with_its_own() {
        let all = Standings(vec![stands(LIFE, 1), stands(LIFE, 2), stands(OTHER, 3)]);
        assert_eq!(all.of(&LIFE), &all.0[..2]);
        assert_eq!(all.of(&OTHER), &all.0[2..]);
        for nobody in [Uuid::nil(), Uuid::max()] {
            assert_eq!(all.of(&nobody), []);
        }
    }
}
