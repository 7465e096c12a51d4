//! The same commands of kubectl against both servers: same exit codes, same output.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::Regex;
use tempfile::TempDir;

use crate::say;

/// Names the kubectl of the real server's version; beside it the one on the path is compared.
const OWN: &str = "USHER_REAL_KUBECTL";
const EDITOR: &str = "sed -i 's/  k: \"2\"/  k: \"3\"/'";
const NAMESPACE: &str = "diff-kubectl";

/// The rules: what each server chooses itself.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let time = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z";
    [
        (uid, "<uid>"),
        (time, "<time>"),
        (r#"("?resourceVersion"?: ")[0-9]+"#, "$1<rv>"),
        (r"https://127\.0\.0\.1:[0-9]+", "<server>"),
        (r"(?m) +([0-9]+[smhd])+$", " <age>"),
        (r"eyJ[-_.A-Za-z0-9]+", "<token>"),
        ("\u{1b}\\[[0-9;]*m", ""),
        // What the client itself logs of its watches.
        (r"(?m)^[WIE][0-9]{4} .*\n", ""),
    ]
    .map(|(rule, by)| (Regex::new(rule).expect("a pattern"), by))
    .into()
});

/// A command with its input.
type Step = (&'static [&'static str], &'static str);

const MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}"#;
const MAP_2: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"2"}}"#;
const BAD: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dat":{"k":"2"}}"#;
const GADGET: &str =
    r#"{"apiVersion":"diff.example/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"a":1}}"#;
const HELD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"h",
    "finalizers":["diff.example/a"]}}"#;
const LIST: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l1","labels":{"l":"a"}}},
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l2","labels":{"l":"a"}}}]}"#;

