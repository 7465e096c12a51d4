//! `kubectl` against the TLS listener.
//!
//! Without `kubectl` on the PATH every test prints a notice and passes.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod apply;
mod auth;
#[path = "../rig/call.rs"]
mod call;
mod delete;
mod get;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kube_client::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use usher_apiserver::ApiServer;

pub(crate) use call::call;

/// A server and its `kubectl`.
pub(crate) struct Kubectl {
    server: ApiServer,
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) well: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Kubectl {
    /// A server with a CRD; `None` without `kubectl`.
    pub(crate) async fn start() -> Option<Self> {
        let there = Command::new("kubectl").args(["version", "--client"]).output();
        if !there.is_ok_and(|ended| ended.status.success()) {
            let notice = "skipped: there is no kubectl on the path\n";
            std::io::stderr().write_all(notice.as_bytes()).expect("a listener");
            return None;
        }
        let server = ApiServer::builder().build().await.expect("a server");
        server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a listener");
        let folder = tempfile::tempdir().expect("a folder");
        let config = server.kubeconfig().expect("a kubeconfig");
        std::fs::write(folder.path().join("config"), config).expect("a kubeconfig");
        let kubectl = Self { server, folder };
        let definition = kubectl.write("definition.yaml", DEFINITION);
        kubectl.does(&["apply", "-f", &definition]);
        let crd = "crd/things.kubectl.example";
        kubectl.does(&["wait", "--for=condition=Established", crd, "--timeout=60s"]);
        Some(kubectl)
    }

    /// Writes a file that `kubectl` can read; returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path in Unicode").to_owned()
    }

    /// A kubeconfig with another token.
    pub(crate) fn config_of(&self, token: &str) -> String {
        let config = self.server.kubeconfig().expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&config).expect("JSON");
        config["users"][0]["user"] = json!({"token": token});
        self.write("other-config", &config.to_string())
    }

    /// A command with the kubeconfig.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(self.folder.path().join("config"))
            .args(words)
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command with stdin.
    pub(crate) fn reads(&self, words: &[&str], text: &str) -> Ended {
        let mut child = self.command(words).spawn().expect("kubectl");
        child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("read");
        let ended = child.wait_with_output().expect("its end");
        let words = |bytes: Vec<u8>| String::from_utf8(bytes).expect("Unicode");
        Ended { well: ended.status.success(), out: words(ended.stdout), err: words(ended.stderr) }
    }

    /// Runs a command.
    pub(crate) fn ends(&self, words: &[&str]) -> Ended {
        self.reads(words, "")
    }

    /// The output of a command that must succeed without warnings.
    pub(crate) fn does(&self, words: &[&str]) -> String {
        let ended = self.ends(words);
        assert!(ended.well && ended.err.is_empty(), "kubectl {words:?}: {ended:?}");
        ended.out
    }

    /// An object as `kubectl get -o json` prints it.
    pub(crate) fn shows(&self, object: &str) -> Value {
        serde_json::from_str(&self.does(&["get", object, "-o", "json"])).expect("JSON")
    }

    /// An in-process client of the same server.
    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }
}

/// The manifest of a thing.
pub(crate) fn thing(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "kubectl.example/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    })
    .to_string()
}

/// The words of every line.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.kubectl.example
spec:
  group: kubectl.example
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Note, type: string, jsonPath: .spec.note, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing of some size.
        properties:
          spec:
            type: object
            description: What the thing should be.
            properties:
              size: {type: integer, minimum: 0, description: How large it is.}
              note: {type: string, description: What people should know.}
              tags:
                type: array
                x-kubernetes-list-type: set
                items: {type: string}
          status:
            type: object
            properties:
              seen: {type: integer}
";
