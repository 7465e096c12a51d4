//! The commands of kubectl that are compared, in order: each finds what those before it left.

use Step::{Edit, Run, Watch};

/// What is typed, words separated by spaces and kept together by single quotes.
pub(crate) enum Step {
    /// A command with its input; `${uid}` in it is that of the map `o`.
    Run(&'static str, &'static str),
    /// A command with the editor it opens.
    Edit(&'static str, &'static str),
    /// A watch, after its first lines other commands, and then how many lines it has in all.
    Watch(&'static str, usize, &'static [&'static str], usize),
}

const fn run(words: &'static str) -> Step {
    Run(words, "")
}

const MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}"#;
const MAP_2: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"2"}}"#;
const MISSPELT: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dat":{"k":"2"}}"#;
const UNKNOWN_KIND: &str = r#"{"apiVersion":"v9","kind":"Nothing","metadata":{"name":"a"}}"#;
const ELSEWHERE: &str = r#"{"apiVersion":"v1","kind":"ConfigMap",
    "metadata":{"name":"a","namespace":"diff-nowhere"},"data":{"k":"1"}}"#;
const GADGET: &str =
    r#"{"apiVersion":"diff.example/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"a":1}}"#;
const GADGET_2: &str =
    r#"{"apiVersion":"diff.example/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"b":2}}"#;
const WIDGET: &str = r#"{"apiVersion":"diff.example/v1","kind":"Widget",
    "metadata":{"name":"w","labels":{"l":"a"}},
    "spec":{"size":2,"ports":[{"name":"web","port":80}]}}"#;
const WRONG_WIDGET: &str = r#"{"apiVersion":"diff.example/v1","kind":"Widget",
    "metadata":{"name":"v"},"spec":{"size":99,"color":"pink"}}"#;
const STRAY_WIDGET: &str = r#"{"apiVersion":"diff.example/v1","kind":"Widget",
    "metadata":{"name":"v"},"spec":{"size":1,"stray":1}}"#;
const HELD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h",
    "finalizers":["diff.example/a"]}}"#;
const LIST: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l1","labels":{"l":"a"}}},
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l2","labels":{"l":"a"}}}]}"#;
const ONE_OF_LIST: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l1","labels":{"l":"a"}}}]}"#;
const SECRET: &str = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},
    "stringData":{"user":"u"}}"#;
const LEASE: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
    "metadata":{"name":"e"},"spec":{"holderIdentity":"h","leaseDurationSeconds":15}}"#;
const ROLE: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
    "metadata":{"name":"r"},"rules":[{"verbs":["get","list"],"apiGroups":[""],
    "resources":["configmaps"]},{"verbs":["update"],"apiGroups":["diff.example"],
    "resources":["widgets/status"],"resourceNames":["w"]}]}"#;
const READY: &str = concat!(
    "patch widget w --subresource=status --type merge ",
    r#"-p {"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#
);
const OWNER: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"}}"#;
/// Owned by the map `o`.
const OWNED: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d",
    "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"${uid}",
    "blockOwnerDeletion":true}]}}"#;

/// What the embedded server answers in another way on purpose, and why. A run fails if one of them
/// no longer differs.
pub(crate) const DEVIATIONS: [(&str, &str); 2] = [
    (
        "apply -f - --prune -l l=a",
        "without a list of kinds kubectl prunes kinds that the embedded server does not serve",
    ),
    ("describe ns diff-kubectl", "the embedded server serves no quotas and no limit ranges"),
];

