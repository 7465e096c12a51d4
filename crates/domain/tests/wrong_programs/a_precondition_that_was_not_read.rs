//! Only a row that was seen gives a precondition.

use usher_domain::direct::deleter::Precondition;
use usher_kernel::Uid;

fn main() {
    let _ = Precondition { uid: Uid::new("c-1"), etag: None };
}
