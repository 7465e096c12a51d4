use super::*;

fn typed(key: &str, value: &str) -> Sources {
    Sources { typed: vec![(key.to_owned(), value.to_owned())], ..Sources::default() }
}

fn file(dir: &tempfile::TempDir, text: &str) -> Sources {
    let path = dir.path().join("usher.toml");
    std::fs::write(&path, text).unwrap();
    Sources { file: Some(path), ..Sources::default() }
}

#[test]
fn the_defaults_are_valid_and_used_when_nothing_is_set() {
    assert_eq!(Config::load(&Sources::default()).unwrap(), Config::default());
}

// Requirement: D-8
#[test]
fn the_command_line_overrides_the_environment_and_that_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[worker]\nlease = \"40s\"\nsteps_max = 3\ndue_query = \"2s\"\n";
    let mut sources = file(&dir, text);
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    sources.variables =
        [variable("USHER_WORKER_LEASE", "50s"), variable("USHER_WORKER_STEPS_MAX", "4")].into();
    sources.typed = vec![variable("worker.lease", "55s")];
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.worker.lease, Span::secs(55));
    assert_eq!(config.worker.steps_max, 4);
    assert_eq!(config.worker.due_query, Span::secs(2));
}

// Requirement: D-8
#[test]
fn an_unknown_key_is_refused_with_its_full_name() {
    let dir = tempfile::tempdir().unwrap();
    for (text, key) in [("colour = 1", "colour"), ("[worker]\nleese = \"1s\"", "worker.leese")] {
        let why = Config::load(&file(&dir, text)).unwrap_err().to_string();
        assert_eq!(why, format!("unknown setting \"{key}\"; --dump-config prints all"));
    }
    for key in ["colour", "worker", "worker.leese", "a.b.c"] {
        let why = Config::load(&typed(key, "1")).unwrap_err().to_string();
        assert_eq!(why, format!("unknown setting \"{key}\"; --dump-config prints all"));
    }
}

// Requirement: D-8
#[test]
fn a_value_out_of_bounds_is_refused_and_the_bounds_named() {
    for (key, value, why) in [
        ("tokens.lifetime", "4m", "must be between 5m and 1d"),
        ("tokens.lifetime", "25h", "must be between 5m and 1d"),
        ("broker.reconcile_interval", "0s", "must be between 100ms and 1d"),
        ("worker.step_deadline", "30s", "must be shorter than worker.lease = 30s"),
        ("guard.percent", "101", "must be between 0 and 100"),
    ] {
        let refused = Config::load(&typed(key, value)).unwrap_err();
        assert!(matches!(&refused, Error::Bounds { key: k, why: w, .. } if *k == key && w == why));
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for text in ["listen = 1", "worker = 1", "[worker]\nlease = 30", "[worker\n", "[worker.lease]"]
    {
        let refused = Config::load(&file(&dir, text)).unwrap_err();
        assert!(matches!(refused, Error::Syntax { .. }), "{text}: {refused}");
    }
    for (key, value) in
        [("worker.steps_max", "many"), ("worker.lease", "soon"), ("local.agent", "docker")]
    {
        let refused = Config::load(&typed(key, value)).unwrap_err();
        assert!(matches!(refused, Error::Syntax { .. }), "{key}: {refused}");
    }
}

// Requirement: D-8
#[test]
fn a_dumped_configuration_loads_again_and_has_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.worker.lease = Span::secs(60);
    assert_eq!(Config::load(&file(&dir, &config.dump())).unwrap(), config);
    for url in ["postgres://ann:hunter2@db/usher", "postgres://db/usher?password=hunter2"] {
        config.database.url = url.to_owned();
        assert!(!config.dump().contains("hunter2"), "{}", config.dump());
    }
    assert_eq!(without_password("postgres://ann:x@db:5/usher?a=b"), "postgres://ann@db:5/usher");
}

#[test]
fn every_setting_has_its_own_environment_variable() {
    let names: std::collections::BTreeSet<String> =
        reference().iter().map(|(key, _)| variable_of(key)).collect();
    assert_eq!(names.len(), reference().len());
    assert!(names.contains("USHER_DATABASE_URL") && names.contains("USHER_DATA_DIR"));
}
