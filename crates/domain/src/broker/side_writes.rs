//! What the transaction that writes a resource writes besides, so that no store has to guess.

use super::aggregate::Resource;
use super::event::Outcome;
use super::phase::Phase;
use crate::object::enrolment::TokenChange;

/// What is written with a resource, in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideWrites {
    /// What becomes of its tokens.
    pub tokens: TokenChange,
    /// The ProviderConfig has one user less, and is woken.
    pub release_provider_config: bool,
    /// A tombstone begins.
    pub create_tombstone: bool,
}

impl SideWrites {
    /// What is written with the write that turns `before` into `after`.
    pub fn of(before: &Resource, after: &Resource) -> Self {
        let ended = before.phase() != Phase::Deleted && after.phase() == Phase::Deleted;
        let ready = after.fields().substrate_ready_at;
        let ready = ready.filter(|_| before.fields().substrate_ready_at != ready);
        let ready = ready.map(|at| (after.generation(), at));
        // No token is issued from then on.
        let teardown_began = after.is_tearing_down() && !before.is_tearing_down();
        Self {
            tokens: TokenChange { ready, teardown_began },
            release_provider_config: ended,
            create_tombstone: ended && after.fields().outcome == Some(Outcome::Removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::facts::GenerationState;
    use crate::broker::fixture::{NOW, START, leaving, resource};

    const NOTHING: SideWrites = SideWrites {
        tokens: TokenChange { ready: None, teardown_began: false },
        release_provider_config: false,
        create_tombstone: false,
    };

    // Requirement: A-27
    #[test]
    fn a_write_that_changes_nothing_of_others_has_no_side_writes() {
        let it = resource(|_| ());
        let provisioning = resource(|it| it.phase = Phase::Provisioning);
        assert_eq!(SideWrites::of(&it, &provisioning), NOTHING);
    }

    #[test]
    fn a_substrate_that_is_ready_starts_the_lifetime_once() {
        let it = resource(|_| ());
        let ready = resource(|it| it.substrate_ready_at = Some(START));
        let change = TokenChange { ready: Some((ready.generation(), START)), ..NOTHING.tokens };
        let expected = SideWrites { tokens: change, ..NOTHING };
        assert_eq!(SideWrites::of(&it, &ready), expected);
        assert_eq!(SideWrites::of(&ready, &ready), NOTHING);
        assert_eq!(SideWrites::of(&ready, &it), NOTHING, "a new generation starts nothing");
    }

    #[test]
    fn a_resource_in_teardown_loses_its_tokens() {
        let it = resource(|_| ());
        let change = TokenChange { teardown_began: true, ..NOTHING.tokens };
        let expected = SideWrites { tokens: change, ..NOTHING };
        assert_eq!(SideWrites::of(&it, &leaving(Phase::Deregistering)), expected);
        let replaced = resource(|it| it.generation_state = GenerationState::Leaving);
        assert_eq!(SideWrites::of(&it, &replaced), expected);
    }

    // Requirement: A-27
    #[test]
    fn an_end_is_counted_once_with_a_tombstone_unless_abandoned() {
        let it = leaving(Phase::Deprovisioning);
        let removed = resource(|it| {
            it.phase = Phase::Deleted;
            it.deletion_requested_at = Some(START);
            it.outcome = Some(Outcome::Removed);
        });
        let expected = SideWrites { release_provider_config: true, ..NOTHING };
        let buried = SideWrites { create_tombstone: true, ..expected };
        assert_eq!(SideWrites::of(&it, &removed), buried);
        assert_eq!(SideWrites::of(&it, &it.abandoned(NOW)), expected);
        assert_eq!(SideWrites::of(&removed, &removed), NOTHING);
    }

    /// Red by: a token that stays live because its resource was never in teardown.
    #[test]
    fn a_resource_abandoned_without_teardown_loses_its_tokens() {
        let it = resource(|it| it.phase = Phase::Ready);
        let given_up = it.abandoned(NOW);
        assert!(SideWrites::of(&it, &given_up).tokens.teardown_began, "{given_up:?}");
    }
}
