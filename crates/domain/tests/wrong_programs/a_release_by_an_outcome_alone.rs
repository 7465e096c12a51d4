//! The finalizer goes with an end, and an end is not made from a word.

use usher_domain::direct::aggregate::ObjectKey;
use usher_domain::direct::effect::Effect;
use usher_domain::direct::proof::{Ended, Outcome};

fn release(object: ObjectKey) -> Effect {
    Effect::RemoveFinalizer { object, ended: Ended { outcome: Outcome::Deleted } }
}

fn main() {}
