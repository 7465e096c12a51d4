//! A stored outcome is no end without the ledger that proves it.

use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::proof::Ended;

fn ended(stored: &Resource) -> Option<Ended> {
    stored.ended()
}

fn main() {}
