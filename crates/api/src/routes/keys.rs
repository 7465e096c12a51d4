//! Server keys, and the receipts that are sealed with them.

use axum::body::Body;
use axum::http::{Method, Response};
use serde_json::Value;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::key::KeyState;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use crate::call::{Call, all, no_content, ok};
use crate::ports::{Answer, Failure};
use crate::refusal::Refusal;
use crate::render;
use crate::route::{Right, Route};
use crate::views::KeyView;

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Installation(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    let verify = (Method::POST, "/v1/receipts/verify");
    vec![
        Route::new((Method::GET, "/v1/keys"), viewer, "List server keys", list)
            .lists::<wire::ServerKey>(&[]),
        Route::new((Method::POST, "/v1/keys/rotate"), admin, "Rotate the server key", rotate)
            .takes::<wire::RotateKey>()
            .lists::<wire::ServerKey>(&[]),
        Route::new(verify, Right::Project(Role::Viewer), "Verify a receipt", verified)
            .takes::<wire::VerifyReceipt>(),
    ]
}

fn key(it: &KeyView) -> wire::ServerKey {
    wire::ServerKey {
        id: it.key.id.to_string(),
        state: it.key.state.to_string(),
        current_since: render::time(it.key.current_since),
        superseded_at: render::maybe(it.key.superseded_at),
        retired_at: render::maybe(it.key.retired_at),
        tokens: it.tokens,
        nodes: it.nodes,
        held: it.held,
        removable: it.key.state == KeyState::Retired,
    }
}

async fn list(call: Call) -> Answer<Response<Body>> {
    all(call.ports().keys.list().await?, key)
}

async fn rotate(call: Call) -> Answer<Response<Body>> {
    let wire::RotateKey { from } = call.body()?;
    all(call.ports().keys.rotate(call.caller()?, &KeyId::from_stored(from)).await?, key)
}

/// Answers with a receipt and its code.
pub(super) async fn sealed(call: &Call, receipt: wire::Receipt) -> Answer<Response<Body>> {
    let broken = |_| Failure::Broken { what: "a receipt".to_owned() };
    let (content, ..) = content(serde_json::to_value(&receipt).map_err(broken)?);
    let (key_id, mac) = call.ports().keys.seal(&content).await?;
    ok(&wire::Receipt { key_id: key_id.to_string(), mac, ..receipt })
}

async fn verified(call: Call) -> Answer<Response<Body>> {
    let wire::VerifyReceipt { receipt } = call.body()?;
    let (content, key_id, mac) = content(receipt.into());
    let key_id = KeyId::from_stored(key_id);
    let is_sealed = call.ports().keys.is_sealed(&content, &key_id, &mac).await?;
    if is_sealed { Ok(no_content()) } else { Err(Refusal::ReceiptInvalid.into()) }
}

/// What is sealed of a receipt: its JSON without spaces and with sorted names; and key and code.
fn content(mut receipt: Value) -> (Vec<u8>, String, String) {
    let mut take = |name| match receipt.as_object_mut().and_then(|it| it.remove(name)) {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    };
    let (key_id, mac) = (take("key_id"), take("mac"));
    (receipt.to_string().into_bytes(), key_id, mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red by: a JSON library that keeps the order of names, so that equal receipts differ.
    #[test]
    fn the_order_of_names_does_not_change_what_is_sealed() {
        let read = |text: &str| content(serde_json::from_str(text).unwrap());
        let one = read(r#"{"a": 1, "mac": "m", "b": {"d": 2, "c": 3}, "key_id": "k"}"#);
        assert_eq!(one, read(r#"{"key_id":"k","b":{"c":3,"d":2},"a":1,"mac":"m"}"#));
        assert_eq!(one, (br#"{"a":1,"b":{"c":3,"d":2}}"#.to_vec(), "k".into(), "m".into()));
    }
}
