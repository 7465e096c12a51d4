//! Errors at the start are one sentence, with the right exit code.

use std::fs;
use std::process::Command;

use crate::test_server::TestServer;

/// The exit code and the error output.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Red by: a server that starts partially, or a stack trace in place of a sentence.
// Requirement: E-17, D-7
#[tokio::test]
async fn a_failed_start_prints_one_sentence_and_has_its_exit_code() {
    let server = TestServer::new(&[]);
    let (code, said) = run(server.command("up").args(["--set", "tokens.lifetime=1m"]));
    assert_eq!(code, Some(2));
    assert_eq!(said, "usher: invalid setting tokens.lifetime = 1m: must be between 5m and 1d\n");
    let (code, said) = run(server.command("up").args(["--set", "worker.leese=1m"]));
    assert_eq!(code, Some(2));
    assert_eq!(said, "usher: unknown setting \"worker.leese\"; --dump-config prints all\n");
    let (code, said) = run(server.command("serve").env_remove("USHER_DATABASE_URL"));
    assert_eq!(code, Some(2));
    assert!(said.ends_with("set database.url or USHER_DATABASE_URL\n"), "{said}");
    assert!(!server.data().exists(), "nothing was created");
    let url = "postgres://ann:hunter2@127.0.0.1:1/none";
    let (code, said) = run(server.command("serve").env("USHER_DATABASE_URL", url));
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("cannot reach PostgreSQL") && !said.contains("hunter2"), "{said}");
}

/// Red by: a killed server that is taken for running.
// Requirement: HC-29
#[tokio::test]
async fn a_killed_server_is_gone_and_found_again_after_its_restart() {
    let mut server = TestServer::up(&[]).await;
    let pid = server.pid();
    server.kill();
    let (code, said) = server.usher(&["get", "projects"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains(&format!("process {pid}, is gone")), "{said}");
    server.start(None);
    assert!(server.until_ready().await, "{}", server.said());
    assert_eq!(server.usher(&["get", "projects"]).0, Some(0));
}

/// Red by: a second server on one data directory.
// Requirement: D-7
#[tokio::test]
async fn a_taken_port_and_a_used_directory_are_refused() {
    let mut server = TestServer::up(&[]).await;
    let mut other = TestServer::new(&[]);
    let taken = format!("127.0.0.1:{}", server.port());
    let (code, said) = run(other.command("up").args(["--listen", &taken]));
    assert_eq!(code, Some(2), "a repeated flag is refused: {said}");
    let mut command = Command::new(crate::test_server::USHER);
    command.arg("up").arg("--data-dir").arg(other.data()).args(["--listen", &taken]);
    let (code, said) = run(&mut command);
    assert_eq!(code, Some(5));
    assert!(said.contains("another process does; choose --listen"), "{said}");
    let mut command = Command::new(crate::test_server::USHER);
    command.arg("up").arg("--data-dir").arg(server.data()).args(["--listen", "127.0.0.1:0"]);
    let (code, said) = run(&mut command);
    assert_eq!(code, Some(5));
    assert!(said.contains("another process has it open"), "{said}");
    server.kill();
    other.kill();
}

/// Red by: a directory written by a newer version that an older one opens.
// Requirement: D-7
#[tokio::test]
async fn a_data_directory_of_a_newer_version_is_refused_with_advice() {
    let mut server = TestServer::up(&[]).await;
    assert_eq!(server.stop().await, Some(0));
    server.execute("INSERT INTO usher_schema VALUES ('0099_later', x'01')").await;
    let (code, said) = run(&mut server.command("up"));
    assert_eq!(code, Some(3), "{said}");
    let sentence = "usher: cannot use the database: its schema \"0099_later\" is newer than this \
                    program (schema_newer)\n";
    assert!(said.starts_with(sentence), "{said}");
    assert!(said.contains("usher migrate --down"), "{said}");
}

/// Red by: agents that are never torn down, because the setting that runs agents changed.
// Requirement: F-74
#[tokio::test]
async fn local_agent_cannot_change_while_agents_exist() {
    let mut server = TestServer::up(&["local.agent=process"]).await;
    let id = server.provision("node").await;
    server.until_phase(&id, "Ready").await;
    assert_eq!(server.stop().await, Some(0));
    server.set("local.agent=fleet");
    let (code, said) = run(&mut server.command("up"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("usher: cannot run agents on the fleet"), "{said}");
    let server = TestServer::new(&["local.agent=process"]);
    fs::create_dir_all(server.data().join("fleet/hosts/host-1")).unwrap();
    let (code, said) = run(&mut server.command("up"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("usher: cannot leave the machines of this directory"), "{said}");
}

/// Red by: a machine of a remote provider that is never released.
// Requirement: F-74
#[tokio::test]
async fn a_server_that_holds_machines_cannot_leave_the_fleet() {
    let mut server = TestServer::up(&["local.agent=fleet"]).await;
    let id = server.provision("node").await;
    server.until_phase(&id, "Ready").await;
    assert_eq!(server.stop().await, Some(0));
    // As if the hosts were not below this directory.
    let [hosts, elsewhere] = ["fleet/hosts", "hosts"].map(|it| server.data().join(it));
    fs::rename(&hosts, &elsewhere).unwrap();
    server.set("local.agent=process");
    let (code, said) = run(&mut server.command("up"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("usher: cannot leave the machines of provider "), "{said}");
    fs::rename(&elsewhere, &hosts).unwrap();
}

/// Red by: a token, a key or a bearer that reaches a log or a response.
// Requirement: E-17
#[tokio::test]
async fn no_secret_reaches_a_log_a_response_or_the_database() {
    secrets_stay_secret(TestServer::up(&["log=trace"]).await).await;
    if let Some(server) = TestServer::serve(&["log=trace"]).await {
        secrets_stay_secret(server).await;
    }
}

async fn secrets_stay_secret(mut server: TestServer) {
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let identity = server.identity().await;
    let secret = |name: &str| fs::read_to_string(server.data().join(name)).unwrap();
    let canaries = [
        secret("admin.token").trim().to_owned(),
        secret("server.key").trim().to_owned(),
        identity["node"]["secret"].as_str().unwrap().to_owned(),
        "ubt_".to_owned(),
    ];
    let made = serde_json::json!({ "name": "second", "role": "viewer", "project": "demo" });
    let made = server.insist("POST", "/v1/operator-tokens", Some(&made)).await;
    let issued = made["text"].as_str().unwrap().to_owned();
    let mut shown = server.said();
    for path in ["why", "receipt", "plan"] {
        let it = server.insist("GET", &format!("/v1/resources/{id}/{path}"), None).await;
        shown.push_str(&it.to_string());
    }
    for path in ["/v1/events", "/v1/nodes", "/v1/tokens", "/v1/audit", "/v1/operator-tokens"] {
        shown.push_str(&server.insist("GET", path, None).await.to_string());
    }
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    shown.push_str(&server.said());
    // A wrong bearer is not echoed either.
    let wrong = "uot_wrong-bearer-canary".to_owned();
    let refused = server.ask_as(&wrong, ("GET", "/v1/projects"), None).await.unwrap();
    shown.push_str(&refused.1.to_string());
    shown.push_str(&server.said());
    shown.push_str(&server.dump().await);
    for canary in canaries.into_iter().chain([issued, wrong]) {
        assert!(!shown.contains(&canary), "\"{canary}\" was shown");
    }
}
