//! Objects on a real disk.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::object::Owner;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn object(name: &str, owner: Option<Owner>) -> Object {
    Object {
        name: name.to_owned(),
        uid: Uid::new(""),
        ledger_kind: "Anchor".to_owned(),
        place: "ns".to_owned(),
        labels: BTreeMap::new(),
        owner,
        revision: 0,
        created_at: NOW,
        deleting_at: None,
        manifest: json!({}),
        substrate: None,
        footing: None,
    }
}

async fn world(dir: &tempfile::TempDir) -> Registry {
    Registry::open(dir.path().join("world")).await.unwrap()
}

async fn anchor(registry: &Registry, name: &str) -> Object {
    registry.change().await.unwrap().create(Kind::Anchor, object(name, None)).unwrap()
}

fn owner(of: &Object) -> Owner {
    Owner { kind: Kind::Anchor, name: of.name.clone(), uid: of.uid.clone() }
}

// Requirement: LW-2
#[tokio::test]
async fn a_name_is_given_once() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let again = registry.change().await.unwrap().create(Kind::Anchor, object("a", None));
    assert!(matches!(again, Err(Error::Exists { name }) if name == "a"));
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(first.clone()));
    registry.change().await.unwrap().remove(Kind::Anchor, "a", &first.uid).unwrap();
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), None);
    assert_ne!(anchor(&registry, "a").await.uid, first.uid, "another incarnation");
}

// Requirement: LW-4
#[tokio::test]
async fn nothing_is_created_under_an_owner_that_is_gone_or_another() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let create = async |owner: Owner, name: &str| {
        let change = registry.change().await.unwrap();
        change.create(Kind::Substrate, object(name, Some(owner))).map(|it| it.name)
    };
    assert_eq!(create(owner(&first), "x").await.unwrap(), "x");
    registry.change().await.unwrap().remove(Kind::Anchor, "a", &first.uid).unwrap();
    let late = create(owner(&first), "y").await;
    assert!(matches!(late, Err(Error::OwnerGone { name }) if name == "y"));
    anchor(&registry, "a").await;
    let late = create(owner(&first), "y").await;
    assert!(matches!(late, Err(Error::OwnerGone { .. })), "another incarnation owns nothing");
}

// Requirement: LW-3
#[tokio::test]
async fn only_the_very_object_that_is_meant_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let it = anchor(&registry, "a").await;
    let change = registry.change().await.unwrap();
    let other = Uid::new("other");
    let is_refused =
        |done: Result<(), Error>| matches!(done, Err(Error::NotThatOne { name }) if name == "a");
    assert!(is_refused(change.remove(Kind::Anchor, "a", &other)));
    assert!(is_refused(change.mark(Kind::Anchor, ("a", &other), NOW)));
    assert!(is_refused(change.update(Kind::Anchor, ("a", &other), |_| ()).map(|_| ())));
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(it));
    change.remove(Kind::Anchor, "b", &other).unwrap();
    change.mark(Kind::Anchor, ("b", &other), NOW).unwrap();
    let none = change.update(Kind::Anchor, ("b", &other), |_| ());
    assert!(matches!(none, Err(Error::NotThatOne { .. })), "an update never creates");
}

// Requirement: LW-8
#[tokio::test]
async fn every_change_raises_the_revision_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let revision = || registry.pin().unwrap().revision;
    let start = revision();
    let it = anchor(&registry, "a").await;
    assert_eq!((it.revision, revision()), (start + 1, start + 1));
    let change = registry.change().await.unwrap();
    change.update(Kind::Anchor, ("a", &it.uid), |_| ()).unwrap();
    assert_eq!(revision(), start + 1, "nothing changed");
    change.mark(Kind::Anchor, ("a", &it.uid), NOW).unwrap();
    assert_eq!(revision(), start + 2);
    change.mark(Kind::Anchor, ("a", &it.uid), NOW.after(LOCK_PAUSE)).unwrap();
    assert_eq!(revision(), start + 2, "asked once is asked");
    let found = registry.get(Kind::Anchor, "a").unwrap().unwrap();
    assert_eq!((found.deleting_at, found.revision), (Some(NOW), start + 2));
    change.remove(Kind::Anchor, "a", &it.uid).unwrap();
    assert_eq!(revision(), start + 3);
}

#[tokio::test]
async fn a_world_that_is_opened_again_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(&dir).await;
    let it = anchor(&first, "a").await;
    let second = world(&dir).await;
    assert_eq!(first.pin().unwrap(), second.pin().unwrap());
    assert_eq!(second.get(Kind::Anchor, "a").unwrap(), Some(it));
    let other = tempfile::tempdir().unwrap();
    assert_ne!(world(&other).await.pin().unwrap().identity, first.pin().unwrap().identity);
}

