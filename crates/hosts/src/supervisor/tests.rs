//! A supervisor and real processes that take no locks.

use std::time::Instant;

use super::*;

const GRACE: Duration = Duration::from_secs(10);

fn units(dir: &tempfile::TempDir) -> Units {
    Units::open(dir.path().join("process")).unwrap()
}

fn unit(program: &str, args: &[&str]) -> Unit {
    Unit {
        owner: usher_kernel::Uid::new("u1"),
        labels: BTreeMap::new(),
        program: program.into(),
        args: args.iter().map(|it| (*it).to_owned()).collect(),
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap(),
    }
}

fn script(text: &str) -> Unit {
    unit("/bin/sh", &["-c", text])
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_secs(seconds))
}

/// Waits in real time; the times passed to a supervisor are simulated.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn child_number(supervisor: &Supervisor, name: &str) -> Option<u32> {
    supervisor.tended.get(name).and_then(|it| it.child.as_ref()).map(Child::id)
}

#[test]
fn a_process_is_started_once_and_restarted_after_its_exit() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    let said = units.folder("a").join("said");
    units.record("a", &script("echo x >> said"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units);
    assert_eq!(
        supervisor.tend("a", Wanted::Run, at(1)).unwrap(),
        Outcome::Waiting(at(1).after(SOON))
    );
    until("it ran", || said.exists());
    let started_again_at = at(1).after(Duration::from_millis(200));
    until("its exit is seen", || {
        supervisor.tend("a", Wanted::Run, at(1)).unwrap() == Outcome::Waiting(started_again_at)
    });
    let runs = || fs::read_to_string(&said).unwrap_or_default().lines().count();
    assert_eq!(runs(), 1, "not before its time");
    supervisor.tend("a", Wanted::Run, at(2)).unwrap();
    until("it ran again", || runs() == 2);
}

/// Red by: a lock, and with it an open file, for every node that runs externally.
#[test]
fn an_external_process_is_left_alone_until_it_shall_stop() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("touch ran"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    assert_eq!(supervisor.tend("a", Wanted::Hold, at(1)).unwrap(), Outcome::Resting);
    assert_eq!(supervisor.tended().count(), 0);
    assert_eq!(supervisor.tend("a", Wanted::Stop, at(2)).unwrap(), Outcome::Gone);
    assert_eq!(units.names().unwrap(), Vec::<String>::new());
}

#[test]
fn a_stopped_process_ends_before_its_record_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    let asked = supervisor.tend("a", Wanted::Stop, at(2)).unwrap();
    assert_eq!(asked, Outcome::Waiting(at(2).after(GRACE)));
    until("it is gone", || supervisor.tend("a", Wanted::Stop, at(2)).unwrap() == Outcome::Gone);
    assert_eq!(units.names().unwrap(), Vec::<String>::new());
    assert_eq!(fs::read_dir(units.root()).unwrap().count(), 0, "nothing remains");
}

// Requirement: LW-13
#[test]
fn a_process_that_ignores_sigterm_is_killed_after_its_grace() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units
        .record("a", &script("trap '' TERM; touch ignores-term; while :; do sleep 1; done"), &[])
        .unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    until("it ignores SIGTERM", || units.folder("a").join("ignores-term").exists());
    supervisor.tend("a", Wanted::Stop, at(2)).unwrap();
    let early = supervisor.tend("a", Wanted::Stop, at(11)).unwrap();
    assert_eq!(early, Outcome::Waiting(at(11).after(SOON)));
    assert!(child_number(&supervisor, "a").is_some());
    supervisor.tend("a", Wanted::Stop, at(12)).unwrap();
    until("it is gone", || supervisor.tend("a", Wanted::Stop, at(12)).unwrap() == Outcome::Gone);
}

#[test]
fn a_missing_program_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &unit("/nowhere/agent", &[]), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    let why = units.failure("a").unwrap().unwrap();
    assert!(why.starts_with("cannot start \"/nowhere/agent\": "), "{why}");
    assert_eq!(supervisor.tend("a", Wanted::Stop, at(1)).unwrap(), Outcome::Gone);
}

// Requirement: LW-14
#[test]
fn a_program_that_ran_before_and_is_missing_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    let program = dir.path().join("program");
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    units.record("a", &unit(program.to_str().unwrap(), &[]), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    until("it ended", || {
        child_number(&supervisor, "a").is_none() || {
            supervisor.tend("a", Wanted::Run, at(1)).unwrap();
            false
        }
    });
    fs::remove_file(&program).unwrap();
    supervisor.tend("a", Wanted::Run, at(60)).unwrap();
    assert_eq!(units.failure("a").unwrap(), None);
}

// Requirement: LW-14
#[test]
fn no_supervisor_restarts_a_process_that_left() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("echo x >> said"), &[(LEFT, b"")]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    assert_eq!(supervisor.tend("a", Wanted::Run, at(1)).unwrap(), Outcome::Resting);
    assert!(!units.folder("a").join("said").exists());
}

// Requirement: LW-11
#[test]
fn the_second_supervisor_waits_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    let mut first = Supervisor::new(units.clone());
    let mut second = Supervisor::new(units.clone());
    first.tend("a", Wanted::Run, at(1)).unwrap();
    assert_eq!(second.tend("a", Wanted::Stop, at(1)).unwrap(), Outcome::Elsewhere);
    until("the first stops it", || first.tend("a", Wanted::Stop, at(1)).unwrap() == Outcome::Gone);
    assert_eq!(second.tend("a", Wanted::Stop, at(1)).unwrap(), Outcome::Gone);
}

// Requirement: LW-15
#[test]
fn a_process_without_a_record_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    let number = child_number(&supervisor, "a").unwrap();
    fs::remove_dir_all(units.folder("a")).unwrap();
    until("it is gone", || supervisor.tend("a", Wanted::Run, at(1)).unwrap() == Outcome::Gone);
    assert!(!std::path::Path::new(&format!("/proc/{number}")).exists());
}

#[test]
fn a_record_that_was_replaced_is_supervised_anew() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    let first = child_number(&supervisor, "a").unwrap();
    fs::remove_dir_all(units.folder("a")).unwrap();
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    supervisor.tend("a", Wanted::Run, at(2)).unwrap();
    let second = child_number(&supervisor, "a").unwrap();
    assert_ne!(first, second);
    until("it is gone", || supervisor.tend("a", Wanted::Stop, at(2)).unwrap() == Outcome::Gone);
}

// Requirement: LW-15
#[test]
fn an_unreadable_record_ends_its_process_and_is_erased() {
    for damage in ["{", ""] {
        let dir = tempfile::tempdir().unwrap();
        let units = units(&dir);
        units.record("a", &script("exec sleep 600"), &[]).unwrap();
        let mut supervisor = Supervisor::new(units.clone());
        supervisor.tend("a", Wanted::Run, at(1)).unwrap();
        let number = child_number(&supervisor, "a").unwrap();
        let path = units.folder("a").join("unit.json");
        if damage.is_empty() { fs::remove_file(path) } else { fs::write(path, damage) }.unwrap();
        until("it is gone", || supervisor.tend("a", Wanted::Run, at(2)).unwrap() == Outcome::Gone);
        assert!(!std::path::Path::new(&format!("/proc/{number}")).exists());
        assert!(!units.folder("a").exists());
    }
}
