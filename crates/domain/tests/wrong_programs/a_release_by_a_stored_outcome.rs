//! An outcome that is stored is no end without the ledger it rests on.

use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::proof::Ended;

fn ended(stored: &Resource) -> Option<Ended> {
    stored.ended()
}

fn main() {}
