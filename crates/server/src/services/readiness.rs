//! Whether this process can serve: its dependencies answer, and its parts have begun.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use usher_api::ports::Readiness;
use usher_api::views::Check;

use super::{Services, WORLD};

/// How long a dependency may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[async_trait]
impl Readiness for Services {
    async fn checks(&self) -> Vec<Check> {
        let database = match timeout(PATIENCE, self.store.now()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer in time".to_owned()),
        };
        let world = match self.world.registry().pin() {
            Ok(pin) if pin.identity.0.is_empty() => Some("it has lost its identity".to_owned()),
            Ok(_) => None,
            Err(why) => Some(why.to_string()),
        };
        let listing = (!*self.listed.borrow()).then(|| "it was not listed yet".to_owned());
        vec![
            Check { name: "database".to_owned(), failing: database },
            Check { name: format!("world:{WORLD}"), failing: world },
            Check { name: format!("listing:{WORLD}"), failing: listing },
            Check { name: "worker".to_owned(), failing: self.tally.trouble() },
        ]
    }
}