/// The commands, in order.
const STEPS: [Step; 44] = [
    (&["apply", "-f", "-"], MAP),
    (&["apply", "-f", "-"], MAP),
    (&["apply", "-f", "-"], MAP_2),
    (&["apply", "-f", "-"], BAD),
    (&["get", "cm", "a", "-o", "yaml"], ""),
    (&["apply", "--server-side", "-f", "-"], MAP),
    (&["get", "cm", "a", "-o", "yaml", "--show-managed-fields"], ""),
    (&["apply", "--server-side", "--field-manager", "other", "-f", "-"], MAP_2),
    (
        &["apply", "--server-side", "--field-manager", "other", "--force-conflicts", "-f", "-"],
        MAP_2,
    ),
    (&["diff", "-f", "-"], MAP_2),
    (&["apply", "-f", "-"], LIST),
    (&["apply", "-f", "-"], GADGET),
    (&["edit", "cm", "a"], ""),
    (&["get", "cm", "a", "-o", "jsonpath={.data}"], ""),
    (&["patch", "cm", "a", "-p", r#"{"data":{"p":"1"}}"#], ""),
    (&["patch", "cm", "a", "--type", "merge", "-p", r#"{"data":{"p":"2"}}"#], ""),
    (&["patch", "cm", "a", "--type", "json", "-p", r#"[{"op":"remove","path":"/data/p"}]"#], ""),
    (&["patch", "gadget", "g", "-p", r#"{"spec":{"a":2}}"#], ""),
    (&["patch", "gadget", "g", "--type", "merge", "-p", r#"{"spec":{"a":2}}"#], ""),
    (&["label", "cm", "a", "x=y"], ""),
    (&["annotate", "cm", "a", "x=y"], ""),
    (&["get", "cm", "-l", "l=a"], ""),
    (&["get", "cm", "-l", "l=a", "-o", "name"], ""),
    (&["get", "cm,gadgets"], ""),
    (&["get", "nothing"], ""),
    (&["get", "cm", "none"], ""),
    (&["get", "gadgets", "-o", "wide"], ""),
    (&["explain", "configmap.data"], ""),
    (&["explain", "gadget"], ""),
    (&["auth", "can-i", "create", "configmaps"], ""),
    (&["auth", "can-i", "create", "configmaps", "--as", "stranger"], ""),
    (&["get", "cm", "--as", "stranger"], ""),
    (&["create", "serviceaccount", "s"], ""),
    (&["create", "token", "s"], ""),
    (&["create", "token", "none"], ""),
    (&["cluster-info"], ""),
    (&["delete", "cm", "l1", "--cascade=foreground"], ""),
    (&["delete", "cm", "l2", "--cascade=orphan"], ""),
    (&["delete", "gadget", "g", "--cascade=background"], ""),
    (&["apply", "-f", "-"], HELD),
    (&["delete", "cm", "h", "--wait=false"], ""),
    (&["wait", "--for=delete", "cm/h", "--timeout=1s"], ""),
    (&["patch", "cm", "h", "--type", "merge", "-p", r#"{"metadata":{"finalizers":null}}"#], ""),
    (&["wait", "--for=delete", "cm/h", "--timeout=60s"], ""),
];

/// The program and the kubeconfig of one server.
struct Kubectl<'a> {
    program: &'a Path,
    kubeconfig: &'a str,
    home: TempDir,
}

/// Compares every command; returns how many differ.
pub(crate) fn compare(real: &str, embedded: &str) -> usize {
    let own = std::env::var_os(OWN).map(PathBuf::from);
    let programs = [Some(PathBuf::from("kubectl")), own].into_iter().flatten();
    let mut differing = 0;
    for program in programs {
        let there = Command::new(&program).args(["version", "--client"]).output();
        let Some(there) = there.ok().filter(|there| there.status.success()) else {
            say(&format!("skipped: there is no {}", program.display()));
            continue;
        };
        let version = String::from_utf8_lossy(&there.stdout).into_owned();
        let version = version.lines().next().unwrap_or_default().to_owned();
        let on = |kubeconfig| Kubectl {
            program: &program,
            kubeconfig,
            home: tempfile::tempdir().expect("a folder"),
        };
        let found = steps(&on(real), &on(embedded));
        say(&format!("{} commands, {found} differ: {version}", STEPS.len()));
        differing += found;
    }
    differing
}

fn steps(real: &Kubectl<'_>, embedded: &Kubectl<'_>) -> usize {
    for kubectl in [real, embedded] {
        kubectl.run(&["delete", "namespace", NAMESPACE, "--ignore-not-found"], "");
        kubectl.run(&["create", "namespace", NAMESPACE], "");
    }
    let mut differing = 0;
    for (words, input) in STEPS {
        let (expected, actual) = (real.run(words, input), embedded.run(words, input));
        if expected != actual {
            differing += 1;
            say(&format!(
                "--- kubectl {}\nreal:\n{expected}\nembedded:\n{actual}",
                words.join(" ")
            ));
        }
    }
    for kubectl in [real, embedded] {
        kubectl.run(&["delete", "namespace", NAMESPACE], "");
    }
    differing
}

impl Kubectl<'_> {
    /// The exit code and the output of a command, after the rules.
    fn run(&self, words: &[&str], input: &str) -> String {
        let mut command = Command::new(self.program);
        command.args(["--kubeconfig", self.kubeconfig, "--namespace", NAMESPACE]).args(words);
        command.env("HOME", self.home.path()).env("KUBE_EDITOR", EDITOR);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl");
        // A command that fails before it reads has closed its input.
        let _closed = child.stdin.take().expect("its input").write_all(input.as_bytes());
        let ended = child.wait_with_output().expect("its end");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut shown = format!(
            "exit {:?}\n{}{}",
            ended.status.code(),
            text(&ended.stdout),
            text(&ended.stderr)
        );
        for (rule, by) in RULES.iter() {
            shown = rule.replace_all(&shown, *by).into_owned();
        }
        if words.first() == Some(&"explain") {
            return fields(&shown);
        }
        shown
    }
}

/// The names and types of an explanation: the embedded server says in its own words what they are.
fn fields(text: &str) -> String {
    let heads = ["exit", "GROUP", "KIND", "VERSION", "FIELD", "error"];
    let kept = text
        .lines()
        .filter(|line| heads.iter().any(|head| line.starts_with(head)) || line.contains("\t<"));
    kept.collect::<Vec<_>>().join("\n")
}
