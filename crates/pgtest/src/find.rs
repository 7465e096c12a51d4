//! Finds the PostgreSQL programs and the user to run them as.

use std::path::{Path, PathBuf};

/// Searched in addition to PATH.
const FOLDERS: [&str; 2] = ["/usr/local/bin", "/usr/local/pgsql/bin"];
/// Where distributions install one folder per version.
const VERSIONED: &str = "/usr/lib/postgresql";
/// Users to run the server as when the tests run as root, in order of preference.
const USERS: [&str; 2] = ["postgres", "nobody"];

#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) initdb: PathBuf,
    pub(crate) postgres: PathBuf,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The URL of an external server.
pub(crate) fn external_url() -> Option<String> {
    variable("USHER_TEST_POSTGRES_URL")
}

/// Whether a missing server is a failure.
pub(crate) fn is_required() -> bool {
    variable("USHER_TEST_POSTGRES").as_deref() == Some("required")
}

#[expect(clippy::disallowed_methods, reason = "tests have no Config")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The programs from PATH or the usual folders, the newest version first.
pub(crate) fn programs() -> Option<Programs> {
    folders().iter().find_map(|folder| {
        let (initdb, postgres) = (folder.join("initdb"), folder.join("postgres"));
        (initdb.is_file() && postgres.is_file()).then_some(Programs { initdb, postgres })
    })
}

/// Another program of PostgreSQL, preferably from the server's own folder.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let beside = programs().and_then(|it| it.postgres.parent().map(PathBuf::from));
    beside.into_iter().chain(folders()).map(|it| it.join(name)).find(|it| it.is_file())
}

fn folders() -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(FOLDERS.map(PathBuf::from));
    folders.extend(versions());
    folders
}

fn versions() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(VERSIONED) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|it| {
            let version = it.file_name().to_str()?.parse().ok()?;
            Some((version, it.path().join("bin")))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// The user to run PostgreSQL as: `None` unless we are root, as which PostgreSQL refuses to start.
pub(crate) fn plain_user() -> Option<User> {
    let owner = |path: &str| std::fs::metadata(Path::new(path)).ok().map(|it| uid_of(&it));
    if owner("/proc/self") != Some(0) {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    USERS.iter().find_map(|name| find_user(&users, name))
}

fn uid_of(metadata: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(metadata)
}

fn find_user(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(User { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\nnobodyelse:x:7:8:::\nnobody:x:65534:65533:::\n";
        let user = find_user(users, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65534, 65533));
        assert!(find_user(users, "postgres").is_none());
    }
}
