//! The custom resource definitions of Usher.
//!
//! ```text
//!   record, anchor ──▶ definitions ──▶ `usher crds` prints them
//!                                 └──▶ install applies them, unless newer ones are there
//! ```
//!
//! A definition is built from the types of the Kubernetes API, because generating one from a Rust
//! type would hide what counts: bounds, immutable fields, and what can be selected.

mod anchor;
mod install;
mod record;
mod schema;

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use install::{InstallError, Installed, install};

/// The version of the definitions, raised by every change of one. It is an annotation of each.
pub const VERSION: u32 = 1;

/// All definitions, sorted by name.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let [anchor, cluster_anchor] = anchor::definitions();
    vec![anchor, cluster_anchor, record::definition()]
}

/// The definitions as a stream of YAML documents, as `kubectl apply -f -` reads them.
pub fn yaml() -> Result<String, serde_saphyr::SerializeError> {
    let mut stream = String::new();
    for definition in definitions() {
        let document = serde_saphyr::to_string(&definition)?;
        let _ = write!(stream, "---\n{}\n", document.trim_end());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: KR-1
    #[test]
    fn the_printed_definitions_are_those_that_are_applied() {
        let yaml = yaml().unwrap();
        let documents = yaml.split("---\n").skip(1);
        let read: Vec<CustomResourceDefinition> =
            documents.map(|it| serde_saphyr::from_str(it).unwrap()).collect();
        assert_eq!(read, definitions());
        let names = read.iter().map(|it| it.metadata.name.as_deref().unwrap());
        assert!(names.is_sorted());
    }
}
