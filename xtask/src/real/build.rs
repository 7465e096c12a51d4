//! Builds the programs of the lane with Go, once for each version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::peers::{self, MODULES, Module, Place};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Two compilers at once: the linker of the API server needs 2 GB by itself.
const AT_ONCE: &str = "-p=2";

/// Builds every program that is missing or of another version.
pub(super) fn missing(place: &Place) -> Outcome {
    let cache = match place {
        Place::Ready(folder) => return peers::complete(folder),
        Place::Cache(folder) => folder,
    };
    let programs = place.programs();
    fs::create_dir_all(&programs).map_err(|cause| cannot("create", &programs, &cause))?;
    // Two working copies may share the cache.
    let path = cache.join("lock");
    let lock = File::create(&path).map_err(|cause| cannot("create", &path, &cause))?;
    lock.lock().map_err(|cause| cannot("lock", &path, &cause))?;
    for module in &MODULES {
        if !is_built(module, &programs) {
            build(module, cache, &programs)?;
        }
    }
    Ok(())
}

fn is_built(module: &Module, programs: &Path) -> bool {
    let version = fs::read_to_string(stamp(module, programs)).unwrap_or_default();
    let all = || module.programs.iter().all(|program| programs.join(program.name).is_file());
    version == module.version && all()
}

/// The file that says which version the programs of a module are of.
fn stamp(module: &Module, programs: &Path) -> PathBuf {
    programs.join(format!("{}.version", module.name))
}

fn build(module: &Module, cache: &Path, programs: &Path) -> Outcome {
    let folder = cache.join("build").join(module.name);
    let go = Go { folder: &folder };
    Go::is_there()?;
    output::say(format_args!(
        "building {} {} in {}: this takes minutes, once",
        module.name,
        module.version,
        cache.display()
    ));
    // What an interrupted build left is of no use.
    let _absent = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|cause| cannot("create", &folder, &cause))?;
    go.run(&["mod", "init", "peers"])?;
    for replaced in go.replaced(module)? {
        go.run(&["mod", "edit", "-replace", &replaced])?;
    }
    let versioned: Vec<String> = module
        .programs
        .iter()
        .map(|program| format!("{}@{}", program.package, module.version))
        .collect();
    let versioned: Vec<&str> = versioned.iter().map(String::as_str).collect();
    go.run(&[&["get", "-tool"], versioned.as_slice()].concat())?;
    let linked: Vec<String> = module.linked.iter().map(|it| format!("-X {it}")).collect();
    let linked = format!("-s -w {}", linked.join(" "));
    for program in module.programs {
        let target = programs.join(program.name);
        let target = target.to_string_lossy();
        go.run(&["build", AT_ONCE, "-ldflags", &linked, "-o", &target, program.package])?;
    }
    let stamp = stamp(module, programs);
    fs::write(&stamp, module.version).map_err(|cause| cannot("write", &stamp, &cause))
}

/// Go in the folder of one module.
struct Go<'a> {
    folder: &'a Path,
}

impl Go<'_> {
    fn is_there() -> Outcome {
        let mut go = Command::new("go");
        go.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
        if go.status().is_ok_and(|status| status.success()) {
            return Ok(());
        }
        let sentence = "building the peers needs Go: install it, or name a folder of ready \
            programs with USHER_PEERS_DIR";
        Err(Failure::message(sentence))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut go = Command::new("go");
        go.args(words).current_dir(self.folder);
        go.env("GOTOOLCHAIN", "local");
        go.env("GOFLAGS", "-mod=mod -buildvcs=false");
        go.env("CGO_ENABLED", "0");
        go
    }

    fn run(&self, words: &[&str]) -> Outcome {
        output::say(format_args!("$ go {}", words.join(" ")));
        let status = self.command(words).status();
        let status = status.map_err(|cause| Failure::message(format!("cannot run go: {cause}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::message(format!("go {} failed", words.first().unwrap_or(&""))))
    }

    /// The modules that `go.mod` replaces by folders of its repository, each with its version.
    fn replaced(&self, module: &Module) -> Result<Vec<String>, Failure> {
        let Some(version) = module.staging else { return Ok(Vec::new()) };
        let failed = |cause: String| {
            Failure::message(format!("cannot read the go.mod of {}: {cause}", module.name))
        };
        let wanted = format!("{}@{}", module.path, module.version);
        let printed = self.command(&["mod", "download", "-json", &wanted]).output();
        let printed = printed.map_err(|cause| failed(cause.to_string()))?;
        let printed: Value =
            serde_json::from_slice(&printed.stdout).map_err(|cause| failed(cause.to_string()))?;
        let path = printed["GoMod"].as_str().ok_or_else(|| failed("no path".to_owned()))?;
        let text = fs::read_to_string(path).map_err(|cause| failed(cause.to_string()))?;
        Ok(replacements(&text, version))
    }
}

/// `MODULE=MODULE@VERSION` for every line `MODULE => ./staging/…`.
fn replacements(text: &str, version: &str) -> Vec<String> {
    let staged = text.lines().filter_map(|line| {
        let (left, right) = line.split_once("=>")?;
        right.trim().starts_with("./staging").then(|| left.trim().trim_start_matches("replace "))
    });
    staged.map(|name| format!("{name}={name}@{version}")).collect()
}

fn cannot(verb: &str, path: &Path, cause: &std::io::Error) -> Failure {
    Failure::message(format!("cannot {verb} {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_replaced_by_folders_get_the_version_that_belongs_to_the_program() {
        let text = "require (\n\tk8s.io/api v0.0.0\n)\nreplace (\n\
            \tk8s.io/api => ./staging/src/k8s.io/api\n\tother => ../other\n)\n";
        assert_eq!(replacements(text, "v0.36.4"), ["k8s.io/api=k8s.io/api@v0.36.4"]);
    }
}
