//! What an operator, or the broker, can request: each command answers with the next row, or a
//! refusal.

use usher_kernel::Timestamp;

use super::aggregate::{Dispute, Machine, State, Target, Wanted};
use super::binding::{Assignment, Binding};
use super::event::{Event, EventType};
use super::facts::CommandState;
use super::phase::Phase;
use super::refusal::Refusal;
use crate::object::id::ResourceId;

/// What a command changes, written in one transaction guarded by the row's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row as it shall be.
    pub next: Machine,
    pub event: Option<Event>,
}

/// How a dispute about a binding is settled by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The cluster that the provider names is right; the holder of the machine loses it.
    Adopt,
    /// The cluster that the provider names is wrong: the machine is drained and bound for its
    /// holder, or becomes spare.
    Drain,
}

/// Holds a machine for a resource of the broker, so that it is no candidate of the plan.
pub fn hold(machine: &Machine, holder: ResourceId, wanted: Wanted) -> Result<Change, Refusal> {
    let what = machine.id().to_string();
    let fields = machine.fields();
    match fields.holder {
        Some(other) if other != holder => return Err(Refusal::MachineHeld(what)),
        Some(_) => return Ok(untold(machine.aimed(wanted))),
        None => {}
    }
    let free = match machine.phase() {
        Phase::Speculative | Phase::Idle => !matches!(fields.wanted.target, Target::Bind(_)),
        Phase::Creating
        | Phase::Configuring
        | Phase::Configured
        | Phase::Draining
        | Phase::Deleting
        | Phase::Failed
        | Phase::Gone => false,
    };
    if !free || fields.disputed.is_some() {
        return Err(Refusal::MachineBusy { what, phase: machine.phase().to_string() });
    }
    Ok(untold(machine.aimed(wanted).changed(|it| it.holder = Some(holder))))
}

/// Says what shall become of a machine that a resource holds. A resource that released it meanwhile
/// does not take it again by this.
pub fn aim(machine: &Machine, holder: ResourceId, wanted: Wanted) -> Result<Change, Refusal> {
    if machine.fields().holder != Some(holder) {
        return Err(Refusal::MachineNotHeld(machine.id().to_string()));
    }
    Ok(untold(machine.aimed(wanted)))
}

/// Gives a machine back to the plan; a repeated request changes nothing. What ran on it is drained.
pub fn let_go(machine: &Machine, holder: ResourceId) -> Result<Change, Refusal> {
    match machine.fields().holder {
        Some(it) if it == holder => {}
        Some(_) => return Err(Refusal::MachineNotHeld(machine.id().to_string())),
        None => return Ok(untold(machine.clone())),
    }
    let aimed = machine.aimed(Wanted::of(Target::Unbound));
    Ok(untold(aimed.changed(|it| it.holder = None)))
}

/// Ends a dispute: an operator names the owner of the machine.
pub fn settle(
    machine: &Machine,
    settlement: Settlement,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let settled = || Refusal::NotDisputed(machine.id().to_string());
    let Dispute { cluster, host } = machine.fields().disputed.clone().ok_or_else(settled)?;
    let binding = Binding { cluster: cluster.clone(), assignment: Assignment::default() };
    let (wanted, holder) = match (settlement, machine.fields().holder) {
        (Settlement::Adopt, _) => (Wanted::of(Target::Bind(binding.clone())), None),
        (Settlement::Drain, None) => (Wanted::of(Target::Unbound), None),
        (Settlement::Drain, holder @ Some(_)) => (machine.wanted().clone(), holder),
    };
    let next = machine.aimed(wanted).changed(|it| {
        it.holder = holder;
        it.state = State::Configured { host, binding };
        it.command = CommandState::None;
        it.disputed = None;
        it.phase_since = now.max(it.phase_since);
    });
    let (kind, from, to) = (EventType::Settled, machine.phase(), next.phase());
    let event = Some(Event { kind, from, to, cluster: Some(cluster), error: None });
    Ok(Change { next, event })
}

