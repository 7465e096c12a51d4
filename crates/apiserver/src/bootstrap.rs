//! The objects of a new cluster.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::auth::User;
use crate::core::{Core, text};
use crate::kinds::Builtin;
use crate::status::Refusal;
use crate::verbs::RequestContext;
use crate::verbs::create::{self, Creation};
use crate::{managed, rbac, strategy};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the objects that every cluster has, where they are missing.
pub(crate) async fn objects(core: &Arc<Core>) -> Result<(), Refusal> {
    for name in NAMESPACES {
        let mut namespace = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name},
        });
        strategy::default_early(Builtin::Namespace, &mut namespace);
        ensure(core, ("", "v1", "namespaces"), namespace).await?;
    }
    for (plural, object) in rbac::objects() {
        ensure(core, ("rbac.authorization.k8s.io", "v1", plural), object).await?;
    }
    ensure(core, ("", "v1", "services"), service()).await
}

/// Creates an object unless it is there.
async fn ensure(
    core: &Arc<Core>,
    (group, version, plural): (&str, &str, &str),
    mut object: Value,
) -> Result<(), Refusal> {
    let Some(resource) = core.resource(group, version, plural) else { return Ok(()) };
    let named = |pointer: &str| text(&object, pointer).to_owned();
    let (namespace, name) = (named("/metadata/namespace"), named("/metadata/name"));
    let user = User::admin("system:apiserver");
    let ctx = RequestContext::new(core, &resource, (&namespace, &name), &user);
    let mut ctx = ctx.by("kube-apiserver");
    if ctx.current().is_some() {
        return Ok(());
    }
    managed::on_create(&ctx, &mut object);
    create::create(&mut ctx, object, Creation::Post).await.map(|_| ())
}

/// The service of this server, as clients inside a cluster know it.
fn service() -> Value {
    json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    })
}
