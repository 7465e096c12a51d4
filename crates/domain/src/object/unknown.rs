//! Why a part of a snapshot is unknown, as a reason of each context.

/// Gives a context's reasons the causes of unknown parts, under the same words.
macro_rules! unknown_reasons {
    ($reason:ty) => {
        impl From<usher_kernel::Unknown> for $reason {
            fn from(cause: usher_kernel::Unknown) -> Self {
                match cause {
                    usher_kernel::Unknown::Unreachable => Self::Unreachable,
                    usher_kernel::Unknown::Forbidden => Self::Forbidden,
                    usher_kernel::Unknown::GuardTripped => Self::MassDeletionGuardTripped,
                    usher_kernel::Unknown::ClusterReplaced => Self::ClusterReplaced,
                }
            }
        }
    };
}

pub(crate) use unknown_reasons;
