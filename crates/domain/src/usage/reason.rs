//! Why a Usage is where it is: one closed set for conditions, metrics and answers.

use crate::object::closed::closed_set;
use crate::object::unknown::unknown_reasons;

closed_set! {
    /// Why a decision did what it did, or why it waits.
    "usage reason" Reason {
        /// Our finalizer comes before anything else.
        AddingFinalizer = "AddingFinalizer",
        /// What the references mean is recorded.
        Resolving = "Resolving",
        /// The references cannot be used.
        Refused = "Refused",
        /// No object matches.
        NothingMatches = "NothingMatches",
        /// The used object is not there.
        TargetMissing = "TargetMissing",
        /// The used object is on its way out.
        TargetLeaving = "TargetLeaving",
        /// The uid of the used object is recorded before it is marked.
        Recording = "Recording",
        /// The used object is being marked.
        Marking = "Marking",
        /// Whether its deletion is refused is not answered yet.
        Probing = "Probing",
        /// Its deletion would be allowed: admission does not work for it.
        NotRefused = "NotRefused",
        /// It is used, and protected.
        InUse = "InUse",
        /// It is protected for a reason, without a user.
        ProtectedForReason = "ProtectedForReason",
        /// It is protected, and its user was never seen.
        UserMissing = "UserMissing",
        /// The user is on its way out, and still there.
        UserLeaving = "UserLeaving",
        /// The object that was the user is gone.
        UserGone = "UserGone",
        /// Another user stands where one was gone.
        UserReturned = "UserReturned",
        /// The Usage was deleted and the object has no user.
        UsageDeleted = "UsageDeleted",
        /// A kind was removed from the world.
        KindRemoved = "KindRemoved",
        /// The owners of the Usage need not wait for it.
        Yielding = "Yielding",
        /// The owners of the used object need not wait for it.
        Unblocking = "Unblocking",
        /// A mark is being taken off.
        Unmarking = "Unmarking",
        /// A denied deletion is passed on to another Usage that holds the object.
        HandingOver = "HandingOver",
        /// That a denied deletion is replayed is recorded first.
        BeginningReplay = "BeginningReplay",
        /// A denied deletion is being repeated.
        Replaying = "Replaying",
        /// A denied deletion is done, or will not be done.
        AttemptSettled = "AttemptSettled",
        /// A deletion was denied on its account after it had let go.
        AttemptRecorded = "AttemptRecorded",
        /// Nothing is held any more.
        Released = "Released",
        /// The use is over: the Usage itself is asked to go.
        Retiring = "Retiring",
        /// Our finalizer is being taken off.
        RemovingFinalizer = "RemovingFinalizer",
        /// An authority that must answer did not.
        Unreachable = "Unreachable",
        /// An authority that must answer refused access.
        Forbidden = "Forbidden",
        /// The world is not the one that was pinned: absence proves nothing.
        ClusterReplaced = "ClusterReplaced",
        /// Too much vanished at once: absence is held until an operator opens the rail.
        RailTripped = "RailTripped",
    }
}

unknown_reasons!(Reason);
