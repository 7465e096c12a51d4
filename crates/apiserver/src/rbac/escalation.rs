//! No role is granted beyond the rights of its grantor: neither by a role nor by a binding.
//!
//! The verbs `escalate` on roles and `bind` on the role of a binding lift this.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::rule::{self, is_path};
use super::{CLUSTER_ROLES, ROLES, is_master, rules};
use crate::auth::{self, Action, User};
use crate::core::{has_entries, text};
use crate::kinds::Builtin;
use crate::meta::field::quoted;
use crate::status::Refusal;
use crate::verbs::RequestContext;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The rights of one grant that are compared: a rule multiplies its verbs, groups, resources and
/// names.
const RIGHTS_MAX: usize = 100_000;
/// Metadata that the garbage collector may change.
const COLLECTED: [&str; 4] = ["finalizers", "managedFields", "ownerReferences", "resourceVersion"];

/// Refuses a role or binding that grants what the user may not do.
pub(crate) fn check(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Refusal> {
    if is_master(ctx.user) || old.is_some_and(|old| is_collected(object, old)) {
        return Ok(());
    }
    if ctx.resource.is_builtin(Builtin::Role) || ctx.resource.is_builtin(Builtin::ClusterRole) {
        return check_role(ctx, object, old);
    }
    if ctx.resource.is_builtin(Builtin::RoleBinding)
        || ctx.resource.is_builtin(Builtin::ClusterRoleBinding)
    {
        return check_binding(ctx, object);
    }
    Ok(())
}

/// Whether nothing but the fields of the garbage collector has changed.
fn is_collected(object: &Value, old: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !COLLECTED.contains(&key.as_str()));
        }
        value
    };
    rest(object) == rest(old)
}

fn check_role(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Refusal> {
    if is_allowed(ctx, "escalate", (&ctx.resource.plural, ctx.name)) {
        return Ok(());
    }
    let granted = object["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    covers(ctx, granted).map_err(|why| forbidden(ctx, object, &why))?;
    let aggregates = |role: &Value| has_entries(role, "/aggregationRule/clusterRoleSelectors");
    if !aggregates(object) && !old.is_some_and(aggregates) {
        return Ok(());
    }
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    let why = "must have cluster-admin privileges to use the aggregationRule";
    covers(ctx, &everything).map_err(|_| forbidden(ctx, object, why))
}

fn check_binding(ctx: &RequestContext<'_>, object: &Value) -> Result<(), Refusal> {
    let name = text(object, "/roleRef/name");
    let (plural, table, key) = match text(object, "/roleRef/kind") {
        "Role" => ("roles", ROLES, format!("{}/{name}", ctx.namespace)),
        "ClusterRole" => ("clusterroles", CLUSTER_ROLES, name.to_owned()),
        // Validation refuses it.
        _ => return Ok(()),
    };
    if is_allowed(ctx, "bind", (plural, name)) {
        return Ok(());
    }
    let Some(role) = ctx.core.store.get(table, &key) else {
        let resource = ctx.core.resource(GROUP, "v1", plural);
        return Err(resource.map_or_else(Refusal::no_such_resource, |resource| {
            Refusal::not_found(&resource, name)
        }));
    };
    let role = role.value();
    let granted = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    covers(ctx, granted).map_err(|why| forbidden(ctx, object, &why))
}

fn is_allowed(ctx: &RequestContext<'_>, verb: &str, (plural, name): (&str, &str)) -> bool {
    let namespace = ctx.namespace;
    let action = Action::Resource { verb, group: GROUP, plural, sub: "", namespace, name };
    auth::decide(ctx.core, ctx.user, &action).allowed
}

fn forbidden(ctx: &RequestContext<'_>, object: &Value, why: &str) -> Refusal {
    Refusal::forbidden(ctx.resource, text(object, "/metadata/name"), why)
}

/// Whether the rules of the user cover these; what is missing otherwise.
fn covers(ctx: &RequestContext<'_>, granted: &[Value]) -> Result<(), String> {
    if granted.iter().map(count).fold(0, usize::saturating_add) > RIGHTS_MAX {
        return Err(format!("its rules grant more than {RIGHTS_MAX} rights: name fewer, or use *"));
    }
    let own = rules(ctx.core, ctx.user, ctx.namespace);
    let missing = missing(&own, granted);
    if missing.is_empty() { Ok(()) } else { Err(sentence(ctx.user, &missing)) }
}

fn sentence(user: &User, missing: &[Right]) -> String {
    let groups: Vec<String> = user.groups.iter().map(|group| quoted(group)).collect();
    format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(&user.name),
        groups.join(" "),
        described(missing).join("\n")
    )
}

/// One verb on one resource, or on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Right {
    verb: String,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Resource {
        group: String,
        resource: String,
        /// Without one all objects. The empty name is one: a collection has it.
        name: Option<String>,
    },
    Path(String),
}

/// How many rights a rule has.
fn count(rule: &Value) -> usize {
    let [verbs, groups, resources, names, paths] =
        ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"]
            .map(|field| list(rule, field).len());
    let objects = groups.saturating_mul(resources).saturating_mul(names.max(1));
    verbs.saturating_mul(objects.saturating_add(paths))
}

/// The rights of some rules that other rules do not have.
fn missing(own: &[Value], granted: &[Value]) -> Vec<Right> {
    let rights = granted.iter().flat_map(rights);
    rights.filter(|right| !own.iter().any(|rule| has(rule, right))).collect()
}

