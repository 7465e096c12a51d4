//! Anchors: objects that own what is created under them, and say nothing themselves.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use usher_domain::broker::render::anchor;
use usher_domain::object::manifest::Scope;
use usher_domain::object::name::BROKER_GROUP;

use super::schema::{definition, described, object, version};

pub(super) fn definitions() -> [CustomResourceDefinition; 2] {
    let kinds = [("anchors", Scope::Namespaced), ("clusteranchors", Scope::Cluster)];
    kinds.map(|(plural, scope)| {
        let about = "One attempt of a resource to exist: everything that was created for it is \
                     owned by its anchor and is garbage collected with it.";
        let schema = described(object([]), about);
        let names = (plural, anchor::kind(scope));
        definition(BROKER_GROUP, names, scope == Scope::Namespaced, version(schema))
    })
}
