//! Everything that can go wrong in the fleet's world.

use crate::fault::faults;

faults! {
    /// A machine is not shown by its provider for a moment.
    Unreachable = "machine unreachable",
    /// The provider does not answer for a while.
    ProviderDown = "provider down",
    /// The provider answers a verb with an error that will pass.
    Transient = "transient error",
    /// The provider starts again and loses or fails what it was doing.
    ProviderRestart = "provider restarted",
    /// What was begun ends in failure.
    Terminal = "terminal failure",
    /// What was begun is forgotten and never ends by itself.
    Stuck = "work forgotten",
    /// A host is taken away.
    HostLost = "host lost",
    /// A machine is removed from its provider.
    Removed = "machine removed",
    /// Another client drains a node.
    DrainedOutside = "drained from outside",
    /// Another client binds an idle machine to a cluster of its own.
    BoundOutside = "bound from outside",
    /// A price changes.
    PriceChanged = "price changed",
    /// A price becomes unreadable, and stays so.
    PriceUnreadable = "price unreadable",
    /// A record breaks the rules of its own state.
    Malformed = "malformed record",
    /// A list arrives long after it began.
    LateList = "list late",
    /// A list is cut.
    CutList = "list cut",
    /// The provider shows an empty world for a while.
    EmptyList = "everything absent for a while",
    /// A list fails.
    ListFails = "list failed",
    /// The shard starts again with a new epoch and an empty memory.
    ShardRestart = "shard restarted",
    /// The store does not answer for a while.
    StoreDown = "store down",
    /// No roll-up of a cluster is received for a while.
    ClusterSilent = "cluster silent",
    /// A cluster's demand seems to vanish for a moment.
    Collapse = "roll-up collapsed",
    /// A need cannot be read for a while.
    Unreadable = "need unreadable",
    /// Another client pauses the fleet.
    Paused = "fleet paused",
    /// Another client tries a dry run.
    DryRun = "dry run",
    /// The clock jumps ahead.
    ClockJump = "clock jump",
    /// A machine appears that was not known.
    Discovered = "machine discovered",
}
