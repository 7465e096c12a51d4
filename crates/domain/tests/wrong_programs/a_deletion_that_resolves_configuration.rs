//! Only an object that is not being deleted may resolve configuration.

use usher_domain::direct::ports::Reader;
use usher_domain::direct::reference::{Converging, Declared, resolve_all};

async fn delete(reader: &impl Reader, references: &[Declared]) {
    let _ = resolve_all(reader, references, &Converging(())).await;
}

fn main() {}
