//! Which webhooks match a write.

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Program, to_value};
use serde_json::{Map, Value};

use super::{Reviewed, subresource};
use crate::core::{has_entries, text};
use crate::kinds::Builtin;
use crate::selector::LabelSelector;
use crate::verbs::RequestContext;

/// The result of a hook's match conditions.
pub(super) enum Verdict {
    Call,
    Skip,
    /// A condition failed to evaluate, and the failure policy is Fail.
    Refuse(String),
}

/// Whether the rules and selectors of a hook match.
pub(super) fn wanted(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>, hook: &Value) -> bool {
    let rules = hook["rules"].as_array().into_iter().flatten();
    rules.into_iter().any(|rule| rule_matches(ctx, reviewed, (hook, rule)))
        && namespace_matches(ctx, reviewed, &hook["namespaceSelector"])
        && object_matches(reviewed, &hook["objectSelector"])
}

/// Whether every condition of a hook holds.
pub(super) fn conditions(hook: &Value, request: &Value) -> Verdict {
    let conditions = hook["matchConditions"].as_array().into_iter().flatten();
    let mut failed = None;
    for condition in conditions {
        match holds(text(condition, "/expression"), request) {
            Ok(true) => {}
            Ok(false) => return Verdict::Skip,
            Err(why) => {
                let name = text(condition, "/name");
                failed.get_or_insert(format!("match condition \"{name}\" failed: {why}"));
            }
        }
    }
    match failed {
        None => Verdict::Call,
        Some(_) if text(hook, "/failurePolicy") == "Ignore" => Verdict::Skip,
        Some(why) => Verdict::Refuse(why),
    }
}

fn holds(expression: &str, request: &Value) -> Result<bool, String> {
    let program = Program::compile(expression).map_err(|error| error.to_string())?;
    let mut context = Context::default();
    context.register_all();
    for (name, value) in
        [("request", request), ("object", &request["object"]), ("oldObject", &request["oldObject"])]
    {
        let value = to_value(value).map_err(|error| error.to_string())?;
        context.add_variable_from_value(name, value);
    }
    match program.execute(&context) {
        Ok(kube_cel::cel::Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err("not a truth value".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn rule_matches(
    ctx: &RequestContext<'_>,
    reviewed: &Reviewed<'_>,
    (hook, rule): (&Value, &Value),
) -> bool {
    let listed = |field: &str, wanted: &str| {
        let list = rule[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).any(|given| given == "*" || given == wanted)
    };
    let resource = ctx.resource;
    let version = listed("apiVersions", &resource.version)
        || text(hook, "/matchPolicy") == "Equivalent"
            && ctx.core.registry.kinds().all().iter().any(|other| {
                other.table == resource.table && listed("apiVersions", &other.version)
            });
    let scope = match text(rule, "/scope") {
        "Namespaced" => resource.namespaced,
        "Cluster" => !resource.namespaced,
        _ => true,
    };
    let face = subresource(ctx.sub);
    let resources = rule["resources"].as_array().into_iter().flatten();
    let named = resources.filter_map(Value::as_str).any(|given| {
        let (plural, sub) = given.split_once('/').unwrap_or((given, ""));
        (plural == "*" || plural == resource.plural) && (sub == face || sub == "*")
    });
    listed("operations", reviewed.operation.word())
        && listed("apiGroups", &resource.group)
        && version
        && scope
        && named
}

/// Whether `matchConstraints` or `matchResources` match.
pub(super) fn constrained(
    ctx: &RequestContext<'_>,
    reviewed: &Reviewed<'_>,
    constraints: &Value,
) -> bool {
    let listed = |field: &str| {
        let mut rules = constraints[field].as_array().into_iter().flatten();
        rules.any(|rule| {
            rule_matches(ctx, reviewed, (constraints, rule)) && name_matches(ctx, reviewed, rule)
        })
    };
    namespace_matches(ctx, reviewed, &constraints["namespaceSelector"])
        && object_matches(reviewed, &constraints["objectSelector"])
        && !listed("excludeResourceRules")
        && (!has_entries(constraints, "/resourceRules") || listed("resourceRules"))
}

fn name_matches(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>, rule: &Value) -> bool {
    let name = reviewed.object.map_or(ctx.name, |object| text(object, "/metadata/name"));
    let names = rule["resourceNames"].as_array().into_iter().flatten();
    !has_entries(rule, "/resourceNames") || names.into_iter().any(|given| given == name)
}

fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/labels").and_then(Value::as_object)
}

fn namespace_matches(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>, selector: &Value) -> bool {
    let Ok(selector) = LabelSelector::from_structured(selector) else { return true };
    if selector.is_empty() {
        return true;
    }
    if ctx.resource.is_builtin(Builtin::Namespace) {
        let object = reviewed.object.or(reviewed.old);
        return object.is_some_and(|object| selector.matches(labels(object)));
    }
    if !ctx.resource.namespaced {
        return true;
    }
    let namespace = ctx.core.namespace(ctx.namespace);
    namespace.is_some_and(|entry| selector.matches(labels(&entry.head())))
}

fn object_matches(reviewed: &Reviewed<'_>, selector: &Value) -> bool {
    let Ok(selector) = LabelSelector::from_structured(selector) else { return true };
    let both = [reviewed.object, reviewed.old];
    selector.is_empty() || both.into_iter().flatten().any(|object| selector.matches(labels(object)))
}
