//! The same commands of kubectl against both servers: same exit codes, same output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::commands::{DEVIATIONS, STEPS, Step};
use crate::say;
use crate::symbols::with_object;

/// Names the kubectl of the real server's version; beside it the one on the path is compared.
const OWN: &str = "USHER_REAL_KUBECTL";
const NAMESPACE: &str = "diff-kubectl";
/// What stands for a line that did not come.
const NO_LINE: &str = "no line ";
/// How long the lines of a watch may take on a loaded computer.
const PATIENCE: Duration = Duration::from_secs(40);

/// The rules: what each server chooses itself.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let time = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z";
    [
        (uid, "<uid>"),
        (time, "<time>"),
        (r#"(resourceVersion[\\"]*: ?[\\"]*)[0-9]+"#, "$1<rv>"),
        (r"(Resource Version: +)[0-9]+", "$1<rv>"),
        (r"https://127\.0\.0\.1:[0-9]+", "<server>"),
        (r"(?m) {2,}([0-9]+[smhd])+( {2,}|$)", " <age> "),
        (r"/tmp/(LIVE|MERGED)-[0-9]+", "/tmp/$1"),
        (r"20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]+ [+-][0-9]{4}", "<time>"),
        (r"kubectl-edit-[0-9]+", "kubectl-edit"),
        (r"eyJ[-_.A-Za-z0-9]+", "<token>"),
        ("\u{1b}\\[[0-9;]*m", ""),
        // What the client itself logs of its watches.
        (r"(?m)^[WIE][0-9]{4} .*\n", ""),
    ]
    .map(|(rule, by)| (Regex::new(rule).expect("a pattern"), by))
    .into()
});

/// The program and the kubeconfig of one server.
struct Kubectl<'a> {
    program: &'a Path,
    kubeconfig: &'a str,
    home: TempDir,
}

/// Compares every command; returns how many differ.
pub(crate) fn compare(real: &str, embedded: &str) -> usize {
    let own = std::env::var_os(OWN).map(PathBuf::from);
    let programs = [Some(PathBuf::from("kubectl")), own].into_iter().flatten();
    let mut differing = 0;
    for program in programs {
        let there = Command::new(&program).args(["version", "--client"]).output();
        let Some(there) = there.ok().filter(|there| there.status.success()) else {
            say(&format!("skipped: there is no {}", program.display()));
            continue;
        };
        let version = String::from_utf8_lossy(&there.stdout).into_owned();
        let version = version.lines().next().unwrap_or_default().to_owned();
        let on = |kubeconfig| Kubectl {
            program: &program,
            kubeconfig,
            home: tempfile::tempdir().expect("a folder"),
        };
        let found = steps(&on(real), &on(embedded));
        say(&format!("{} commands, {found} differ: {version}", STEPS.len()));
        differing += found;
    }
    differing
}

fn steps(real: &Kubectl<'_>, embedded: &Kubectl<'_>) -> usize {
    for kubectl in [real, embedded] {
        kubectl.run("delete namespace diff-kubectl --ignore-not-found", "");
        kubectl.run("create namespace diff-kubectl", "");
        kubectl.run("wait --for=create sa/default --timeout=60s", "");
    }
    let mut differing = 0;
    for step in STEPS {
        let (expected, actual) = std::thread::scope(|threads| {
            let expected = threads.spawn(|| real.step(step));
            let actual = embedded.step(step);
            (expected.join().expect("a step"), actual)
        });
        let words = step.words();
        let deviates = DEVIATIONS.iter().find(|(known, _)| *known == words);
        if let Some((_, reason)) = deviates.filter(|_| expected == actual) {
            differing += 1;
            say(&format!("--- kubectl {words}\nno longer deviates: {reason}"));
        } else if (expected != actual || expected.contains(NO_LINE)) && deviates.is_none() {
            differing += 1;
            say(&format!("--- kubectl {words}\nreal:\n{expected}\nembedded:\n{actual}"));
        }
    }
    for kubectl in [real, embedded] {
        kubectl.run("delete namespace diff-kubectl", "");
    }
    differing
}

impl Step {
    fn words(&self) -> &'static str {
        match self {
            Self::Run(words, _) | Self::Edit(words, _) | Self::Watch(words, ..) => words,
        }
    }
}

