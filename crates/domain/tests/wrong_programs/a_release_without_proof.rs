//! To end a resource by absence needs an authority's answer, not a request.

use usher_domain::direct::proof::{Ended, ProvenAbsent};

fn main() {
    let _ = Ended::absent(ProvenAbsent(()), true);
}
