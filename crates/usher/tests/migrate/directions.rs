//! Migrations up and down, and what is refused.

use serde_json::Value;

use crate::test_env::{TestEnv, on_both};

fn count(status: &Value, list: &str) -> usize {
    status[list].as_array().unwrap().len()
}

/// Red by: a migration that is skipped, or a status that changes something.
// Requirement: Y-14
#[tokio::test]
async fn a_schema_migrates_up_down_and_up_again() {
    on_both(async |test_env: TestEnv| {
        let (code, table, printed) = test_env.usher(&[]);
        assert_eq!(code, Some(0), "{printed}");
        assert!(table.starts_with("MIGRATION"), "{table}");
        let applied = |line: &str| line.split_whitespace().eq(["0001_tenancy", "applied"]);
        assert!(table.lines().any(applied), "{table}");
        assert!(printed.starts_with("up 0001_tenancy\nup 0002_records\n"), "{printed}");
        let status = test_env.json(&["--status"]);
        let all = count(&status, "applied");
        assert_eq!((count(&status, "pending"), count(&status, "steps")), (0, 0));
        let again = test_env.json(&[]);
        assert_eq!(count(&again, "steps"), 0, "there was nothing to do");
        let down = test_env.json(&["--down", "2", "--yes"]);
        assert_eq!((count(&down, "applied"), count(&down, "pending")), (all - 2, 2));
        assert_eq!(down["steps"][0]["way"], "down");
        assert_eq!(down["steps"][0]["name"], status["applied"][all - 1], "the last one first");
        assert_eq!(test_env.json(&["--status"])["pending"], down["pending"]);
        assert_eq!(test_env.json(&[])["applied"], status["applied"]);
    })
    .await;
}

/// Red by: data that is destroyed without confirmation.
// Requirement: Y-15
#[tokio::test]
async fn no_migration_is_reverted_without_yes() {
    on_both(async |test_env: TestEnv| {
        let status = test_env.json(&[]);
        let (code, said, complained) = test_env.usher(&["--down", "1"]);
        assert_eq!((code, said.as_str()), (Some(2), ""));
        let last = status["applied"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(complained.contains(last) && complained.contains("--yes"), "{complained}");
        assert_eq!(test_env.json(&["--status"])["applied"], status["applied"]);
        let (code, _, complained) = test_env.usher(&["--down", "99", "--yes"]);
        assert_eq!(code, Some(3));
        assert!(complained.contains("schema_too_far"), "{complained}");
        assert_eq!(test_env.json(&["--status"])["applied"], status["applied"]);
    })
    .await;
}

/// Red by: a foreign schema that is touched, or a refusal without advice.
// Requirement: Y-16
#[tokio::test]
async fn a_newer_or_foreign_schema_is_refused_with_advice() {
    on_both(async |test_env: TestEnv| {
        test_env.json(&[]);
        let bytes = if test_env.folder.is_some() { "x'01'" } else { "'\\x01'" };
        test_env.execute(&format!("INSERT INTO usher_schema VALUES ('0099_later', {bytes})")).await;
        for words in [&[][..], &["--status"], &["--down", "1", "--yes"]] {
            let (code, said, complained) = test_env.usher(words);
            assert_eq!((code, said.as_str()), (Some(3), ""), "{words:?}");
            assert!(complained.contains("0099_later"), "{complained}");
            assert!(complained.contains("schema_newer"), "{complained}");
            assert!(complained.contains("run the newer program"), "{complained}");
        }
    })
    .await;
    on_both(async |test_env: TestEnv| {
        if let Some(folder) = &test_env.folder {
            std::fs::create_dir(folder).unwrap();
        }
        test_env.execute("CREATE TABLE shop (id int)").await;
        let (code, _, complained) = test_env.usher(&[]);
        assert_eq!(code, Some(3), "{complained}");
        assert!(complained.contains("schema_foreign") && complained.contains("\"shop\""));
    })
    .await;
}

/// Red by: a status that creates files, or a cause that is not printed.
// Requirement: Y-16
#[test]
fn a_missing_database_is_reported() {
    let test_env = TestEnv::sqlite();
    let (code, _, complained) = test_env.usher(&["--status"]);
    assert_eq!(code, Some(4), "{complained}");
    assert!(!test_env.folder.as_ref().unwrap().exists(), "a status creates nothing");
    let nowhere = ["--database-url".to_owned(), "postgres://u:hunter2@127.0.0.1:1/d".to_owned()];
    let nowhere = TestEnv { words: nowhere, folder: None, _database: None };
    let (code, said, complained) = nowhere.usher(&[]);
    assert_eq!((code, said.as_str()), (Some(5), ""));
    assert!(complained.contains("cannot reach PostgreSQL"), "{complained}");
    assert!(!complained.contains("hunter2"), "{complained}");
}