// Requirement: LW-6
#[tokio::test]
async fn what_cannot_be_read_is_not_absent() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    anchor(&registry, "a").await;
    let path = registry.path(Kind::Anchor, "a");
    let is_corrupt = |name| matches!(registry.get(Kind::Anchor, name), Err(Error::Corrupt { .. }));
    for garbage in ["", "{", "null", "{\"name\":\"a\"}"] {
        fs::write(&path, garbage).unwrap();
        assert!(is_corrupt("a"), "{garbage}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(is_corrupt("a"), "a folder in place of its file");
    fs::remove_dir(&path).unwrap();
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), None);
    fs::rename(registry.folder(Kind::Anchor), dir.path().join("elsewhere")).unwrap();
    assert!(is_corrupt("a"), "the whole kind is gone");
}

#[tokio::test]
async fn an_object_that_lies_under_another_name_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    anchor(&registry, "a").await;
    fs::rename(registry.path(Kind::Anchor, "a"), registry.path(Kind::Anchor, "b")).unwrap();
    assert!(matches!(registry.get(Kind::Anchor, "b"), Err(Error::Corrupt { .. })));
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), None);
}

// Requirement: LW-16
#[tokio::test]
async fn names_that_lead_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    for name in ["", ".", "..", "a/b", "../id", ".hidden", "a\0b", "a b", &"a".repeat(201)] {
        let found = registry.get(Kind::Anchor, name);
        assert!(matches!(found, Err(Error::Name { .. })), "{name}");
        let made = registry.change().await.unwrap().create(Kind::Anchor, object(name, None));
        assert!(matches!(made, Err(Error::Name { .. })), "{name}");
    }
}

// Requirement: LW-6
#[tokio::test]
async fn a_lost_memory_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    fs::remove_file(registry.root().join(CHANGES)).unwrap();
    assert_eq!(registry.pin().unwrap().revision, 0);
    fs::remove_file(registry.root().join(ID)).unwrap();
    assert_eq!(registry.pin().unwrap().identity, Uid::new(""));
}

#[tokio::test]
async fn what_a_crash_left_without_a_name_is_swept_when_the_world_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    fs::create_dir(registry.aside().join("x")).unwrap();
    fs::write(registry.aside().join("y"), "").unwrap();
    world(&dir).await;
    let mut left: Vec<_> =
        fs::read_dir(registry.root()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    let expected = [
        "anchor",
        "aside",
        "changes",
        "external-secret",
        "id",
        "lock",
        "owned",
        "part",
        "provider-config",
        "substrate",
    ];
    assert_eq!(left, expected);
    assert_eq!(fs::read_dir(registry.aside()).unwrap().count(), 0);
}

/// The file of an object as lines.
fn lines_of(registry: &Registry, name: &str) -> Vec<String> {
    let text = fs::read_to_string(registry.path(Kind::Anchor, name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Turns an anchor into something else.
async fn turn(registry: &Registry, it: &Object, manifest: serde_json::Value) -> Object {
    let change = registry.change().await.unwrap();
    let turned = change.update(Kind::Anchor, (&it.name, &it.uid), |it| it.manifest = manifest);
    turned.unwrap()
}

/// Red by: a change that makes a file.
// Requirement: LW-20
#[tokio::test]
async fn a_change_is_one_more_line_in_the_same_file() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let metadata = || fs::metadata(registry.path(Kind::Anchor, "a")).unwrap();
    let before = metadata();
    assert_eq!(before.permissions().mode() & 0o777, 0o600);
    let second = turn(&registry, &first, json!({ "x": "\n" })).await;
    assert_eq!(metadata().ino(), before.ino());
    let states = [&first, &second].map(|it| serde_json::to_string(it).unwrap());
    assert_eq!(lines_of(&registry, "a"), states);
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(second));
}

/// Red by: half a state that hides the one before it, or becomes a part of the next one.
// Requirement: LW-20
#[tokio::test]
async fn a_state_that_a_crash_tore_is_skipped_and_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let second = turn(&registry, &first, json!(2)).await;
    let path = registry.path(Kind::Anchor, "a");
    let whole = fs::read(&path).unwrap();
    // With the last byte only the line break is missing.
    for missing in 1..10 {
        fs::write(&path, &whole[..whole.len() - missing]).unwrap();
        let stands = if missing == 1 { &second } else { &first };
        assert_eq!(registry.get(Kind::Anchor, "a").unwrap().as_ref(), Some(stands), "{missing}");
        let third = turn(&registry, &first, json!(3)).await;
        assert_eq!(registry.get(Kind::Anchor, "a").unwrap().as_ref(), Some(&third), "{missing}");
        assert_eq!(lines_of(&registry, "a"), [serde_json::to_string(&third).unwrap()]);
    }
    assert_eq!(fs::read_dir(registry.aside()).unwrap().count(), 0);
}

