//! The objects of a new cluster.

use std::sync::Arc;

use serde_json::json;

use crate::auth::User;
use crate::core::Core;
use crate::kinds::Builtin;
use crate::status::Refusal;
use crate::verbs::{RequestContext, create};
use crate::{managed, strategy};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the namespaces of every cluster.
pub(crate) async fn namespaces(core: &Arc<Core>) -> Result<(), Refusal> {
    let Some(resource) = core.resource("", "v1", "namespaces") else { return Ok(()) };
    let user = User::admin("system:apiserver");
    for name in NAMESPACES {
        if core.namespace(name).is_some() {
            continue;
        }
        let mut ctx = RequestContext::new(core, &resource, ("", name), &user).by("kube-apiserver");
        let mut namespace = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name},
        });
        strategy::default_early(Builtin::Namespace, &mut namespace);
        managed::on_create(&ctx, &mut namespace);
        create::create(&mut ctx, namespace).await?;
    }
    Ok(())
}
