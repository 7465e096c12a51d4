//! Writes the bootstrap token into an XR: at one place, beside the operator's parameters.

use serde_json::json;

use super::agent::Agent;
use super::cloud_init;
use crate::blueprint::{InjectionStrategy, MeshRole};
use crate::object::enrolment::TokenText;
use crate::object::manifest::Manifest;

/// The XR with the token at the place the strategy names; unchanged if nothing enrols.
pub fn inject(
    xr: Manifest,
    role: MeshRole,
    strategy: InjectionStrategy,
    token: &TokenText,
    agent: &Agent<'_>,
) -> Manifest {
    match role {
        MeshRole::Standalone => return xr,
        MeshRole::Node => {}
    }
    match strategy {
        InjectionStrategy::CloudInitUserData => {
            xr.with("spec", "userData", cloud_init::document(token, agent).expose().into())
        }
        InjectionStrategy::HelmValues => xr.with_spec(
            "parameters",
            "helmValues",
            json!({
                "bootstrapToken": token.expose(),
                "apiUrl": agent.api_url.as_str(),
                "agentImage": agent.image.as_str(),
            }),
        ),
        InjectionStrategy::ProviderSecret => xr.with_spec(
            "parameters",
            "providerSecret",
            json!({ "bootstrapToken": token.expose() }),
        ),
    }
}
