//! Tokens of service accounts.
//!
//! A token is a JWT that only this server can verify: the key is new at every start, as are the
//! certificate and the token of the administrator, unless the server keeps its credentials.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::User;
use crate::clock::{self, NoRandomness};
use crate::core::{Core, text};

/// The audience of tokens for this server, and their issuer.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

const HEADER: &str = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";

/// Signs and verifies tokens.
pub(crate) struct Issuer {
    key: hmac::Key,
}

/// The user of a verified token.
pub(crate) struct Bearer {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

/// What a token is for.
pub(crate) struct Binding<'a> {
    pub(crate) account: &'a Value,
    /// The token ends with this Secret.
    pub(crate) secret: Option<&'a Value>,
    pub(crate) audiences: &'a [String],
}

impl Bearer {
    /// Whether the token is for an audience.
    pub(crate) fn is_for(&self, audience: &str) -> bool {
        self.audiences.iter().any(|given| given == audience)
    }
}

impl Issuer {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// A token of a service account, from now until an instant in seconds.
    pub(crate) fn issue(
        &self,
        binding: &Binding<'_>,
        (now, until): (i64, i64),
    ) -> Result<String, NoRandomness> {
        let named = |object: &Value| {
            let (name, uid) = (text(object, "/metadata/name"), text(object, "/metadata/uid"));
            json!({"name": name, "uid": uid})
        };
        let namespace = text(binding.account, "/metadata/namespace");
        let user = User::service_account(namespace, text(binding.account, "/metadata/name"));
        let own = json!({"namespace": namespace, "serviceaccount": named(binding.account)});
        let mut claims = json!({
            "aud": binding.audiences,
            "exp": until,
            "iat": now,
            "iss": AUDIENCE,
            "jti": clock::uid()?,
            "kubernetes.io": own,
            "nbf": now,
            "sub": user.name,
        });
        if let Some(secret) = binding.secret {
            claims["kubernetes.io"]["secret"] = named(secret);
        }
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(HEADER));
        let signature = hmac::sign(&self.key, signed.as_bytes());
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The user of a token: `None` if this server has not signed it, or if it has expired, or if
    /// its service account or Secret is gone.
    pub(super) fn verify(&self, core: &Core, token: &str) -> Option<Bearer> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        if claims["exp"].as_i64()? <= clock::unix_seconds() {
            return None;
        }
        let own = &claims["kubernetes.io"];
        let namespace = text(own, "/namespace");
        let is_there = |table: &str, reference: &Value| {
            let key = format!("{namespace}/{}", text(reference, "/name"));
            let found = core.store.get(table, &key);
            found.is_some_and(|it| text(&it.head(), "/metadata/uid") == text(reference, "/uid"))
        };
        let account = &own["serviceaccount"];
        let secret = own.get("secret");
        if !is_there("serviceaccounts", account)
            || secret.is_some_and(|secret| !is_there("secrets", secret))
        {
            return None;
        }
        let mut user = User::service_account(namespace, text(account, "/name"));
        text(account, "/uid").clone_into(&mut user.uid);
        let id = format!("JTI={}", text(&claims, "/jti"));
        user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
        let audiences = claims["aud"].as_array().into_iter().flatten();
        let audiences = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        Some(Bearer { user, audiences })
    }
}
