//! An orphan is released with a record that the rules wrote.

use usher_domain::direct::orphan::OrphanRecord;
use usher_domain::direct::proof::Ended;

fn main() {
    let _ = Ended::recorded(&OrphanRecord::default());
}
