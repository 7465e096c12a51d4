//! The stamp of another object is no record of this one, so nothing can be deleted by it.

use usher_domain::direct::deleter::deleter;
use usher_domain::direct::model::Model;
use usher_domain::direct::recorded::Unbound;

fn take_over<M: Model>(copied: &Unbound) {
    let _ = deleter::<M>(copied);
}

fn main() {}
