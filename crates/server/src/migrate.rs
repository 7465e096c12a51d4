//! Bringing the schema of a database up or down.

pub use usher_store::Place;
pub use usher_store::migrate::{Status, Step, Way};

use usher_store::Store;

use crate::error::ServerError;

/// Migrates the database at a place, and tells each migration as it is done.
pub async fn migrate(
    place: &Place,
    way: Way,
    progress: &mut (dyn FnMut(Step) + Send),
) -> Result<Status, ServerError> {
    Ok(Store::migrate_telling(place, way, progress).await?)
}