/// Red by: an object that only we can write.
// Requirement: LW-20
#[tokio::test]
async fn an_object_that_a_person_wrote_over_several_lines_is_read_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let by_hand = Object { place: "elsewhere".to_owned(), ..first.clone() };
    for end in ["", "\n"] {
        let text = serde_json::to_string_pretty(&by_hand).unwrap() + end;
        fs::write(registry.path(Kind::Anchor, "a"), text).unwrap();
        assert_eq!(registry.get(Kind::Anchor, "a").unwrap().as_ref(), Some(&by_hand));
        let next = turn(&registry, &first, json!(2)).await;
        assert_eq!(next.place, "elsewhere");
        assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(next));
    }
}

/// Red by: a file that grows without end.
// Requirement: LW-20
#[tokio::test]
async fn a_file_that_has_grown_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let length = || fs::metadata(registry.path(Kind::Anchor, "a")).unwrap().len();
    let bound = u64::try_from(lines::BOUND).unwrap();
    let mut shrunk = 0;
    for number in 0..40 {
        let before = length();
        let text = format!("{number}").repeat(2_000);
        let next = turn(&registry, &first, json!(text)).await;
        shrunk += u32::from(length() < before);
        assert!(length() <= bound, "{}", length());
        assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(next));
    }
    assert!((1..5).contains(&shrunk), "now and then, and not each time: {shrunk}");
    let next = turn(&registry, &first, json!("x".repeat(lines::BOUND))).await;
    assert_eq!(registry.get(Kind::Anchor, "a").unwrap(), Some(next), "one that is longer itself");
}

#[tokio::test]
async fn what_is_no_file_of_an_object_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    fs::write(registry.folder(Kind::Anchor).join(".a.json"), "{}").unwrap();
    fs::write(registry.folder(Kind::Anchor).join("a.json~"), "{}").unwrap();
    let registry = world(&dir).await;
    assert_eq!(registry.names(Kind::Anchor).unwrap(), Vec::<String>::new());
}

/// Red by: a world whose objects were folders taken for an empty one, in which nothing may run.
#[tokio::test]
async fn a_world_of_an_earlier_layout_is_refused() {
    for folder in [Kind::Anchor.folder(), "owned"] {
        let dir = tempfile::tempdir().unwrap();
        let registry = world(&dir).await;
        let old = registry.root().join(folder).join("old");
        fs::create_dir(&old).unwrap();
        let refused = Registry::open(registry.root().to_owned()).await.unwrap_err();
        assert!(matches!(&refused, Error::Earlier { path } if *path == old), "{refused}");
    }
}

/// Red by: notes that cannot be read taken for none, so that what stands is not looked for.
#[tokio::test]
async fn notes_that_cannot_be_read_prove_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let notes = registry.root().join("owned").join("substrate.a");
    for text in ["rubbish\n", "+part\n", "+nothing.x\n", "\n"] {
        fs::write(&notes, text).unwrap();
        let read = registry.owned(Kind::Substrate, "a");
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{text:?}: {read:?}");
    }
    fs::write(&notes, "+part.x\n-par").unwrap();
    assert_eq!(registry.owned(Kind::Substrate, "a").unwrap(), [(Kind::Part, "x".to_owned())]);
}

/// Red by: a part that is marked for an owner that is not its own.
#[tokio::test]
async fn only_what_belongs_to_this_very_owner_is_marked_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let change = registry.change().await.unwrap();
    change.create(Kind::Substrate, object("x", Some(owner(&first)))).unwrap();
    let mark = |name, owner: &Uid| {
        change.mark_owned(Kind::Substrate, (name, owner), NOW).unwrap();
        let found = registry.get(Kind::Substrate, name).unwrap();
        found.map(|it| it.deleting_at)
    };
    assert_eq!(mark("x", &Uid::new("other")), Some(None));
    assert_eq!(mark("x", &first.uid), Some(Some(NOW)));
    assert_eq!(mark("y", &first.uid), None);
}

/// What is noted as belonging to an anchor.
fn owned(registry: &Registry, name: &str) -> Vec<(Kind, String)> {
    registry.owned(Kind::Anchor, name).unwrap()
}

