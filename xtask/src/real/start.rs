//! How the servers are started: folder, certificates, tokens, flags.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::certificates::{self, Certificates};
use super::peers::{API_SERVER, CONTROLLERS, ETCD, KUBECTL, Place};
use super::processes::{self, free_ports, until};
use crate::failure::{Failure, Outcome};

/// How long a server may take to be ready on a loaded computer.
const PATIENCE: Duration = Duration::from_mins(5);

/// Each process is a user of its own, so that the audit log tells them apart.
const USERS: [(&str, &str); 2] = [("admin", "admintoken"), ("controllers", "controllerstoken")];

/// What the controller manager runs: what the embedded server has too, and quotas.
const CONTROLLER_NAMES: &str = "garbage-collector-controller,namespace-controller,\
    clusterrole-aggregation-controller,serviceaccount-controller,resourcequota-controller";

/// Lets etcd answer before a write is on the disk.
pub(super) const NO_SYNC: &str = "--unsafe-no-fsync";

/// The lane's folder and programs.
pub(super) struct Start<'a> {
    pub(super) folder: &'a Path,
    pub(super) place: &'a Place,
}

impl Start<'_> {
    /// The kubeconfig of an administrator.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Starts everything in an empty folder and waits until it is ready.
    pub(super) fn run(&self) -> Outcome {
        let [etcd, peer, api, controllers] = free_ports()?;
        let certificates = self.prepare(api)?;
        self.write("audit-policy.yaml", &audit_policy().to_string())?;
        self.start(ETCD, &etcd_words(self.folder, etcd, peer))?;
        let mut words = api_words(self.folder, &certificates, (etcd, api));
        words.extend(audit_words(self.folder));
        let server = self.start(API_SERVER, &words)?;
        self.wait((API_SERVER, server), &["get", "--raw", "/readyz"])?;
        let words = controller_words(self.folder, &certificates, controllers);
        let manager = self.start(CONTROLLERS, &words)?;
        let account = ["get", "serviceaccount", "default", "--namespace", "default"];
        self.wait((CONTROLLERS, manager), &account)
    }

    /// The words with which etcd and the API server are started in an empty folder, which this
    /// prepares.
    pub(super) fn words(&self) -> Result<[Vec<String>; 2], Failure> {
        let [etcd, peer, api] = free_ports()?;
        let certificates = self.prepare(api)?;
        let api = api_words(self.folder, &certificates, (etcd, api));
        Ok([etcd_words(self.folder, etcd, peer), api])
    }

    /// Writes certificates, tokens and kubeconfigs into the folder.
    fn prepare(&self, api: u16) -> Result<Certificates, Failure> {
        fs::create_dir_all(self.folder).map_err(|cause| self.cannot("create", &cause))?;
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(self.folder, private)
            .map_err(|cause| self.cannot("protect", &cause))?;
        let certificates = certificates::make(self.folder)?;
        // As the embedded server's administrator they have no uid.
        let lines = USERS.map(|(user, token)| format!("{token},{user},,system:masters\n"));
        self.write("tokens.csv", &lines.concat())?;
        for (user, token) in USERS {
            let file = if user == "admin" { "kubeconfig" } else { user };
            let config = kubeconfig(api, &certificates.authority, (user, token));
            self.write(file, &config.to_string())?;
        }
        Ok(certificates)
    }

    /// Whether the API server says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.kubectl(&["get", "--raw", "/readyz"])
    }

    fn start(&self, name: &str, words: &[String]) -> Result<Child, Failure> {
        processes::start(&self.place.program(name), words, &self.log(name))
    }

    /// Waits until a command of kubectl succeeds, or the server has ended.
    fn wait(&self, (name, mut server): (&str, Child), words: &[&str]) -> Outcome {
        let mut died = false;
        let ready = until(PATIENCE, || {
            died = server.try_wait().is_ok_and(|ended| ended.is_some());
            died || self.kubectl(words)
        });
        if ready && !died {
            return Ok(());
        }
        let what = if died { "ended" } else { "is not ready" };
        Err(Failure::message(format!("{name} {what}: see {}", self.log(name).display())))
    }

    fn kubectl(&self, words: &[&str]) -> bool {
        let mut kubectl = Command::new(self.place.program(KUBECTL));
        kubectl.arg("--kubeconfig").arg(self.kubeconfig()).arg("--request-timeout=10s").args(words);
        // Its discovery cache would be that of an earlier cluster on the same port.
        kubectl.env("HOME", self.folder).env_remove("KUBECONFIG");
        kubectl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        kubectl.status().is_ok_and(|status| status.success())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        fs::write(self.folder.join(name), text).map_err(|cause| self.cannot("write", &cause))
    }

    fn cannot(&self, verb: &str, cause: &std::io::Error) -> Failure {
        Failure::message(format!("cannot {verb} {}: {cause}", self.folder.display()))
    }
}

fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    })
}

fn kubeconfig(port: u16, authority: &Path, (user, token): (&str, &str)) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": authority,
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
        "current-context": "real",
    })
}

/// A crash of the computer may lose the data: it is no more than a test's.
fn etcd_words(folder: &Path, port: u16, peer: u16) -> Vec<String> {
    vec![
        format!("--data-dir={}/etcd", folder.display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
        NO_SYNC.to_owned(),
        "--quota-backend-bytes=8589934592".to_owned(),
    ]
}

fn api_words(folder: &Path, own: &Certificates, (etcd, port): (u16, u16)) -> Vec<String> {
    let folder = folder.display();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", own.server.display()),
        format!("--tls-private-key-file={}", own.server_key.display()),
        format!("--cert-dir={folder}/apiserver"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--token-auth-file={folder}/tokens.csv"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", own.signer_public.display()),
        format!("--service-account-signing-key-file={}", own.signer.display()),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
    ]
}

fn audit_words(folder: &Path) -> [String; 3] {
    let folder = folder.display();
    [
        format!("--audit-policy-file={folder}/audit-policy.yaml"),
        format!("--audit-log-path={folder}/audit.jsonl"),
        "--audit-log-mode=batch".to_owned(),
    ]
}

/// With the rights of each controller: as an administrator the collector would never be refused.
fn controller_words(folder: &Path, own: &Certificates, port: u16) -> Vec<String> {
    let folder = folder.display();
    vec![
        format!("--kubeconfig={folder}/controllers"),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={folder}/controller-manager"),
        format!("--service-account-private-key-file={}", own.signer.display()),
        "--use-service-account-credentials".to_owned(),
        format!("--controllers={CONTROLLER_NAMES}"),
    ]
}
