//! Which processes run where, as the machine says.

use std::fs;
use std::path::Path;

/// The processes that run in the folders with such names below a folder.
pub(crate) fn running_below(folder: &Path, like: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let number = path.file_name().and_then(|it| it.to_str()?.parse().ok());
        if let (Some(number), Ok(place)) = (number, fs::read_link(path.join("cwd")))
            && place.strip_prefix(folder).is_ok_and(|it| it.to_string_lossy().contains(like))
        {
            found.push(number);
        }
    }
    found
}
