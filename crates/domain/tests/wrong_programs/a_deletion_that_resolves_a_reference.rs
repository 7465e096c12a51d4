//! The client that a deletion is handed reaches a cloud, and no cluster.

use usher_domain::direct::ports::Client;
use usher_domain::direct::reference::{Declared, resolve_identity};

async fn delete(client: &impl Client, parents: &[Declared]) {
    let _ = resolve_identity(client, parents, &[]).await;
}

fn main() {}