/// Red by: a note that is missing, or one that outlives what it is about.
// Requirement: LW-19
#[tokio::test]
async fn what_belongs_to_an_owner_is_noted_for_as_long_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    assert_eq!(owned(&registry, "a"), []);
    let own = |name| object(name, Some(owner(&first)));
    let make = async |name| {
        let change = registry.change().await.unwrap();
        change.create(Kind::Substrate, own(name)).unwrap()
    };
    let (one, _two) = (make("one").await, make("two").await);
    let noted = |names: &[&str]| -> Vec<(Kind, String)> {
        names.iter().map(|it| (Kind::Substrate, (*it).to_owned())).collect()
    };
    assert_eq!(owned(&registry, "a"), noted(&["one", "two"]));
    registry.change().await.unwrap().remove(Kind::Substrate, "one", &one.uid).unwrap();
    assert_eq!(owned(&registry, "a"), noted(&["two"]));
    // Whoever removes it by hand asks nobody.
    fs::remove_file(registry.path(Kind::Substrate, "two")).unwrap();
    assert_eq!(owned(&registry, "a"), noted(&["two"]));
    registry.change().await.unwrap().remove(Kind::Anchor, "a", &first.uid).unwrap();
    assert_eq!(fs::read_dir(registry.root().join("owned")).unwrap().count(), 0);
}

/// Red by: a world without notes whose objects belong to nobody, or a note that a crash left.
// Requirement: LW-19
#[tokio::test]
async fn notes_are_mended_when_the_world_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let own = object("one", Some(owner(&first)));
    registry.change().await.unwrap().create(Kind::Substrate, own).unwrap();
    fs::remove_dir_all(registry.root().join("owned")).unwrap();
    assert!(matches!(registry.owned(Kind::Anchor, "a"), Err(Error::Corrupt { .. })));
    world(&dir).await;
    assert_eq!(owned(&registry, "a"), [(Kind::Substrate, "one".to_owned())]);
    fs::remove_file(registry.path(Kind::Substrate, "one")).unwrap();
    world(&dir).await;
    assert_eq!(owned(&registry, "a"), []);
}

/// Red by: half a note that counts, hides what stands, or becomes a part of the next one.
// Requirement: LW-20
#[tokio::test]
async fn a_note_that_a_crash_tore_is_skipped_and_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = anchor(&registry, "a").await;
    let make = async |name| {
        let change = registry.change().await.unwrap();
        change.create(Kind::Substrate, object(name, Some(owner(&first)))).unwrap();
    };
    let file = registry.root().join("owned/anchor.a");
    let noted = |names: &[&str]| -> Vec<(Kind, String)> {
        names.iter().map(|it| (Kind::Substrate, (*it).to_owned())).collect()
    };
    make("x").await;
    make("x1").await;
    let whole = fs::read_to_string(&file).unwrap();
    assert_eq!(whole, "+substrate.x\n+substrate.x1\n");
    for (torn, next) in [("-substrate.x", "y"), ("+substrate.z", "y1")] {
        fs::write(&file, format!("{whole}{torn}")).unwrap();
        assert_eq!(owned(&registry, "a"), noted(&["x", "x1"]), "{torn}");
        make(next).await;
        assert_eq!(owned(&registry, "a"), noted(&["x", "x1", next]), "{torn}");
    }
    fs::write(&file, "+substr").unwrap();
    world(&dir).await;
    assert!(!file.exists(), "nothing is noted there");
}

/// Red by: notes that grow without end.
// Requirement: LW-20
#[tokio::test]
async fn notes_that_have_grown_are_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let first = owner(&anchor(&registry, "a").await);
    let (notes, name) = (registry.notes(), "x".repeat(200));
    let file = registry.root().join("owned/anchor.a");
    notes.add(&first, Kind::Substrate, "stays").unwrap();
    for _ in 0..lines::BOUND / name.len() {
        notes.add(&first, Kind::Substrate, &name).unwrap();
        notes.remove(&first, Kind::Substrate, &name).unwrap();
        assert!(fs::read(&file).unwrap().len() <= lines::BOUND);
        assert_eq!(owned(&registry, "a"), [(Kind::Substrate, "stays".to_owned())]);
    }
    notes.remove(&first, Kind::Substrate, "stays").unwrap();
    assert!(!file.exists());
}

// Requirement: LW-17
#[tokio::test]
async fn a_world_that_somebody_keeps_locked_is_busy_and_not_waited_for_without_end() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    let registry = world(&dir).await;
    let _stuck = registry.change().await.unwrap();
    let other = world_of_another_process(&registry);
    assert!(matches!(other.change().await, Err(Error::Busy { .. })));
    assert!(matches!(registry.change().await, Err(Error::Busy { .. })));
}

/// The same folder without the turn that one process lines up in.
fn world_of_another_process(registry: &Registry) -> Registry {
    Registry { root: registry.root.clone(), turn: Arc::default() }
}
