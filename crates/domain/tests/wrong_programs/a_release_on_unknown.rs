//! That the cloud refused to answer is not that nothing is there.

use usher_domain::direct::snapshot::ReadError;
use usher_domain::direct::proof::Ended;

fn main() {
    let _ = Ended::absent(ReadError::Refused, true);
}
