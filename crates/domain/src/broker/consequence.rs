//! What the transaction that writes a resource writes besides, so that no store has to guess.

use usher_kernel::{Generation, Timestamp};

use super::aggregate::Resource;
use super::event::Outcome;
use super::phase::Phase;
use crate::tokens::Token;

/// What goes with a write of a resource, in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consequences {
    /// Every token of it that was not redeemed is revoked.
    pub revoke_tokens: bool,
    /// The lifetime of the current generation's token starts here.
    pub substrate_ready_at: Option<Timestamp>,
    /// The ProviderConfig has one user less, and is woken.
    pub part_provider_config: bool,
    /// A tombstone begins.
    pub bury: bool,
}

impl Consequences {
    /// What goes with the write that turns `before` into `after`.
    pub fn of(before: &Resource, after: &Resource) -> Self {
        let ended = before.phase() != Phase::Deleted && after.phase() == Phase::Deleted;
        let ready = after.fields().substrate_ready_at;
        Self {
            // No token is issued from then on.
            revoke_tokens: after.is_tearing_down() && !before.is_tearing_down(),
            substrate_ready_at: ready.filter(|_| before.fields().substrate_ready_at != ready),
            part_provider_config: ended,
            bury: ended && after.fields().outcome == Some(Outcome::Removed),
        }
    }

    /// The tokens of the resource that change with the write, as they are after it: the one of the
    /// current generation starts its lifetime, and those that were not redeemed are revoked.
    pub fn tokens(&self, tokens: &[Token], current: Generation, now: Timestamp) -> Vec<Token> {
        let after = |token: &Token| {
            let ready = self.substrate_ready_at.filter(|_| token.generation == current);
            let started = ready.map_or_else(|| token.clone(), |at| token.ready(at));
            let revoked = if self.revoke_tokens { started.revoke(now).ok() } else { None };
            let after = revoked.unwrap_or(started);
            (after != *token).then_some(after)
        };
        tokens.iter().filter_map(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::facts::Tenure;
    use crate::broker::fixture::{NOW, START, leaving, resource};
    use crate::tokens::{Issue, Lifetime, ServerKey};

    const NOTHING: Consequences = Consequences {
        revoke_tokens: false,
        substrate_ready_at: None,
        part_provider_config: false,
        bury: false,
    };

    // Requirement: A-27
    #[test]
    fn a_write_that_moves_nothing_of_others_has_no_consequences() {
        let it = resource(|_| ());
        let provisioning = resource(|it| it.phase = Phase::Provisioning);
        assert_eq!(Consequences::of(&it, &provisioning), NOTHING);
    }

    #[test]
    fn a_substrate_that_is_ready_starts_the_lifetime_once() {
        let it = resource(|_| ());
        let ready = resource(|it| it.substrate_ready_at = Some(START));
        let expected = Consequences { substrate_ready_at: Some(START), ..NOTHING };
        assert_eq!(Consequences::of(&it, &ready), expected);
        assert_eq!(Consequences::of(&ready, &ready), NOTHING);
        assert_eq!(Consequences::of(&ready, &it), NOTHING, "a new generation starts nothing");
    }

    #[test]
    fn a_resource_in_teardown_loses_its_tokens() {
        let it = resource(|_| ());
        let expected = Consequences { revoke_tokens: true, ..NOTHING };
        assert_eq!(Consequences::of(&it, &leaving(Phase::Deregistering)), expected);
        let replaced = resource(|it| it.tenure = Tenure::Leaving);
        assert_eq!(Consequences::of(&it, &replaced), expected);
    }

    // Requirement: A-27
    #[test]
    fn an_end_is_counted_once_and_buried_unless_it_was_given_up() {
        let it = leaving(Phase::Deprovisioning);
        let removed = resource(|it| {
            it.phase = Phase::Deleted;
            it.deletion_requested_at = Some(START);
            it.outcome = Some(Outcome::Removed);
        });
        let expected = Consequences { part_provider_config: true, ..NOTHING };
        let buried = Consequences { bury: true, ..expected };
        assert_eq!(Consequences::of(&it, &removed), buried);
        assert_eq!(Consequences::of(&it, &it.abandoned(NOW)), expected);
        assert_eq!(Consequences::of(&removed, &removed), NOTHING);
    }

    #[test]
    fn the_current_token_starts_its_lifetime_and_open_ones_are_revoked() {
        let key = ServerKey::new([7; 32]).unwrap();
        let it = resource(|_| ());
        let issue = |generation| Issue {
            resource: it.id(),
            project: it.fields().project,
            generation: Generation(generation),
            lifetime: Lifetime::default(),
        };
        let [old, current] = [1, 2].map(|number| Token::issue(&key, issue(number), START));
        let tokens = [old.revoke(START).unwrap(), current.clone()];
        let after = |it: Consequences| it.tokens(&tokens, Generation(2), NOW);
        assert_eq!(after(NOTHING), []);
        let ready = Consequences { substrate_ready_at: Some(NOW), ..NOTHING };
        assert_eq!(after(ready), [current.ready(NOW)], "only the current one");
        let revoking = Consequences { revoke_tokens: true, ..NOTHING };
        assert_eq!(after(revoking), [current.revoke(NOW).unwrap()], "only what is open");
        let both = Consequences { revoke_tokens: true, ..ready };
        assert_eq!(after(both), [current.ready(NOW).revoke(NOW).unwrap()]);
    }

    /// Red by: a token that stays live because its resource was never in teardown.
    #[test]
    fn a_resource_abandoned_without_teardown_loses_its_tokens() {
        let it = resource(|it| it.phase = Phase::Ready);
        let given_up = it.abandoned(NOW);
        assert!(Consequences::of(&it, &given_up).revoke_tokens, "{given_up:?}");
    }
}
