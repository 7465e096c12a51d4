//! Why a machine is where it is: one closed set for conditions, metrics and answers.

use crate::object::closed::closed_set;

closed_set! {
    /// Why a decision did what it did, or why it waits.
    "machine reason" Reason {
        /// It is not needed, and it costs nothing.
        Unused = "Unused",
        /// It is not needed, and it is kept.
        Spare = "Spare",
        /// It serves the cluster that is wanted.
        Steady = "Steady",
        /// An order is recorded with its token, before it is sent.
        OrderRecorded = "OrderRecorded",
        /// The recorded order is sent.
        OrderSent = "OrderSent",
        /// The order had no effect and is given again.
        OrderRepeated = "OrderRepeated",
        /// The order was not sent or had no effect, and is not wanted any more.
        OrderTakenBack = "OrderTakenBack",
        /// Its host is being made.
        WaitingForHost = "WaitingForHost",
        /// It has not become a node yet.
        WaitingForNode = "WaitingForNode",
        /// It has not left its cluster yet.
        WaitingForDrain = "WaitingForDrain",
        /// Its host is not given back yet.
        WaitingForDeletion = "WaitingForDeletion",
        /// Its host was not made within the deadline: asked again.
        CreateOverdue = "CreateOverdue",
        /// It did not become a node within the deadline: asked again.
        ConfigureOverdue = "ConfigureOverdue",
        /// It did not leave within grace and deadline: asked again.
        DrainOverdue = "DrainOverdue",
        /// Its host was not given back within the deadline: asked again.
        DeleteOverdue = "DeleteOverdue",
        /// What was ordered is done.
        Completed = "Completed",
        /// It moved without an open order: a late answer, or another party's.
        MovedUnasked = "MovedUnasked",
        /// Its host, or its place in the cluster, was lost.
        HostLost = "HostLost",
        /// Its provider gave up on it.
        ProviderFailed = "ProviderFailed",
        /// It failed, and is left alone until its deadline.
        Failed = "Failed",
        /// It failed and a resource holds it: the resource lets it go first.
        FailedAndHeld = "FailedAndHeld",
        /// It failed; what is left of it is taken away.
        CleaningUp = "CleaningUp",
        /// It had failed and is usable again.
        Recovered = "Recovered",
        /// Its provider names another cluster than we do.
        BindingDisputed = "BindingDisputed",
        /// Its provider names our cluster again, or none.
        BindingSettled = "BindingSettled",
        /// A list does not name it: it is asked for by itself.
        MissingFromList = "MissingFromList",
        /// Its provider does not know it any more.
        Gone = "Gone",
        /// No answer.
        Unreachable = "Unreachable",
        /// The look may be older than the last order.
        StaleLook = "StaleLook",
        /// The parts of its record disagree.
        RecordRefused = "RecordRefused",
        /// Too much vanished at once: its absence is held.
        RailTripped = "RailTripped",
        /// Nothing new is begun at the moment.
        Paused = "Paused",
        /// A newer epoch speaks for the shard.
        Superseded = "Superseded",
    }
}
