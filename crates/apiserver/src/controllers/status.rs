//! Conditions and status writes of controllers.

use serde_json::{Value, json};

use crate::clock;
use crate::status::Refusal;
use crate::verbs::RequestContext;
use crate::verbs::update::{Edit, update};

/// Replaces the status of one object.
pub(super) struct SetStatus {
    pub(super) uid: String,
    pub(super) status: Value,
}

impl Edit for SetStatus {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        next["status"] = self.status.clone();
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}

/// Writes; a missing or replaced object is not an error.
pub(super) async fn write(mut ctx: RequestContext<'_>, edit: &dyn Edit) -> Result<(), Refusal> {
    match update(&mut ctx, edit).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.code == 404 || refusal.code == 409 => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// A condition with the current time.
pub(super) fn condition((kind, state): (&str, &str), reason: &str, message: &str) -> Value {
    json!({
        "type": kind,
        "status": state,
        "lastTransitionTime": clock::now(),
        "reason": reason,
        "message": message,
    })
}

/// Sets a condition; its transition time changes only with its state.
pub(super) fn set_condition(status: &mut Value, mut wanted: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|condition| condition["type"] == wanted["type"]) {
        Some(found) => {
            if found["status"] == wanted["status"] {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = wanted;
        }
        None => list.push(wanted),
    }
}
