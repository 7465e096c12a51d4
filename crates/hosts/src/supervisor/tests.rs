//! A supervisor and real processes that know nothing of locks.

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

/// Waits for the outside; the times handed to a supervisor are made up.
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
fn what_shall_run_is_started_once_and_again_after_its_end() {
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
    until("its end is seen", || {
        supervisor.tend("a", Wanted::Run, at(1)).unwrap() == Outcome::Waiting(started_again_at)
    });
    let runs = || fs::read_to_string(&said).unwrap_or_default().lines().count();
    assert_eq!(runs(), 1, "not before its time");
    supervisor.tend("a", Wanted::Run, at(2)).unwrap();
    until("it ran again", || runs() == 2);
}

/// Red by: a lock, and with it an open file, for every node that somebody else runs.
#[test]
fn what_somebody_else_runs_is_left_alone_until_it_shall_stop() {
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
fn what_shall_stop_is_asked_and_its_record_goes_last() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("exec sleep 600"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    let asked = supervisor.tend("a", Wanted::Stop, at(2)).unwrap();
    assert_eq!(asked, Outcome::Waiting(at(2).after(GRACE)));
    until("it is gone", || supervisor.tend("a", Wanted::Stop, at(2)).unwrap() == Outcome::Gone);
    assert_eq!(units.names().unwrap(), Vec::<String>::new());
    assert_eq!(fs::read_dir(units.root()).unwrap().count(), 0, "nothing is left over");
}

// Requirement: LW-13
#[test]
fn what_does_not_listen_is_killed_after_its_grace_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let units = units(&dir);
    units.record("a", &script("trap '' TERM; touch deaf; while :; do sleep 1; done"), &[]).unwrap();
    let mut supervisor = Supervisor::new(units.clone());
    supervisor.tend("a", Wanted::Run, at(1)).unwrap();
    until("it is deaf", || units.folder("a").join("deaf").exists());
    supervisor.tend("a", Wanted::Stop, at(2)).unwrap();
    let early = supervisor.tend("a", Wanted::Stop, at(11)).unwrap();
    assert_eq!(early, Outcome::Waiting(at(11).after(SOON)));
    assert!(child_number(&supervisor, "a").is_some());
    supervisor.tend("a", Wanted::Stop, at(12)).unwrap();
    until("it is gone", || supervisor.tend("a", Wanted::Stop, at(12)).unwrap() == Outcome::Gone);
}

#[test]
fn a_program_that_is_not_there_is_told() {
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
fn a_program_that_is_away_for_a_moment_is_waited_for() {
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
fn who_left_is_not_started_again_by_anybody() {
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
fn what_runs_without_a_record_is_ended() {
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
fn a_record_that_was_made_again_behind_its_back_is_supervised_anew() {
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
fn a_record_that_cannot_be_read_is_ended_and_erased() {
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
