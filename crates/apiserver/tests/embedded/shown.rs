//! What `kubectl` shows of answers: columns and the names of types, as with a real server.

use serde_json::{Value, json};

use crate::differences::{ask, post, server};

const JSON: &str = "application/json";

// Requirement: AK-82
#[tokio::test]
async fn a_table_of_bindings_has_wide_columns_of_their_subjects() {
    let server = server().await;
    let group = "rbac.authorization.k8s.io";
    let path = format!("/apis/{group}/v1/namespaces/default/rolebindings");
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [
            {"apiGroup": group, "kind": "User", "name": "u"},
            {"apiGroup": group, "kind": "User", "name": "v"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
        ],
    });
    assert_eq!(post(&server, &path, &binding).await.0, 201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table, _) = ask(&server, ("GET", &path), (JSON, accept), &Value::Null).await;
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let of = |key: &str| columns.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"]);
    assert_eq!(of("priority"), [0, 0, 0, 1, 1, 1]);
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(cells[3..], [json!("u, v"), json!(""), json!("n/s")]);
}

// Requirement: AK-92
#[tokio::test]
async fn the_parts_of_built_in_kinds_have_the_names_of_their_types() {
    let server = server().await;
    let path = "/openapi/v3/apis/coordination.k8s.io/v1";
    let (_, document, _) = ask(&server, ("GET", path), (JSON, JSON), &Value::Null).await;
    let schemas = &document["components"]["schemas"];
    let reference = |schema: &Value| schema["allOf"][0]["$ref"].clone();
    let place = |name: &str| format!("#/components/schemas/{name}");
    let spec = &schemas["io.k8s.coordination.v1.Lease"]["properties"]["spec"];
    assert_eq!(reference(spec), place("io.k8s.coordination.v1.LeaseSpec"));
    let spec = &schemas["io.k8s.coordination.v1.LeaseSpec"]["properties"];
    assert_eq!(spec["leaseDurationSeconds"]["type"], "integer");
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
    let fields = &schemas[format!("{meta}.ObjectMeta")]["properties"];
    for (field, name) in
        [("ownerReferences", "OwnerReference"), ("managedFields", "ManagedFieldsEntry")]
    {
        assert_eq!(reference(&fields[field]["items"]), place(&format!("{meta}.{name}")));
        assert_eq!(schemas[format!("{meta}.{name}")]["type"], "object");
    }
}
