//! `differential --planted`: a copy of the working copy with every defect of the list in it, each
//! behind a switch, is compared with itself. The defects are in the copy only.

use std::fs;
use std::path::Path;

use super::defects::{Change, DEFECTS};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;
use crate::tree::Tree;

/// The copy, in the target directory.
const COPY: &str = "target/planted";
const SOURCES: &str = "crates/apiserver/src";
/// A defect is on for the threads of the server that bears its name.
const SWITCH: &str = r#"
/// Whether a planted defect is on.
pub(crate) fn planted(name: &str) -> bool {
    let thread = std::thread::current();
    thread.name().and_then(|own| own.strip_prefix("planted:")) == Some(name)
}
"#;

/// Builds the copy and looks for every defect.
pub(super) fn search(repo: &Repo) -> Outcome {
    let copy = repo.root().join(COPY);
    write(&changed(&repo.tree()?)?, &copy)?;
    let target = repo.root().join("target");
    let names: Vec<&str> = DEFECTS.iter().map(|defect| defect.name).collect();
    output::say(format_args!("{} defects are planted in {COPY}", names.len()));
    let target = target.to_string_lossy();
    let env = [("CARGO_TARGET_DIR", target.as_ref()), ("USHER_PLANTED", &names.join(";"))];
    let words = ["test", "--workspace", "--test", "differential", "--", "--exact"];
    Repo::at(copy)
        .cargo(&[&words[..], &["planted_defects_are_found", "--nocapture"]].concat(), &env)
}

/// The files of the copy.
fn changed(tree: &Tree) -> Result<Vec<(String, String)>, Failure> {
    let mut files: Vec<(String, String)> = ["Cargo.", "rust-toolchain.toml", "crates/", "xtask/"]
        .iter()
        .flat_map(|prefix| tree.under(prefix))
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    for (path, text) in &mut files {
        if path == "Cargo.toml" {
            // Packages of the same name and version would share files in the target directory.
            *text = text.replacen("version = \"", "version = \"0.0.0-planted.", 1);
        }
        let Some(file) = path.strip_prefix(SOURCES).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        for defect in DEFECTS {
            for change in defect.changes.iter().filter(|change| change.file == file) {
                *text = plant(text, defect.name, change)?;
            }
        }
        if file == "lib.rs" {
            text.push_str(SWITCH);
        }
    }
    Ok(files)
}

/// A source with one change more.
fn plant(text: &str, name: &str, change: &Change) -> Result<String, Failure> {
    if text.matches(change.old).count() != 1 {
        return Err(Failure::message(format!(
            "cannot plant \"{name}\": {} does not have this text once: {}",
            change.file, change.old
        )));
    }
    let on = format!("crate::planted(\"{name}\")");
    Ok(text.replace(change.old, &change.new.replace("{on}", &on)))
}

/// Removes files that are not there any more, and writes those that are not as they should be:
/// cargo builds what is newer.
fn write(files: &[(String, String)], folder: &Path) -> Outcome {
    for part in ["crates", "xtask"] {
        prune(&folder.join(part), files, folder)?;
    }
    for (path, text) in files {
        let path = folder.join(path);
        if fs::read_to_string(&path).is_ok_and(|there| there == *text) {
            continue;
        }
        let cannot = |cause| Failure::message(format!("cannot write {}: {cause}", path.display()));
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(cannot)?;
        fs::write(&path, text).map_err(cannot)?;
    }
    Ok(())
}

fn prune(part: &Path, files: &[(String, String)], folder: &Path) -> Outcome {
    let cannot = |cause| Failure::message(format!("cannot clear {}: {cause}", part.display()));
    let Ok(entries) = fs::read_dir(part) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            prune(&path, files, folder)?;
        } else if !files.iter().any(|(kept, _)| folder.join(kept) == path) {
            fs::remove_file(&path).map_err(cannot)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: AK-86
    #[test]
    fn every_defect_fits_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let tree = Tree::read(root).expect("the sources");
        assert!(DEFECTS.len() >= 20, "{}", DEFECTS.len());
        let files = changed(&tree).expect("a copy");
        let text: String = files.into_iter().map(|(_, text)| text).collect();
        for defect in DEFECTS {
            assert!(text.contains(&format!("crate::planted(\"{}\")", defect.name)));
        }
    }

    #[test]
    fn a_defect_whose_text_is_gone_is_refused() {
        let change = &DEFECTS[0].changes[0];
        let Err(Failure::Message(sentence)) = plant("fn other() {}", "x", change) else {
            panic!("planted");
        };
        assert!(sentence.starts_with("cannot plant \"x\": verbs/delete.rs"), "{sentence}");
    }
}
