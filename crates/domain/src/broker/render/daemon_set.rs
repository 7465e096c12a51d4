//! The agent as a DaemonSet: what a Helm release of it installs, for clusters without Helm.
//!
//! The token gets there in one of two ways: in a Secret of the bundle, or in a Secret that
//! another tool put there and the bundle only names.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::agent::{Agent, CONFIG_FILE};
use crate::object::enrolment::TokenText;
use crate::object::label::is_dns_subdomain;
use crate::object::manifest::Manifest;
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

const NAME: &str = "usher-agent";
const SECRET: &str = "usher-agent-bootstrap";
const SECRET_FIELD: &str = "bootstrap-token";
const TOKEN_MOUNT: &str = "/run/usher-bootstrap";

/// The name of a Secret that is already there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(String);

/// A text that is no name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Secret name \"{text}\" is not a DNS subdomain")]
pub struct BadSecretName {
    /// The offending text, shortened.
    pub text: String,
}

impl BadSecretName {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "secret_name_invalid"
    }
}

impl FromStr for SecretName {
    type Err = BadSecretName;

    fn from_str(text: &str) -> Result<Self, BadSecretName> {
        if !is_dns_subdomain(text) {
            return Err(BadSecretName { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(SecretName: BadSecretName);

/// How the token gets to the agent.
#[derive(Clone, Copy, Debug)]
pub enum TokenDelivery<'a> {
    /// In a Secret of the bundle.
    Inline(&'a TokenText),
    /// In a Secret that exists, under the key `bootstrap-token`.
    Existing(&'a SecretName),
}

/// The objects of the agent in `namespace`, in the order of their writes.
pub fn bundle(agent: &Agent<'_>, namespace: &str, delivery: TokenDelivery<'_>) -> Vec<Manifest> {
    let bare = |api_version, kind, name| {
        Manifest::new(api_version, kind, name)
            .in_namespace(namespace)
            .labelled("app.kubernetes.io/name", NAME)
    };
    let config = agent.config(&format!("{TOKEN_MOUNT}/{SECRET_FIELD}"));
    let mut objects = vec![bare("v1", "ConfigMap", NAME).with("data", "agent.json", config.into())];
    let secret = match delivery {
        TokenDelivery::Inline(token) => {
            objects.push(bare("v1", "Secret", SECRET).with_top("type", "Opaque".into()).with(
                "stringData",
                SECRET_FIELD,
                token.expose().into(),
            ));
            SECRET
        }
        TokenDelivery::Existing(name) => name.as_str(),
    };
    objects.push(bare("apps/v1", "DaemonSet", NAME).with_top("spec", spec(agent, secret)));
    objects
}

fn spec(agent: &Agent<'_>, secret: &str) -> Value {
    let labels = json!({ "app.kubernetes.io/name": NAME });
    json!({
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": {
                "automountServiceAccountToken": false,
                "hostNetwork": true,
                "containers": [{
                    "name": "agent",
                    "image": agent.image.as_str(),
                    "args": ["agent", "--config", CONFIG_FILE],
                    "securityContext": { "capabilities": { "add": ["NET_ADMIN"] } },
                    "volumeMounts": [
                        { "name": "config", "mountPath": "/etc/usher", "readOnly": true },
                        { "name": "bootstrap", "mountPath": TOKEN_MOUNT, "readOnly": true },
                        { "name": "state", "mountPath": "/var/lib/usher" },
                    ],
                }],
                "volumes": [
                    { "name": "config", "configMap": { "name": NAME } },
                    {
                        "name": "bootstrap",
                        "secret": { "secretName": secret, "defaultMode": 0o400 },
                    },
                    {
                        "name": "state",
                        "hostPath": { "path": "/var/lib/usher", "type": "DirectoryOrCreate" },
                    },
                ],
            },
        },
    })
}
