//! A recorded identity is read from a record; it is never made up.

use usher_domain::direct::identity::Identified;
use usher_domain::direct::mark::Binding;
use usher_domain::direct::recorded::{Recorded, IdentityState};

fn made_up(binding: Binding, identified: Identified) -> Recorded {
    Recorded { binding, state: IdentityState::Gone, identified }
}

fn main() {}
