//! Applies the definitions to a cluster.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::core::Request;
use kube_client::core::params::{GetParams, Patch, PatchParams};
use thiserror::Error;
use tokio::time::Instant;
use usher_domain::object::name::{ANNOTATION_DEFINITIONS, DEFINITIONS_OWNER};
use usher_kernel::Trouble;

use super::VERSION;
use crate::answer::{ReadFailure, Write, WriteFailure};
use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The pause between two looks at a definition that is not established.
const PAUSE: Duration = Duration::from_millis(100);

/// What became of the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// They are those of this program, and established.
    Ours,
    /// A newer program installed others, which were left alone.
    Newer {
        /// The newest version that was found.
        found: u32,
    },
}

/// Why the definitions are not installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InstallError {
    #[error("failed to read definition {name}")]
    Read {
        name: String,
        #[source]
        trouble: Trouble,
    },
    #[error(
        "definition {name} has the annotation {ANNOTATION_DEFINITIONS} with value \"{value}\", \
         which is no version: remove it, or the definition"
    )]
    Version { name: String, value: String },
    #[error("failed to apply definition {name}")]
    Apply {
        name: String,
        #[source]
        trouble: Trouble,
    },
    #[error("definition {name} is not established after {} s: {why}", .bound.as_secs_f32())]
    NotEstablished { name: String, bound: Duration, why: String },
}

/// Applies the definitions and waits, for so long, until all are established.
///
/// *Guarantees*: if one of them is of a newer program, nothing is written. A definition that was
/// found is replaced only if it has not changed since.
///
/// *Assumptions*: two versions of the program do not install into an empty cluster concurrently.
pub async fn install(client: &Client, bound: Duration) -> Result<Installed, InstallError> {
    let definitions = super::definitions();
    let mut found = Vec::with_capacity(definitions.len());
    for definition in &definitions {
        found.push(read(client, name(definition)).await?);
    }
    let versions = found.iter().flatten().map(version);
    let versions = versions.collect::<Result<Vec<u32>, InstallError>>()?;
    if let Some(newer) = versions.into_iter().max().filter(|it| *it > VERSION) {
        tracing::warn!(found = newer, ours = VERSION, "newer definitions kept");
        return Ok(Installed::Newer { found: newer });
    }
    for (definition, found) in definitions.iter().zip(&found) {
        apply(client, definition, found.as_ref()).await?;
    }
    let end = Instant::now() + bound;
    for definition in &definitions {
        let name = name(definition);
        let established = tokio::time::timeout_at(end, established(client, name)).await;
        if established.is_err() {
            let why = why_not(read(client, name).await);
            return Err(InstallError::NotEstablished { name: name.to_owned(), bound, why });
        }
    }
    Ok(Installed::Ours)
}

async fn read(
    client: &Client,
    name: &str,
) -> Result<Option<CustomResourceDefinition>, InstallError> {
    let request = Request::new(DEFINITIONS).get(name, &GetParams::default());
    match client.object(request).await {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.read() == ReadFailure::ObjectAbsent => Ok(None),
        Err(failure) => {
            let (name, trouble) = (name.to_owned(), failure.trouble());
            Err(InstallError::Read { name, trouble })
        }
    }
}

/// The version that a definition says it has; one without is older than all of ours.
fn version(definition: &CustomResourceDefinition) -> Result<u32, InstallError> {
    let annotations = definition.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|it| it.get(ANNOTATION_DEFINITIONS)) else {
        return Ok(0);
    };
    value.parse().map_err(|_| {
        let (name, value) = (name(definition).to_owned(), value.clone());
        InstallError::Version { name, value }
    })
}

async fn apply(
    client: &Client,
    definition: &CustomResourceDefinition,
    found: Option<&CustomResourceDefinition>,
) -> Result<(), InstallError> {
    let name = name(definition);
    let mut definition = definition.clone();
    let meta = found.map(|it| &it.metadata);
    definition.metadata.resource_version = meta.and_then(|it| it.resource_version.clone());
    definition.metadata.uid = meta.and_then(|it| it.uid.clone());
    let params = PatchParams::apply(DEFINITIONS_OWNER).force().validation_strict();
    let request = Request::new(DEFINITIONS).patch(name, &params, &Patch::Apply(&definition));
    let Err(failure) = client.send(request).await else { return Ok(()) };
    let trouble = match failure.write(Write::Change) {
        WriteFailure::Trouble(trouble) => trouble,
        WriteFailure::Done
        | WriteFailure::Ended
        | WriteFailure::Taken
        | WriteFailure::ProbeRefused => Trouble::unavailable("the cluster"),
    };
    Err(InstallError::Apply { name: name.to_owned(), trouble })
}

/// Waits until a definition is established. A read that fails is repeated.
async fn established(client: &Client, name: &str) {
    while !read(client, name).await.is_ok_and(|it| it.is_some_and(|it| is_established(&it))) {
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Established" && it.status == "True")
}

/// What stands in the way of a definition.
fn why_not(found: Result<Option<CustomResourceDefinition>, InstallError>) -> String {
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return "it was deleted".to_owned(),
        Err(InstallError::Read { trouble, .. }) => return trouble.to_string(),
        Err(error) => return error.to_string(),
    };
    let conditions = found.status.and_then(|it| it.conditions).unwrap_or_default();
    let failed = conditions.into_iter().find(|it| it.status == "False");
    failed.and_then(|it| it.message).unwrap_or_else(|| "its status does not say why".to_owned())
}

fn name(definition: &CustomResourceDefinition) -> &str {
    definition.metadata.name.as_deref().unwrap_or_default()
}
