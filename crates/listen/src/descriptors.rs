//! How many file descriptors this process may open, and how many of them are for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The fewest descriptors that are kept for files, databases and child processes.
const RESERVE_MIN: usize = 64;
/// One of so many descriptors is kept for them: supervised hosts need several each.
const RESERVE_SHARE: usize = 2;

/// Raises the soft limit of descriptors to the hard one; the limit from then on.
pub fn raise_descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "failed to raise the limit of file descriptors");
    }
    descriptors_max()
}

/// The soft limit of descriptors.
pub fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
}

/// How many connections may be open at this limit of descriptors.
pub fn connections_max(descriptors: usize) -> usize {
    let reserve = RESERVE_MIN.max(descriptors / RESERVE_SHARE);
    descriptors.saturating_sub(reserve).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: CN-6
    #[test]
    fn half_of_the_descriptors_and_at_least_64_are_kept() {
        let cases = [(0, 1), (64, 1), (100, 36), (256, 128), (1_024, 512), (1 << 20, 1 << 19)];
        for (descriptors, connections) in cases {
            assert_eq!(connections_max(descriptors), connections, "{descriptors}");
        }
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_descriptors(), hard.map_or(usize::MAX, |it| usize::try_from(it).unwrap()));
    }
}