fn untold(next: Machine) -> Change {
    Change { next, event: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::fixture::{NOW, binding, cluster, dispute, host, machine, resource};

    fn bind(name: &str) -> Wanted {
        Wanted::of(Target::Bind(binding(name)))
    }

    // Requirement: F-82
    #[test]
    fn only_its_holder_aims_a_machine_and_takes_none_by_that() {
        let idle = machine(|_| ());
        let refused = Err(Refusal::MachineNotHeld(idle.id().to_string()));
        assert_eq!(aim(&idle, resource(1), bind("a")), refused, "it was released");
        let held = hold(&idle, resource(1), bind("a")).unwrap().next;
        assert_eq!(aim(&held, resource(2), bind("b")), refused);
        let aimed = aim(&held, resource(1), bind("b")).unwrap().next;
        assert_eq!((aimed.wanted(), aimed.fields().holder), (&bind("b"), Some(resource(1))));
    }

    // Requirement: F-23
    #[test]
    fn only_what_is_not_used_is_taken() {
        let idle = machine(|_| ());
        let held = hold(&idle, resource(1), bind("a")).unwrap().next;
        assert_eq!((held.fields().holder, held.wanted()), (Some(resource(1)), &bind("a")));
        assert_eq!(
            hold(&held, resource(1), bind("a")).unwrap().next,
            held,
            "a repeated request is the same"
        );
        let other = hold(&held, resource(2), bind("a")).unwrap_err();
        assert_eq!(other, Refusal::MachineHeld("m1".to_owned()));
        let promised = idle.aimed(bind("b"));
        let configured =
            machine(|it| it.state = State::Configured { host: host(), binding: binding("a") });
        let disputed = machine(|it| it.disputed = Some(dispute("x")));
        for busy in [promised, configured, disputed, machine(|it| it.state = State::Creating)] {
            let refusal = hold(&busy, resource(1), bind("a")).unwrap_err();
            assert_eq!(refusal.code(), "machine_busy", "{:?}", busy.phase());
        }
    }

    // Requirement: F-23
    #[test]
    fn only_its_holder_releases_a_machine() {
        let held = hold(&machine(|_| ()), resource(1), bind("a")).unwrap().next;
        assert_eq!(let_go(&held, resource(2)).unwrap_err().code(), "machine_not_held");
        let free = let_go(&held, resource(1)).unwrap().next;
        assert_eq!((free.fields().holder, &free.wanted().target), (None, &Target::Unbound));
        assert_eq!(let_go(&free, resource(1)).unwrap().next, free);
    }

    // Requirement: F-17
    #[test]
    fn a_dispute_is_settled_as_a_person_says() {
        let disputed = machine(|it| {
            it.state = State::Configured { host: host(), binding: binding("a") };
            it.wanted = bind("a");
            it.disputed = Some(dispute("x"));
        });
        let adopted = settle(&disputed, Settlement::Adopt, NOW).unwrap();
        let reported = adopted.event.unwrap();
        assert_eq!((reported.kind, reported.cluster), (EventType::Settled, Some(cluster("x"))));
        let adopted = adopted.next;
        assert_eq!(adopted.state().binding().map(|it| &it.cluster), Some(&cluster("x")));
        assert_eq!(adopted.wanted().cluster(), Some(&cluster("x")));
        let drained = settle(&disputed, Settlement::Drain, NOW).unwrap().next;
        assert_eq!(drained.wanted().target, Target::Unbound);
        assert_eq!(drained.fields().disputed, None);
        let refusal = settle(&drained, Settlement::Drain, NOW).unwrap_err();
        assert_eq!(refusal.code(), "not_disputed");
    }

    // Requirement: F-17
    #[test]
    fn a_holder_loses_its_machine_only_to_a_cluster_that_is_right() {
        let disputed = hold(&machine(|_| ()), resource(1), bind("a")).unwrap().next;
        let disputed = disputed.changed(|it| it.disputed = Some(dispute("x")));
        let drained = settle(&disputed, Settlement::Drain, NOW).unwrap().next;
        assert_eq!((drained.fields().holder, drained.wanted()), (Some(resource(1)), &bind("a")));
        let adopted = settle(&disputed, Settlement::Adopt, NOW).unwrap().next;
        assert_eq!((adopted.fields().holder, adopted.wanted()), (None, &bind_plainly("x")));
    }

    fn bind_plainly(name: &str) -> Wanted {
        let binding = Binding { cluster: cluster(name), assignment: Assignment::default() };
        Wanted::of(Target::Bind(binding))
    }
}
