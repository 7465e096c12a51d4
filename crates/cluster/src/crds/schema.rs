//! The parts of a definition.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceValidation, JSONSchemaProps, ValidationRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use usher_domain::object::name::{ANNOTATION_DEFINITIONS, API_VERSION};

use super::VERSION;

/// A definition of one version; `version` has all but the name.
pub(super) fn definition(
    group: &str,
    (plural, kind): (&str, &str),
    namespaced: bool,
    version: CustomResourceDefinitionVersion,
) -> CustomResourceDefinition {
    let version = CustomResourceDefinitionVersion {
        name: API_VERSION.to_owned(),
        served: true,
        storage: true,
        ..version
    };
    let names = CustomResourceDefinitionNames {
        plural: plural.to_owned(),
        singular: Some(kind.to_lowercase()),
        kind: kind.to_owned(),
        list_kind: Some(format!("{kind}List")),
        categories: Some(vec!["usher".to_owned()]),
        ..CustomResourceDefinitionNames::default()
    };
    let annotation = (ANNOTATION_DEFINITIONS.to_owned(), VERSION.to_string());
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{plural}.{group}")),
            annotations: Some(BTreeMap::from([annotation])),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: group.to_owned(),
            names,
            scope: if namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
            versions: vec![version],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

/// A version with this schema of its objects.
pub(super) fn version(schema: JSONSchemaProps) -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
        ..CustomResourceDefinitionVersion::default()
    }
}

/// An object with these fields; those without `?` are required.
pub(super) fn object<const N: usize>(fields: [(&str, JSONSchemaProps); N]) -> JSONSchemaProps {
    let is_required = |name: &&str| !name.ends_with('?');
    let names = fields.iter().map(|(name, _)| *name).filter(is_required);
    let mut required: Vec<String> = names.map(str::to_owned).collect();
    required.sort_unstable();
    let name = |name: &str| name.trim_end_matches('?').to_owned();
    let fields: BTreeMap<_, _> = fields.map(|(it, schema)| (name(it), schema)).into();
    JSONSchemaProps {
        properties: (!fields.is_empty()).then_some(fields),
        required: (!required.is_empty()).then_some(required),
        ..of_type("object")
    }
}

/// A text of so many characters.
pub(super) fn text(min: usize, max: usize) -> JSONSchemaProps {
    let bound = |length: usize| i64::try_from(length).ok().filter(|it| *it > 0);
    JSONSchemaProps { min_length: bound(min), max_length: bound(max), ..of_type("string") }
}

/// A whole number that is not negative.
pub(super) fn count() -> JSONSchemaProps {
    let format = Some("int64".to_owned());
    JSONSchemaProps { format, minimum: Some(0.0), ..of_type("integer") }
}

/// The same with a description.
pub(super) fn described(schema: JSONSchemaProps, description: &str) -> JSONSchemaProps {
    JSONSchemaProps { description: Some(description.to_owned()), ..schema }
}

/// The same with a rule, and the message of its refusal.
pub(super) fn ruled(schema: JSONSchemaProps, rule: &str, message: &str) -> JSONSchemaProps {
    let rule = ValidationRule {
        rule: rule.to_owned(),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    JSONSchemaProps { x_kubernetes_validations: Some(vec![rule]), ..schema }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(name.to_owned()), ..JSONSchemaProps::default() }
}
