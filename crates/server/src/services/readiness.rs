//! Readiness: the dependencies answer, and the worlds have been listed.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use usher_api::ports::Readiness;
use usher_api::views::Check;

use super::Services;

/// Timeout of one check.
const TIMEOUT: Duration = Duration::from_secs(2);

#[async_trait]
impl Readiness for Services {
    async fn checks(&self) -> Vec<Check> {
        let database = match timeout(TIMEOUT, self.store.now()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        let mut checks = vec![Check { name: "database".to_owned(), failing: database }];
        checks.push(Check { name: "key".to_owned(), failing: self.failing_key().await });
        for (name, attached) in self.worlds.iter() {
            let health = match timeout(TIMEOUT, attached.world.health()).await {
                Ok(healthy) => healthy.err().map(|why| why.to_string()),
                Err(_) => Some("no answer in time".to_owned()),
            };
            let listed = *attached.listed.borrow();
            let listing = (!listed).then(|| "not listed yet".to_owned());
            checks.push(Check { name: format!("world:{name}"), failing: health });
            checks.push(Check { name: format!("listing:{name}"), failing: listing });
        }
        checks.push(Check { name: "worker".to_owned(), failing: self.tally.trouble() });
        checks
    }
}

impl Services {
    /// Why this process cannot derive every secret. A database that does not answer is another
    /// check.
    async fn failing_key(&self) -> Option<String> {
        let _ = timeout(TIMEOUT, self.plane.refresh_keys()).await;
        let missing = self.plane.keys.missing()?;
        Some(format!("key {missing} is not in the key file of this server"))
    }
}
