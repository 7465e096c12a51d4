//! Records: what a reconciler knows of one object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion,
    JSONSchemaProps, SelectableField,
};
use usher_domain::object::name::RECORDS_GROUP;

use super::schema::{self, count, described, object, ruled, text, version};
use crate::records::{DATA_MAX, PHASE_MAX, REASON_MAX, TROUBLE_MAX};

/// The longest name of an object or a group.
const NAME_MAX: usize = 253;
/// The longest name of a kind or a namespace.
const LABEL_MAX: usize = 63;

pub(super) fn definition() -> CustomResourceDefinition {
    let schema = object([("spec", spec())]);
    let about = "What a reconciler of Usher knows of one object. It is written by Usher only, and \
                 deleting it loses what may still have to be torn down.";
    let in_spec = |path: &&str| SelectableField { json_path: format!(".spec.{path}") };
    let columns = [("Of", "of.name"), ("Phase", "phase"), ("Reason", "reason")];
    let age = column("Age", "date", ".metadata.creationTimestamp");
    let columns = columns.map(|(name, path)| column(name, "string", &format!(".spec.{path}")));
    let version = CustomResourceDefinitionVersion {
        selectable_fields: Some(["of.uid", "target", "phase"].iter().map(in_spec).collect()),
        additional_printer_columns: Some(columns.into_iter().chain([age]).collect()),
        ..version(described(schema, about))
    };
    schema::definition(RECORDS_GROUP, ("records", "Record"), true, version)
}

fn spec() -> JSONSchemaProps {
    let name = |min, about| described(text(min, NAME_MAX), about);
    let of = object([
        ("group?", name(0, "Its API group.")),
        ("resource?", name(0, "The plural under which its kind is served.")),
        ("kind", described(text(1, LABEL_MAX), "Its kind.")),
        ("namespace?", described(text(0, LABEL_MAX), "Its namespace, if it has one.")),
        ("name", name(1, "Its name.")),
        ("uid", name(1, "Its uid: another object of this name has another record.")),
    ]);
    let of = ruled(of, "self == oldSelf", "the object of a record never changes");
    let epoch = ruled(count(), "self >= oldSelf", "the epoch of a record never goes back");
    let target =
        JSONSchemaProps { pattern: Some("^([0-9a-f]{32}|many)?$".to_owned()), ..text(0, 32) };
    object([
        ("of", described(of, "The object that the record is about.")),
        ("epoch", described(epoch, "The term of the Lease in which it was last written.")),
        ("phase?", described(text(0, PHASE_MAX), "Where the object is.")),
        ("reason?", described(text(0, REASON_MAX), "Why it is there.")),
        ("trouble?", described(text(0, TROUBLE_MAX), "Why the last step failed, if it did.")),
        ("target?", described(target, "A hash of what it protects: one object, or `many`.")),
        ("data", described(text(2, DATA_MAX), "State and name ledger, as versioned JSON.")),
    ])
}

fn column(name: &str, of_type: &str, path: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: of_type.to_owned(),
        json_path: path.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}