fn rights(rule: &Value) -> Vec<Right> {
    let mut found = Vec::new();
    let names: Vec<Option<&str>> = match list(rule, "resourceNames") {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    for verb in list(rule, "verbs") {
        let mut add = |place| found.push(Right { verb: verb.to_owned(), place });
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                for name in &names {
                    let [group, resource] = [group, resource].map(str::to_owned);
                    let name = name.map(str::to_owned);
                    add(Place::Resource { group, resource, name });
                }
            }
        }
        for path in list(rule, "nonResourceURLs") {
            add(Place::Path(path.to_owned()));
        }
    }
    found
}

/// Whether a rule has a right; in rights `*` is all and is covered by `*` only.
fn has(rule: &Value, right: &Right) -> bool {
    let any = |field, wanted: &str| list(rule, field).iter().any(|it| *it == "*" || *it == wanted);
    if !any("verbs", &right.verb) {
        return false;
    }
    match &right.place {
        Place::Resource { group, resource, name } => {
            let names = list(rule, "resourceNames");
            let face = resource.split_once('/').map(|(_, face)| format!("*/{face}"));
            any("apiGroups", group)
                && (any("resources", resource)
                    || face.is_some_and(|face| list(rule, "resources").contains(&face.as_str())))
                && (names.is_empty()
                    || name.as_ref().is_some_and(|it| names.contains(&it.as_str())))
        }
        Place::Path(path) => {
            list(rule, "nonResourceURLs").into_iter().any(|given| is_path(given, path))
        }
    }
}

fn list<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule::list(rule, field).collect()
}

/// The rights as Kubernetes prints rules: the verbs of one resource together, paths apart.
fn described(missing: &[Right]) -> Vec<String> {
    let mut by_place: BTreeMap<&Place, Vec<&str>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for Right { verb, place } in missing {
        match place {
            Place::Resource { .. } => {
                let verbs = by_place.entry(place).or_default();
                if !verbs.contains(&verb.as_str()) {
                    verbs.push(verb);
                }
            }
            Place::Path(path) => {
                lines.insert(format!(
                    "{{NonResourceURLs:[{}], Verbs:[{}]}}",
                    quoted(path),
                    quoted(verb)
                ));
            }
        }
    }
    for (place, verbs) in by_place {
        let Place::Resource { group, resource, name } = place else { continue };
        let named = name.as_ref();
        let named = named.map(|name| format!(", ResourceNames:[{}]", quoted(name)));
        let named = named.unwrap_or_default();
        let verbs: Vec<String> = verbs.into_iter().map(quoted).collect();
        let (group, resource) = (quoted(group), quoted(resource));
        let verbs = verbs.join(" ");
        lines.insert(format!(
            "{{APIGroups:[{group}], Resources:[{resource}]{named}, Verbs:[{verbs}]}}"
        ));
    }
    lines.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn covered(own: &Value, granted: &Value) -> bool {
        let missing = missing(from_ref(own), from_ref(granted));
        missing.is_empty()
    }

    // Requirement: AK-69
    #[test]
    fn a_rule_covers_its_parts_and_stars_cover_all() {
        let rule = |verbs: Value, groups: Value, resources: Value, names: Value| {
            json!({
                "verbs": verbs, "apiGroups": groups, "resources": resources,
                "resourceNames": names,
            })
        };
        let none = || json!([]);
        let own = rule(json!(["get", "list"]), json!(["", "a.b"]), json!(["maps"]), none());
        let part = rule(json!(["list"]), json!(["a.b"]), json!(["maps"]), none());
        assert!(covered(&own, &part) && !covered(&part, &own));
        let named = rule(json!(["get"]), json!([""]), json!(["maps"]), json!(["x"]));
        assert!(covered(&own, &named), "all names are more than one");
        assert!(!covered(&named, &rule(json!(["get"]), json!([""]), json!(["maps"]), none())));
        let collection = rule(json!(["get"]), json!([""]), json!(["maps"]), json!([""]));
        let every = rule(json!(["get"]), json!([""]), json!(["maps"]), none());
        assert!(covered(&every, &collection) && !covered(&collection, &every), "one empty name");
        let all = rule(json!(["*"]), json!(["*"]), json!(["*"]), none());
        assert!(covered(&all, &own) && covered(&all, &all) && !covered(&own, &all));
        let star_verb = rule(json!(["*"]), json!([""]), json!(["maps"]), none());
        assert!(!covered(&own, &star_verb), "verbs that are not listed are not held");
        let status = rule(json!(["get"]), json!([""]), json!(["maps/status"]), none());
        let every_status = rule(json!(["get"]), json!([""]), json!(["*/status"]), none());
        assert!(covered(&every_status, &status) && !covered(&own, &status));
        let paths = |verbs: Value, paths: Value| json!({"verbs": verbs, "nonResourceURLs": paths});
        let start = paths(json!(["get"]), json!(["/a/*"]));
        assert!(covered(&start, &paths(json!(["get"]), json!(["/a/b", "/a/*"]))));
        assert!(!covered(&start, &paths(json!(["get"]), json!(["/a"]))));
        assert!(!covered(&all, &start), "resources are no paths");
    }
    // Requirement: AK-69
    #[test]
    fn rights_are_counted_before_they_are_compared() {
        let many: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let rule = json!({
            "verbs": many, "apiGroups": many, "resources": many, "resourceNames": many,
        });
        assert_eq!(count(&rule), 1_000_000_000_000);
        let small = json!({"verbs": ["a", "b"], "apiGroups": [""], "resources": ["c"]});
        assert_eq!((count(&small), rights(&small).len()), (2, 2));
        let paths = json!({"verbs": ["a", "b"], "nonResourceURLs": ["/c", "/d"]});
        assert_eq!((count(&paths), rights(&paths).len()), (4, 4));
    }
}