impl Kubectl<'_> {
    /// What a step prints, after the rules.
    fn step(&self, step: &Step) -> String {
        match step {
            Step::Run(words, input) if input.contains("${uid}") => {
                let owner = self.command("get cm o -o jsonpath={.metadata.uid}");
                let uid = String::from_utf8(ended(spawned(owner), "").stdout).expect("a uid");
                self.run(words, &input.replace("${uid}", &uid))
            }
            Step::Run(words, input) => self.run(words, input),
            Step::Edit(words, editor) => {
                let mut command = self.command(words);
                command.env("KUBE_EDITOR", editor);
                shown(&ended(spawned(command), ""))
            }
            Step::Watch(words, first, others, all) => self.watch(words, (*first, *all), others),
        }
    }

    /// The exit code and the output of a command, after the rules.
    fn run(&self, words: &str, input: &str) -> String {
        let shown = shown(&ended(spawned(self.command(words)), input));
        if words.starts_with("get --raw") {
            return sorted(&shown);
        }
        // What the built-in kinds are for is said in other words.
        let built_in = words.starts_with("explain") && !words.contains("widget.");
        if built_in { fields(&shown) } else { shown }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(self.program);
        command.args(["--kubeconfig", self.kubeconfig]).args(words(line));
        if !line.contains(" -n ") {
            command.args(["--namespace", NAMESPACE]);
        }
        command.env("HOME", self.home.path()).env_remove("KUBECONFIG");
        command
    }

    /// The lines of a watch: after the first ones come the other commands, after all of them it is
    /// stopped.
    fn watch(&self, words: &str, (first, all): (usize, usize), others: &[&str]) -> String {
        let mut watch = spawned(self.command(words));
        let lines = lines(&mut watch);
        let mut text: Vec<String> = Vec::new();
        let mut until = |count: usize| {
            while text.len() < count {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => text.push(line),
                    Err(_) => return text.push(format!("{NO_LINE}{} of {count}", text.len() + 1)),
                }
            }
        };
        until(first);
        for other in others {
            self.run(other, "");
        }
        until(all);
        watch.kill().expect("a running watch");
        watch.wait().expect("its end");
        ruled(&text.join("\n"))
    }
}

/// A command line in words.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("a word").push(other),
        }
    }
    words
}

fn spawned(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("kubectl")
}

fn ended(mut child: Child, input: &str) -> Output {
    // A command that fails before it reads has closed its input.
    let _closed = child.stdin.take().expect("its input").write_all(input.as_bytes());
    child.wait_with_output().expect("its end")
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    ruled(&format!("exit {:?}\n{out}{errors}", output.status.code()))
}

fn ruled(text: &str) -> String {
    let rule = |text: String, (rule, by): &(Regex, &str)| rule.replace_all(&text, *by).into_owned();
    let text = RULES.iter().fold(with_object(text, |object| object), rule);
    // Several errors have the order of a Go map.
    let mut errors: Vec<&str> = text.lines().filter(|line| line.starts_with("* ")).collect();
    errors.sort_unstable();
    let mut errors = errors.into_iter();
    let line = |line| if str::starts_with(line, "* ") { errors.next() } else { Some(line) };
    text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// A document of JSON after an exit code, by key; resources have the order of a Go map.
fn sorted(text: &str) -> String {
    let Some((code, document)) = text.split_once('\n') else { return text.to_owned() };
    let Ok(mut document) = serde_json::from_str::<Value>(document) else { return text.to_owned() };
    if let Some(rows) = document.get_mut("resources").and_then(Value::as_array_mut) {
        rows.sort_by_cached_key(|row| row["name"].to_string());
    }
    format!("{code}\n{document:#}")
}

/// The lines that a process prints, as they come.
fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take().expect("its output");
    let mut errors = child.stderr.take().expect("its errors");
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        let mut rest = String::new();
        if errors.read_to_string(&mut rest).is_ok() && !rest.is_empty() {
            let _closed = sender.send(rest);
        }
    });
    receiver
}

/// The names and types of an explanation: the embedded server says in its own words what they are.
fn fields(text: &str) -> String {
    let heads = ["exit", "GROUP", "KIND", "VERSION", "FIELD", "error"];
    let kept = text
        .lines()
        .filter(|line| heads.iter().any(|head| line.starts_with(head)) || line.contains("\t<"));
    kept.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(
            words("get cm -l 'l in (a,b)' -o name"),
            ["get", "cm", "-l", "l in (a,b)", "-o", "name"]
        );
    }
}
