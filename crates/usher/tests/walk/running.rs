//! The processes of this machine, by working directory.

use std::fs;
use std::path::Path;

/// The settings file of an agent, with the id of its resource.
const SETTINGS: &str = "agent.json";

/// The processes whose working directory is below a folder, by folder name or resource.
pub(crate) fn running_below(folder: &Path, like: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let number = path.file_name().and_then(|it| it.to_str()?.parse().ok());
        if let (Some(number), Ok(place)) = (number, fs::read_link(path.join("cwd")))
            && let Ok(below) = place.strip_prefix(folder)
        {
            let settings = || fs::read_to_string(path.join("cwd").join(SETTINGS));
            let is_named = below.to_string_lossy().contains(like);
            if is_named || settings().is_ok_and(|it| it.contains(like)) {
                found.push(number);
            }
        }
    }
    found
}
