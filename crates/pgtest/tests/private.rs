//! The server as tests use it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use sql::{make_table, tables};

#[cfg(test)]
mod sql {
    use super::*;

    pub(crate) async fn tables(url: &str) -> i64 {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
        let count = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        count
    }

    pub(crate) async fn make_table(url: &str) {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::query("CREATE TABLE t (n int)").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

// Requirement: Q-24
#[tokio::test]
async fn every_test_has_a_database_of_its_own() {
    let (Some(one), Some(two)) = (usher_pgtest::empty().await, usher_pgtest::empty().await) else {
        return;
    };
    assert_ne!(one.url(), two.url());
    make_table(&one.url()).await;
    assert_eq!((tables(&one.url()).await, tables(&two.url()).await), (1, 0));
    let gone = one.url();
    drop(one);
    assert!(PgConnection::connect(&gone).await.is_err(), "it is dropped with its value");
}

#[tokio::test]
async fn a_template_is_filled_once_and_copied() {
    let fill = async |url: String| make_table(&url).await;
    let Some(one) = usher_pgtest::filled(fill).await else { return };
    let again = async |_| panic!("it is filled already");
    let two = usher_pgtest::filled(again).await.unwrap();
    assert_eq!((tables(&one.url()).await, tables(&two.url()).await), (1, 1));
}

#[tokio::test]
async fn a_private_server_can_be_stopped_and_resumed() {
    let Some(server) = usher_pgtest::Server::start(&[]) else { return };
    let mut before = server.connect().await;
    server.stop();
    while before.ping().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.resume();
    server.execute("SELECT 1").await;
}

/// Runs as a test of its own and as the process that is killed.
// Requirement: Q-24
#[tokio::test]
async fn a_server_ends_with_the_process_that_started_it() {
    const MARK: &str = "USHER_PGTEST_VICTIM";
    if std::env::var_os(MARK).is_some() {
        let Some(server) = usher_pgtest::Server::start(&[]) else { return };
        server.execute("SELECT 1").await;
        // The harness would capture printed output.
        std::fs::write(std::env::var_os(MARK).unwrap(), server.url("postgres")).unwrap();
        std::future::pending::<()>().await;
    }
    if usher_pgtest::shared().is_none() {
        return;
    }
    let url_file = std::env::temp_dir().join(format!("usher-pgtest.{}", std::process::id()));
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_ends_with_the_process_that_started_it"])
        .env(MARK, &url_file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let url = loop {
        match std::fs::read_to_string(&url_file) {
            Ok(url) if !url.is_empty() => break url,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    std::fs::remove_file(&url_file).unwrap();
    let dir = url.split_once("host=").unwrap().1.to_owned();
    assert!(Path::new(&dir).exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    for _ in 0..6_000 {
        if !Path::new(&dir).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("\"{dir}\" is still there");
}
