//! A deletion names the one object that it may delete.

use usher_domain::direct::deleter::Deleter;
use usher_domain::direct::ports::Client;

async fn remove(deleter: &impl Deleter, client: &impl Client) {
    let _ = deleter.delete(client).await;
}

fn main() {}
