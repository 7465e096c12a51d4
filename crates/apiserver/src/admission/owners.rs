//! Who may make an object depend on another, as the plugin `OwnerReferencesPermissionEnforcement`
//! says: a user who changes the owners of an object must be allowed to delete it, and one who lets
//! it block the deletion of an owner must be allowed to update the owner's finalizers.

use serde_json::Value;

use super::{Operation, Reviewed};
use crate::auth::{Action, decide};
use crate::core::text;
use crate::faults::COLLECTOR;
use crate::kinds::group_version;
use crate::status::Refusal;
use crate::verbs::RequestContext;

/// Refuses owners that the user may not set.
pub(super) fn check(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>) -> Result<(), Refusal> {
    let Some(object) = reviewed.object else { return Ok(()) };
    let (new, old) = (owners(object), reviewed.old.map(owners).unwrap_or_default());
    if new == old || ctx.user.name == COLLECTOR {
        return Ok(());
    }
    let name = text(object, "/metadata/name");
    let forbidden = |why: String| Err(Refusal::forbidden(ctx.resource, name, &why));
    if reviewed.operation == Operation::Update {
        let own = Action::Resource {
            verb: "delete",
            group: &ctx.resource.group,
            plural: &ctx.resource.plural,
            sub: super::subresource(ctx.sub),
            namespace: ctx.namespace,
            name,
        };
        let decision = decide(ctx.core, ctx.user, &own);
        if !decision.allowed {
            let reason = decision.reason;
            return forbidden(format!(
                "cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"
            ));
        }
    }
    let blocking: Vec<&Value> = new.iter().filter(|owner| is_newly_blocking(owner, old)).collect();
    if blocking.is_empty() || may_update_finalizers(ctx, ("*", "*", "*")).is_ok() {
        return Ok(());
    }
    for owner in blocking {
        let (version, kind) = (text(owner, "/apiVersion"), text(owner, "/kind"));
        let (group, short) = group_version(version);
        let kinds = ctx.core.registry.kinds();
        let Some(resource) = kinds.of_kind(group, short, kind) else {
            return forbidden(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                 APIVersion {version} Kind {kind}: no matches for kind \"{kind}\" in version \
                 \"{version}\""
            ));
        };
        let owned = (group, resource.plural.as_str(), text(owner, "/name"));
        if let Err(reason) = may_update_finalizers(ctx, owned) {
            return forbidden(format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                 can't set finalizers on: {reason}, <nil>"
            ));
        }
    }
    Ok(())
}

fn owners(object: &Value) -> &[Value] {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.map(Vec::as_slice).unwrap_or_default()
}

fn is_newly_blocking(owner: &Value, old: &[Value]) -> bool {
    let blocks = |owner: &Value| owner["blockOwnerDeletion"].as_bool() == Some(true);
    let before = old.iter().find(|before| before["uid"] == owner["uid"]);
    blocks(owner) && !before.is_some_and(blocks)
}

/// The error is the reason of the refusal.
fn may_update_finalizers(
    ctx: &RequestContext<'_>,
    (group, plural, name): (&str, &str, &str),
) -> Result<(), String> {
    let action = Action::Resource {
        verb: "update",
        group,
        plural,
        sub: "finalizers",
        namespace: ctx.namespace,
        name,
    };
    let decision = decide(ctx.core, ctx.user, &action);
    if decision.allowed { Ok(()) } else { Err(decision.reason) }
}
