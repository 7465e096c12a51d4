//! Why a machine is where it is: one closed set for conditions, metrics, answers and the runbook.

use crate::object::reasons::reasons;

const SLOW: &str = "provider {provider} accepted the command and has not finished it; the command \
    is repeated with a new token, and nothing is taken for done before the provider shows it";

reasons! {
    /// Why a decision did what it did, or why it waits.
    "machine reason" Reason {
        Unused: Info "it is not needed, and it costs nothing";
        Spare: Info "its host is running and not needed; it is given back after its window";
        AsDeclared: Info "it serves cluster {cluster}, as declared";
        CommandRecorded: Info "its next command is recorded before it is sent";
        CommandSent: Info "its recorded command is sent next";
        CommandRepeated: Warning "its last command had no effect and is repeated"
            => "provider {provider} shows the machine in the state from before the command: the \
             request was lost, or refused",
            "wait; if it lasts, inspect the log of provider {provider}";
        CommandWithdrawn: Info "a command that had no effect is no longer needed";
        WaitingForHost: Info "its host is being created";
        WaitingForNode: Info "its host is running and it is joining cluster {cluster}";
        WaitingForDrain: Info
            "it is being drained from cluster {cluster}; it stays bound until then";
        WaitingForDeletion: Info "its host is being given back";
        CreateOverdue: Warning "its host was not created within the deadline; it is requested again"
            => SLOW, "check the quota and log of provider {provider}; no action is needed here";
        ConfigureOverdue: Warning
            "it did not join cluster {cluster} within the deadline; the command is repeated"
            => SLOW, "check whether the host starts and can reach cluster {cluster}";
        DrainOverdue: Warning
            "it did not leave cluster {cluster} within grace and deadline; the command is repeated"
            => SLOW,
            "check what cannot be evicted in cluster {cluster}: a disruption budget, a stuck pod";
        DeleteOverdue: Warning
            "its host was not given back within the deadline; the command is repeated"
            => SLOW, "inspect the log of provider {provider}: until then the host may cost money";
        CommandCompleted: Info "its last command is done";
        UnexpectedTransition: Warning "its state changed without an open command"
            => "a late answer to an earlier command, or another client uses provider {provider}",
            "nothing, if it was one machine; else check which clients use the provider";
        HostLost: Warning "its host, or its place in the cluster, was lost"
            => "provider {provider} reclaimed the host, or it broke",
            "nothing: the need is served by another machine as soon as there is one";
        ProviderReportedFailure: Warning "its provider reported a failure: {error}"
            => "provider {provider} shows it failed; it is left alone for its deadline and then \
             salvaged",
            "fix what the error names; its need is served by another machine";
        Failed: Warning "it failed: {error}"
            => "it is left alone until its deadline, so that it can be examined; one that a \
             resource held is given back without that",
            "inspect the host if you want to know why; it is salvaged by itself, unless provider \
             {provider} cannot salvage a failed machine: then clean up there";
        FailedAndHeld: Critical "it failed and resource {holder} holds it: {error}"
            => "a machine that a resource holds is not taken away from it",
            "`usher deprovision {holder}`, or `usher retry {holder} --replace`";
        CleaningUp: Info "it failed; what is left of it is being removed";
        Recovered: Info "it had failed and is usable again";
        BindingDisputed: Critical "its provider names cluster {named} and we do not"
            => "another client bound it, or our record is wrong; until that is settled nothing is \
             done to it and no plan takes it",
            "`usher fleet settle {name} --adopt` if cluster {named} is right, \
             `usher fleet settle {name} --drain` if it is not";
        BindingSettled: Info "its provider names our cluster again, or none";
        MissingFromList: Info "a list does not name it, so it is queried by itself"
            => "a list proves presence only",
            "nothing: it is gone only if provider {provider} does not know it either";
        Gone: Info "its provider does not know it any more";
        Unreachable: Warning "provider {provider} does not answer"
            => "nothing is known of the machine at the moment, and nothing is concluded from that",
            "restore provider {provider}; it continues by itself";
        StaleObservation: Info
            "the last observation may be older than its last command, so it does not count";
        ProviderRecordInvalid: Warning
            "the provider's record of it contradicts itself, so it is left as it was"
            => "provider {provider} shows a state without what belongs to it, or an impossible one",
            "fix the provider; the machine is followed again with the next valid record";
        MassDeletionGuardTripped: Critical
            "too many machines of provider {provider} are missing at once"
            => "an empty or truncated list is the commonest wrong answer; none counts as gone",
            "inspect the provider; a complete list counts by itself";
        Paused: Info "it would be worked on, and shard {shard} is paused"
            => "an operator paused the shard: work in progress continues, and nothing new begins",
            "`usher fleet resume --shard {shard}`; `usher get audit` says who paused it";
        FencedByNewerEpoch: Info "another process holds the lease of shard {shard} by now";
    }
}
