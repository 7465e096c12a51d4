//! The repository: where it is, what cargo knows of it, and how cargo is run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::tree::Tree;

/// The working copy this chore runs in.
pub(crate) struct Repo {
    root: PathBuf,
}

/// A member of the workspace, as cargo reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// The package's name.
    pub(crate) name: String,
    /// Its folder, from the root.
    pub(crate) folder: String,
    /// Its direct dependencies.
    pub(crate) needs: Vec<Need>,
    /// The file each of its targets begins with, from the root.
    pub(crate) targets: Vec<String>,
}

/// A direct dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The package's name.
    pub(crate) name: String,
    /// Whether only tests need it.
    pub(crate) dev: bool,
}

impl Repo {
    /// Finds the workspace around the current directory.
    pub(crate) fn find() -> Result<Self, Failure> {
        let located = capture(Command::new("cargo").args([
            "locate-project",
            "--workspace",
            "--message-format=plain",
        ]))?;
        let manifest = Path::new(located.trim());
        let root =
            manifest.parent().ok_or_else(|| Failure::message("cannot find the workspace"))?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// The workspace in this folder.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every file of it.
    pub(crate) fn tree(&self) -> Result<Tree, Failure> {
        Tree::read(&self.root)
            .map_err(|cause| Failure::message(format!("cannot read the working copy: {cause}")))
    }

    /// Its members, in cargo's order.
    pub(crate) fn members(&self) -> Result<Vec<Member>, Failure> {
        let mut cargo = self.command(&["metadata", "--no-deps", "--format-version", "1"]);
        members(&capture(&mut cargo)?)
    }

    /// Runs cargo, showing the command and all it prints; its exit code passes through.
    pub(crate) fn cargo(&self, args: &[&str], env: &[(&str, &str)]) -> Outcome {
        passed(self.cargo_status(args, env)?)
    }

    /// Runs cargo and answers how it ended.
    pub(crate) fn cargo_status(
        &self,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<ExitStatus, Failure> {
        output::say(format_args!("$ {}", shown(args, env)));
        self.command(args)
            .envs(env.iter().copied())
            .status()
            .map_err(|cause| Failure::message(format!("cannot run cargo: {cause}")))
    }

    /// Runs a program that cargo built beside this one, showing the command and all it prints.
    pub(crate) fn built(&self, program: &str, words: &[&str]) -> Outcome {
        let failed = |cause| Failure::message(format!("cannot run {program}: {cause}"));
        let path = std::env::current_exe().map_err(failed)?.with_file_name(program);
        output::say(format_args!("$ {program} {}", words.join(" ")));
        let mut command = Command::new(path);
        passed(command.args(words).current_dir(&self.root).status().map_err(failed)?)
    }

    /// What a program that cargo runs prints.
    pub(crate) fn printed(&self, args: &[&str]) -> Result<String, Failure> {
        capture(&mut self.command(args))
    }

    /// Whether cargo has this subcommand.
    pub(crate) fn has_subcommand(&self, name: &str) -> bool {
        let mut cargo = self.command(&[name, "--version"]);
        cargo.stdout(Stdio::null()).stderr(Stdio::null());
        cargo.status().is_ok_and(|status| status.success())
    }

    /// Cargo with these words, in the root.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(args).current_dir(&self.root);
        // The variables cargo set for this program would make build scripts run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(name);
            }
        }
        cargo
    }
}

/// The command as a person would type it.
pub(crate) fn shown(args: &[&str], env: &[(&str, &str)]) -> String {
    let quoted = |word: &str| {
        if word.contains([' ', '*']) { format!("'{word}'") } else { word.to_owned() }
    };
    env.iter()
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .chain(["cargo".to_owned()])
        .chain(args.iter().map(|word| quoted(word)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn passed(status: ExitStatus) -> Outcome {
    if status.success() {
        return Ok(());
    }
    Err(Failure::Exit(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn capture(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| Failure::message(format!("cannot run cargo: {cause}")))?;
    passed(output.status)?;
    String::from_utf8(output.stdout)
        .map_err(|cause| Failure::message(format!("cannot read what cargo printed: {cause}")))
}

fn members(metadata: &str) -> Result<Vec<Member>, Failure> {
    let bad = |what: &str| Failure::message(format!("cannot read cargo metadata: {what}"));
    let value: Value = serde_json::from_str(metadata).map_err(|cause| bad(&cause.to_string()))?;
    let root = value["workspace_root"].as_str().ok_or_else(|| bad("no workspace_root"))?;
    let packages = value["packages"].as_array().ok_or_else(|| bad("no packages"))?;
    packages
        .iter()
        .map(|package| member(package, root).ok_or_else(|| bad("a package lacks a field")))
        .collect()
}

fn member(package: &Value, root: &str) -> Option<Member> {
    let inside =
        |path: &str| path.strip_prefix(root).map(|rest| rest.trim_start_matches('/').to_owned());
    let manifest = inside(package["manifest_path"].as_str()?)?;
    let needs = package["dependencies"].as_array()?.iter().map(|need| {
        Some(Need { name: need["name"].as_str()?.to_owned(), dev: need["kind"] == "dev" })
    });
    let targets =
        package["targets"].as_array()?.iter().map(|target| inside(target["src_path"].as_str()?));
    Some(Member {
        name: package["name"].as_str()?.to_owned(),
        folder: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
        needs: needs.collect::<Option<_>>()?,
        targets: targets.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_cargo_metadata() {
        let text = r#"{"workspace_root":"/r","packages":[{"name":"usher-domain",
            "manifest_path":"/r/crates/domain/Cargo.toml",
            "dependencies":[{"name":"serde","kind":null},{"name":"insta","kind":"dev"}],
            "targets":[{"src_path":"/r/crates/domain/src/lib.rs"}]}]}"#;
        let need = |name: &str, dev| Need { name: name.into(), dev };
        let expected = Member {
            name: "usher-domain".into(),
            folder: "crates/domain".into(),
            needs: vec![need("serde", false), need("insta", true)],
            targets: vec!["crates/domain/src/lib.rs".into()],
        };
        assert_eq!(members(text), Ok(vec![expected]));
    }

    #[test]
    fn metadata_of_another_shape_is_refused() {
        for text in ["", "{}", r#"{"workspace_root":"/r","packages":[{}]}"#] {
            assert!(matches!(members(text), Err(Failure::Message(_))), "{text}");
        }
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let shown = shown(&["doc", "--file", "a/**"], &[("RUSTDOCFLAGS", "-D warnings")]);
        assert_eq!(shown, "RUSTDOCFLAGS='-D warnings' cargo doc --file 'a/**'");
    }
}
