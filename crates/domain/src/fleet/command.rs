//! What a person, or the broker, can ask for: each command answers with the next row, or a refusal.

use super::aggregate::{Machine, State, Target, Wanted};
use super::binding::{Assignment, Binding};
use super::facts::Order;
use super::phase::Phase;
use super::refusal::Refusal;
use crate::object::id::ResourceId;

/// How a dispute about a binding is settled by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The cluster that the provider names is right.
    Adopt,
    /// Nobody is right: the machine is drained and becomes spare.
    Drain,
}

/// Takes a machine out of the plan's hands for a resource of the broker.
pub fn hold(machine: &Machine, holder: ResourceId, wanted: Wanted) -> Result<Machine, Refusal> {
    let what = machine.id().to_string();
    let fields = machine.fields();
    match fields.holder {
        Some(other) if other != holder => return Err(Refusal::MachineHeld { what }),
        Some(_) => return Ok(machine.aimed(wanted)),
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
    Ok(machine.aimed(wanted).changed(|it| it.holder = Some(holder)))
}

/// Gives a machine back to the plan; asking again changes nothing. What ran on it is drained.
pub fn let_go(machine: &Machine, holder: ResourceId) -> Result<Machine, Refusal> {
    match machine.fields().holder {
        Some(it) if it == holder => {}
        Some(_) => return Err(Refusal::MachineNotHeld { what: machine.id().to_string() }),
        None => return Ok(machine.clone()),
    }
    let aimed = machine.aimed(Wanted::of(Target::Unbound));
    Ok(aimed.changed(|it| it.holder = None))
}

/// Ends a dispute: a person says whose the machine is.
pub fn settle(machine: &Machine, settlement: Settlement) -> Result<Machine, Refusal> {
    let disputed = || Refusal::NotQuarantined { what: machine.id().to_string() };
    let named = machine.fields().disputed.clone().ok_or_else(disputed)?;
    let host = machine.state().host().cloned().ok_or_else(disputed)?;
    let binding = Binding { cluster: named, assignment: Assignment::default() };
    let target = match settlement {
        Settlement::Adopt => Target::Bind(binding.clone()),
        Settlement::Drain => Target::Unbound,
    };
    let aimed = machine.aimed(Wanted::of(target));
    Ok(aimed.changed(|it| {
        it.state = State::Configured { host, binding };
        it.order = Order::None;
        it.disputed = None;
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::fixture::{binding, cluster, host, machine, resource};

    fn bind(name: &str) -> Wanted {
        Wanted::of(Target::Bind(binding(name)))
    }

    #[test]
    fn only_what_nobody_uses_is_taken() {
        let idle = machine(|_| ());
        let held = hold(&idle, resource(1), bind("a")).unwrap();
        assert_eq!((held.fields().holder, held.wanted()), (Some(resource(1)), &bind("a")));
        assert_eq!(hold(&held, resource(1), bind("a")).unwrap(), held, "asking again is the same");
        let other = hold(&held, resource(2), bind("a")).unwrap_err();
        assert_eq!(other, Refusal::MachineHeld { what: "m1".to_owned() });
        let promised = idle.aimed(bind("b"));
        let configured =
            machine(|it| it.state = State::Configured { host: host(), binding: binding("a") });
        let disputed = machine(|it| it.disputed = Some(cluster("x")));
        for busy in [promised, configured, disputed, machine(|it| it.state = State::Creating)] {
            let refusal = hold(&busy, resource(1), bind("a")).unwrap_err();
            assert_eq!(refusal.code(), "machine_busy", "{:?}", busy.phase());
        }
    }

    #[test]
    fn only_its_holder_lets_a_machine_go() {
        let held = hold(&machine(|_| ()), resource(1), bind("a")).unwrap();
        assert_eq!(let_go(&held, resource(2)).unwrap_err().code(), "machine_not_held");
        let free = let_go(&held, resource(1)).unwrap();
        assert_eq!((free.fields().holder, &free.wanted().target), (None, &Target::Unbound));
        assert_eq!(let_go(&free, resource(1)).unwrap(), free);
    }

    #[test]
    fn a_dispute_is_settled_as_a_person_says() {
        let disputed = machine(|it| {
            it.state = State::Configured { host: host(), binding: binding("a") };
            it.wanted = bind("a");
            it.disputed = Some(cluster("x"));
        });
        let adopted = settle(&disputed, Settlement::Adopt).unwrap();
        assert_eq!(adopted.state().binding().map(|it| &it.cluster), Some(&cluster("x")));
        assert_eq!(adopted.wanted().cluster(), Some(&cluster("x")));
        let drained = settle(&disputed, Settlement::Drain).unwrap();
        assert_eq!(drained.wanted().target, Target::Unbound);
        assert_eq!(drained.fields().disputed, None);
        let refusal = settle(&drained, Settlement::Drain).unwrap_err();
        assert_eq!(refusal.code(), "not_quarantined");
    }
}
