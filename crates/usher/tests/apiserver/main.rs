//! `usher apiserver` as an author of controllers runs it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot begin has failed")]

#[path = "../walk/port.rs"]
mod port;
mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::port::Port;
use crate::running::{Running, USHER};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs a command that must end by itself: exit code and error stream.
fn ended(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(USHER).arg("apiserver").args(args).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.stdout.is_empty(), "{args:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn one_sentence(text: &str) -> bool {
    text.starts_with("usher: ") && text.matches('\n').count() == 1 && text.ends_with('\n')
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

// Requirement: AK-65
#[tokio::test]
async fn a_server_in_memory_is_ready_private_and_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Running::start(&["--in-memory"]);
        let kubeconfig = server.kubeconfig.clone();
        let folder = kubeconfig.parent().unwrap().to_owned();
        assert_eq!((mode(&folder), mode(&kubeconfig)), (0o700, 0o600));
        let (code, list) = server.ask("GET", MAPS, None).await;
        assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")), "{list}");
        assert_eq!(server.stop(signal), (Some(0), String::new()));
        assert!(!folder.exists(), "the temporary directory is removed");
    }
}

// Requirement: AK-65
#[tokio::test]
async fn objects_certificate_and_token_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a").join("data");
    let port = Port::reserve();
    let address = format!("127.0.0.1:{}", port.number());
    let args = ["--data-dir", data.to_str().unwrap(), "--listen", &address];
    let mut server = Running::start(&args);
    assert_eq!(server.url, format!("https://{address}"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(server.ask("POST", MAPS, Some(&map)).await.0, 201);
    let before = fs::read_to_string(&server.kubeconfig).unwrap();
    assert_eq!(server.stop(Signal::TERM), (Some(0), String::new()));
    let mut server = Running::start(&args);
    assert_eq!(fs::read_to_string(&server.kubeconfig).unwrap(), before);
    assert_eq!(server.ask("GET", &format!("{MAPS}/a"), None).await.0, 200);
    server.kill();
    let mut server = Running::start(&args);
    assert_eq!(fs::read_to_string(&server.kubeconfig).unwrap(), before);
    assert_eq!(server.ask("GET", &format!("{MAPS}/a"), None).await.0, 200);
    for file in ["kubeconfig", "credentials", "objects.redb"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
}

// Requirement: AK-66
#[tokio::test]
async fn faults_of_a_file_are_injected_as_often_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.toml");
    let rules = "[[rule]]\nverb = \"create\"\nresource = \"configmaps\"\ntimes = 2\n\
                 refuse = 429\nretry_after_seconds = 3\n";
    fs::write(&file, rules).unwrap();
    let mut server = Running::start(&["--faults", file.to_str().unwrap()]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(server.ask("POST", MAPS, Some(&map)).await.0);
    }
    assert_eq!(codes, [429, 429, 201]);
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
}

// Requirement: AK-67
#[test]
fn invalid_flags_and_faults_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.toml");
    fs::write(&file, "[[rule]]\nverb = \"put\"\nrefuse = 500\n").unwrap();
    let (code, said) = ended(&["--faults", file.to_str().unwrap()]);
    let wanted = format!(
        "usher: invalid faults in {}: rule 1: verb \"put\" does not fit, expected one of get, \
         list, watch, create, update, patch, delete, deletecollection\n",
        file.display()
    );
    assert_eq!((code, said), (Some(2), wanted));
    let (code, said) = ended(&["--faults", "/no/such/file"]);
    assert!(code == Some(2) && one_sentence(&said), "{said}");
    for args in [&["--data-dir", "x", "--in-memory"][..], &["--listen", "localhost"]] {
        let (code, said) = ended(args);
        assert_eq!(code, Some(2), "{said}");
    }
}

// Requirement: AK-67
#[test]
fn a_taken_port_and_a_used_directory_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut first = Running::start(&["--data-dir", data, "--listen", "127.0.0.1:0"]);
    let taken = first.url.replace("https://", "");
    let before = fs::read(&first.kubeconfig).unwrap();
    let (code, said) = ended(&["--listen", &taken]);
    assert!(code == Some(5) && one_sentence(&said), "{said}");
    assert!(said.contains(&format!("failed to listen on {taken}: ")), "{said}");
    let (code, said) = ended(&["--data-dir", data, "--listen", "127.0.0.1:0"]);
    assert!(code == Some(5) && one_sentence(&said), "{said}");
    assert!(said.contains("another process has it open"), "{said}");
    assert_eq!(fs::read(&first.kubeconfig).unwrap(), before, "its kubeconfig is not touched");
    assert_eq!(first.stop(Signal::TERM).0, Some(0));
}

// Requirement: AK-67
#[test]
fn unusable_data_are_refused_in_one_sentence_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["--data-dir", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let mut server = Running::start(&args);
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
    let objects = data.join("objects.redb");
    let whole = fs::read(&objects).unwrap();
    for length in [1, 64, 4096, whole.len() / 2, whole.len() - 1] {
        fs::write(&objects, &whole[..length]).unwrap();
        let (code, said) = ended(&args);
        assert!(code == Some(5) && one_sentence(&said), "{length} of {}: {said}", whole.len());
        assert_eq!(fs::read(&objects).unwrap(), &whole[..length], "{length}");
    }
    fs::write(&objects, &whole).unwrap();
    let credentials = data.join("credentials");
    fs::write(&credentials, "{\"format\": 2}").unwrap();
    let (code, said) = ended(&args);
    assert!(code == Some(3) && one_sentence(&said), "{said}");
    assert!(said.contains("its format is 2, and this server reads 1"), "{said}");
    fs::remove_file(&credentials).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, said) = ended(&["--data-dir", file.to_str().unwrap()]);
    assert!(code == Some(5) && one_sentence(&said), "{said}");
    assert_read_only(&folder.path().join("locked"));
}

/// A directory that may not be written; as root every directory may be.
fn assert_read_only(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o500)).unwrap();
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write to a read-only directory");
        return;
    }
    let (code, said) = ended(&["--data-dir", path.to_str().unwrap()]);
    assert!(code == Some(5) && one_sentence(&said), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
}

// Requirement: AK-65
#[test]
fn kubectl_works_with_the_printed_kubeconfig() {
    let found = Command::new("kubectl").args(["version", "--client"]).output();
    if !found.is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: there is no kubectl on the path");
        return;
    }
    let mut server = Running::start(&[]);
    let kubectl = |args: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&server.kubeconfig).args(args);
        let output = command.env("HOME", server.kubeconfig.parent().unwrap()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    kubectl(&["create", "configmap", "a", "--from-literal=k=v"]);
    assert_eq!(kubectl(&["get", "configmap", "a", "-o", "jsonpath={.data.k}"]), "v");
    assert_eq!(kubectl(&["auth", "can-i", "*", "*"]).trim(), "yes");
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
}
