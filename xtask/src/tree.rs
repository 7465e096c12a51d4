//! A set of files as a value, so that every check can be tried on a tree made of strings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Made by tools, not by people.
const SKIPPED: [&str; 4] = [".git", "target", "mutants.out", "mutants.out.old"];

/// Whether the path's extension is this one.
pub(crate) fn is_kind(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|known| known == extension)
}

/// Files by their path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads everything under `root` but what tools made; a file that is not text is kept empty.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.collect(root, "")?;
        Ok(tree)
    }

    fn collect(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                self.collect(&entry.path(), &format!("{path}/"))?;
            } else {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.insert(path, text);
            }
        }
        Ok(())
    }

    /// The text of a file.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether this is a file or a folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty()
            || self.files.contains_key(path)
            || self.under(&format!("{path}/")).next().is_some()
    }

    /// The files whose path begins with `prefix`, in order.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .range(prefix.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files of this extension, in order.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.under("").filter(move |(path, _)| is_kind(path, kind))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        files.into_iter().collect()
    }
}

#[cfg(test)]
impl<'a> FromIterator<(&'a str, &'a str)> for Tree {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(files: I) -> Self {
        let owned = files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned()));
        Self { files: owned.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_without_what_tools_made() {
        let root = std::env::temp_dir().join(format!("usher-xtask-tree-{}", std::process::id()));
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join("target")).unwrap();
        fs::write(root.join("src/lib.rs"), "//! x").unwrap();
        fs::write(root.join("logo.bin"), [0xff, 0xfe]).unwrap();
        fs::write(root.join("target/out.rs"), "x").unwrap();
        let tree = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let files: Vec<_> = tree.under("").collect();
        assert_eq!(files, [("logo.bin", ""), ("src/lib.rs", "//! x")]);
    }

    #[test]
    fn a_folder_is_known_by_its_files() {
        let tree = Tree::from([("docs/adr/0001.md", "# One")]);
        for path in ["docs", "docs/adr/", "docs/adr/0001.md", ""] {
            assert!(tree.has(path), "{path}");
        }
        assert!(!tree.has("docs/a"));
    }
}