/// The commands.
pub(crate) const STEPS: &[Step] = &[
    // apply on the side of the client.
    Run("apply -f -", MAP),
    Run("apply -f -", MAP),
    Run("apply -f - --dry-run=server", MAP_2),
    Run("apply -f - --dry-run=client", MAP_2),
    Run("diff -f -", MAP_2),
    Run("apply -f -", MAP_2),
    Run("diff -f -", MAP_2),
    Run("apply -f -", MISSPELT),
    Run("apply -f - --validate=warn", MISSPELT),
    Run("apply -f - --validate=ignore", MISSPELT),
    Run("apply -f -", MAP_2),
    Run("apply -f -", UNKNOWN_KIND),
    Run("apply -f -", ELSEWHERE),
    Run("apply -f - -o yaml", MAP),
    Run("apply -f - -o name", MAP_2),
    run("apply view-last-applied cm a"),
    Run("apply set-last-applied -f -", MAP),
    Run("apply set-last-applied -f - --create-annotation", MAP_2),
    Edit("apply edit-last-applied cm a", r#"sed -i s/'k: "2"'/'k: "7"'/"#),
    run("get cm a -o yaml"),
    Run("apply -f -", LIST),
    Run("apply -f - --prune -l l=a --prune-allowlist=core/v1/ConfigMap", ONE_OF_LIST),
    Run("apply -f -", LIST),
    Run("apply -f -", GADGET),
    Run("apply -f -", GADGET_2),
    Run("apply -f -", WIDGET),
    Run("apply -f -", WRONG_WIDGET),
    Run("apply -f -", STRAY_WIDGET),
    run("get gadget g -o yaml"),
    // apply on the side of the server.
    Run("apply --server-side -f -", MAP),
    run("get cm a -o yaml --show-managed-fields"),
    Run("apply --server-side --field-manager other -f -", MAP_2),
    Run("apply --server-side --field-manager other --force-conflicts -f -", MAP_2),
    Run("apply --server-side --dry-run=server -f -", MAP),
    Run("apply --server-side -f -", MISSPELT),
    Run("apply --server-side -f -", WRONG_WIDGET),
    Run("apply --server-side -f -", STRAY_WIDGET),
    Run("apply --server-side -f - -o yaml --show-managed-fields", WIDGET),
    Run("diff --server-side -f - --force-conflicts", MAP),
    run("get cm a -o yaml --show-managed-fields"),
    // create and replace.
    Run("create -f -", MAP),
    Run("create -f - --dry-run=server -o yaml", SECRET),
    Run("create -f - --save-config", SECRET),
    Run("create -f -", LEASE),
    Run("create -f -", ROLE),
    Run("create -f -", WRONG_WIDGET),
    run("create configmap c --from-literal=x=1 --from-literal=y=2"),
    run("create configmap c --from-literal=x=1"),
    run("create configmap Upper"),
    run("create secret generic t --from-literal=x=1 --type=diff.example/own"),
    run("create serviceaccount sa"),
    run("create role reader --verb=get,list --resource=configmaps,widgets.diff.example"),
    run("create rolebinding reads --role=reader --serviceaccount=diff-kubectl:sa --user=eve"),
    run("create rolebinding broken --role=reader --user=eve --dry-run=server -o yaml"),
    run("create namespace diff-kubectl"),
    Run("replace -f -", GADGET),
    Run("replace -f - --force", GADGET),
    Run("replace -f -", HELD),
    // edit.
    Edit("edit cm a", r#"sed -i s/'k: "2"'/'k: "3"'/"#),
    Edit("edit cm a", "true"),
    Edit("edit cm a", "sed -i s/^data:/dat:/"),
    Edit("edit cm a -o json", r#"sed -i s/'"k": "3"'/'"k": "4"'/"#),
    Edit("edit widget w", "sed -i 's/  size: 2/  size: 3/'"),
    Edit("edit widget w", "sed -i 's/  size: 3$/  size: 33/'"),
    Edit("edit widget w --subresource=status", "sed -i '$ a status: {seen: 4}'"),
    Edit("edit cm none", "true"),
    run("get cm a -o jsonpath={.data}"),
    run("get widget w -o jsonpath={.spec}{.status}{.metadata.generation}"),
    // patch.
    run(r#"patch cm a -p {"data":{"p":"1"}}"#),
    run(r#"patch cm a -p {"data":{"p":"1"}}"#),
    run(r#"patch cm a --type merge -p {"data":{"p":"2"}}"#),
    run(r#"patch cm a --type json -p [{"op":"remove","path":"/data/p"}]"#),
    run(r#"patch cm a --type json -p [{"op":"test","path":"/data/k","value":"0"}]"#),
    run(r#"patch cm a --type merge -p {"data":{"p":2}}"#),
    run(r#"patch cm a --type merge -p {"data":{"p":"3"}} --dry-run=server -o yaml"#),
    run(r#"patch gadget g -p {"spec":{"a":2}}"#),
    run(r#"patch gadget g --type merge -p {"spec":{"a":2}}"#),
    run(r#"patch widget w --subresource=status --type merge -p {"status":{"seen":3}}"#),
    run(r#"patch widget w --subresource=scale --type merge -p {"spec":{"replicas":5}}"#),
    run(r#"patch widget w --type merge -p {"spec":{"color":"pink"}}"#),
    run("patch cm none --type merge -p {}"),
    run("patch cm a -p nonsense"),
    // label, annotate, scale.
    run("label cm a x=y"),
    run("label cm a x=z"),
    run("label cm a x=z --overwrite"),
    run("label cm a x-"),
    run("label cm a none-"),
    run("label cm a bad=-"),
    run("label cm a --list"),
    run("label cm -l l=a m=b"),
    run("label cm none x=y"),
    run("annotate cm a x=y"),
    run("annotate cm a x=z --resource-version=1"),
    run("annotate cm a --list"),
    run("annotate cm a x-"),
    run("scale widget w --replicas=4"),
    run("scale widget w --replicas=4 --current-replicas=9"),
    run("scale widget w --replicas=11"),
    run("scale gadget g --replicas=1"),
    run("get widget w --subresource=scale -o yaml"),
    run("get widget w --subresource=status"),
    // get.
    run("get cm"),
    run("get cm -o wide"),
    run("get cm -o name"),
    run("get cm -l l=a"),
    run("get cm -l 'l notin (a)' -o name"),
    run("get cm -l 'l in'"),
    run("get cm --field-selector metadata.name=a"),
    run("get cm --field-selector data.k=a"),
    run("get widgets --field-selector spec.color=red"),
    run("get cm --show-labels"),
    run("get cm -L l,m"),
    run("get cm --sort-by=.metadata.name -o name"),
    run("get cm --chunk-size=1"),
    run("get cm,gadgets"),
    run("get cm/a gadget/g widget/none"),
    run("get cm a -o json"),
    run("get cm a -o go-template={{.data.k}}"),
    run("get widgets"),
    run("get widgets -o wide"),
    run("get widgets -o custom-columns=N:.metadata.name,S:.spec.size"),
    run("get widgets -o yaml"),
    run("get wid"),
    run("get secrets"),
    run("get sa"),
    run("get leases"),
    run("get roles,rolebindings"),
    run("get rolebindings -o wide"),
    run("get events"),
    run("events"),
    run("get ns diff-kubectl"),
    run("get ns diff-kubectl -o yaml"),
    run("get crd widgets.diff.example"),
    run("get nothing"),
    run("get cm none"),
    run("get cm none --ignore-not-found"),
    run("get leases -A -l none=none"),
    run("get gadgets -o wide"),
    run("get --raw /readyz"),
    run("get --raw /livez"),
    run("get --raw /healthz"),
    run("get --raw /nothing"),
    run("get --raw /apis/diff.example"),
    run("get --raw /apis/diff.example/v1"),
    run("get --raw /api/v1/namespaces/diff-kubectl/configmaps/none"),
    run("api-resources --api-group=diff.example"),
    run("api-resources --api-group=diff.example -o wide"),
    // get -w: the list before it says from when on it watches.
    run("create cm w1"),
    run("label cm w1 w=1"),
    Watch("get cm -l w=1 --watch", 2, &["label cm w1 v=1", "label cm w1 w-"], 4),
    Watch(
        "get cm w1 --watch --output-watch-events",
        2,
        &["label cm w1 u=1", "delete cm w1", "create cm w1"],
        5,
    ),
    Watch(
        r#"get widget w --watch -o jsonpath={.spec.size}{"\n"}"#,
        1,
        &[r#"patch widget w --type merge -p {"spec":{"size":6}}"#],
        2,
    ),
    // describe.
    run("describe cm a"),
    run("describe secret s"),
    run("describe sa sa"),
    run("describe lease e"),
    run("describe role r"),
    run("describe rolebinding reads"),
    run("describe widget w"),
    run("describe ns diff-kubectl"),
    run("describe cm none"),
    // explain.
    run("explain configmap"),
    run("explain configmap.data"),
    run("explain configmap.nothing"),
    run("explain secret --recursive"),
    run("explain lease.spec"),
    run("explain gadget"),
    run("explain widget.spec"),
    run("explain widget.spec.ports"),
    run("explain widget.spec --recursive"),
    run("explain widget.status.conditions.status"),
    run("explain nothing"),
    // auth.
    run("auth can-i create configmaps"),
    run("auth can-i '*' '*'"),
    run("auth can-i create nothing"),
    run("auth can-i get configmaps --as eve"),
    run("auth can-i create configmaps --as eve"),
    run("auth can-i get configmaps/a --as eve"),
    run("auth can-i update widgets --subresource=status --as cid"),
    run("auth can-i get /healthz --as eve"),
    run("auth can-i get /metrics --as eve"),
    run("auth can-i create configmaps --as dan --as-group diff-team -n diff-0"),
    run("auth can-i list configmaps --as system:serviceaccount:diff-kubectl:sa"),
    run("auth can-i --list --as eve"),
    run("auth can-i --list --as bob"),
    run("auth can-i create configmaps --as eve --quiet"),
    run("auth whoami"),
    run("auth whoami -o yaml"),
    run("auth whoami --as eve --as-group team --as-uid 7 -o yaml"),
    Run("auth reconcile -f -", ROLE),
    run("get cm --as eve -o name"),
    run("get secrets --as eve"),
    run("create cm forbidden --as eve"),
    run("delete cm a --as eve"),
    // create token and cluster-info.
    run("create token sa"),
    run("create token sa --duration=1h --audience=other"),
    run("create token sa --duration=1s"),
    run("create token sa --bound-object-kind=Secret --bound-object-name=none"),
    run("create token none"),
    run("cluster-info"),
    // delete.
    run("delete cm l1 --cascade=foreground"),
    run("delete cm l2 --cascade=orphan"),
    run("delete cm l2"),
    run("delete cm l2 --ignore-not-found"),
    run("delete cm c --cascade=sideways"),
    run("delete cm c --dry-run=server"),
    run("delete cm c --dry-run=client"),
    run("delete cm c --now"),
    run("delete secret t --force --grace-period=0"),
    run("delete secrets -l none=none"),
    run("delete gadget g --cascade=background"),
    Run("delete -f -", GADGET),
    Run("create -f -", OWNER),
    Run("create -f -", OWNED),
    run("delete cm o --cascade=orphan"),
    run("get cm d -o yaml"),
    Run("create -f -", OWNER),
    Run("replace -f -", OWNED),
    run("delete cm o --cascade=foreground"),
    run("get cm d"),
    Run("create -f -", OWNER),
    Run("create -f -", OWNED),
    run("delete cm o"),
    run("wait --for=delete cm/d --timeout=60s"),
    Run("apply -f -", HELD),
    run("delete cm h --wait=false"),
    run("get cm h"),
    // wait.
    run("wait --for=delete cm/h --timeout=1s"),
    run(r#"patch cm h --type merge -p {"metadata":{"finalizers":null}}"#),
    run("wait --for=delete cm/h --timeout=60s"),
    run("wait --for=create cm/a --timeout=60s"),
    run("wait --for=create cm/none --timeout=1s"),
    run("wait --for=jsonpath={.data.k}=4 cm/a --timeout=60s"),
    run("wait --for=jsonpath={.data.k}=5 cm/a --timeout=1s"),
    run("wait --for=condition=Ready widget/w --timeout=1s"),
    run(READY),
    run("wait --for=condition=Ready widget/w --timeout=60s"),
    run("wait --for=condition=Ready=False widget/w --timeout=1s"),
    run("wait --for=condition=Ready widget --all --timeout=60s"),
    run("wait --for=condition=Ready widget/none --timeout=1s"),
    run("delete widgets --all"),
    run("delete cm --all"),
    run("get cm,widgets"),
    // The last, because it leaves other objects.
    Run("apply -f - --prune -l l=a", ONE_OF_LIST),
];
