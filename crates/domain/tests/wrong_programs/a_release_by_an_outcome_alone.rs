//! The finalizer is removed with an end, and an outcome alone is no end.

use usher_domain::direct::aggregate::ObjectKey;
use usher_domain::direct::effect::Effect;
use usher_domain::direct::proof::{Ended, Outcome};

fn release(object: ObjectKey) -> Effect {
    Effect::RemoveFinalizer { object, ended: Ended { outcome: Outcome::Deleted } }
}

fn main() {}
