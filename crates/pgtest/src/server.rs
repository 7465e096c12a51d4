//! The server and the shell that supervises it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use crate::find::{self, Programs, User};

/// The parent of the data directories: a socket path must be short, and readable to other users.
const ROOT: &str = "/tmp";
/// The prefix of their names; the process id follows.
const PREFIX: &str = "usher-pgtest-";
/// The owner of the databases.
const OWNER: &str = "usher";
/// How long a server may take to accept connections.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);
/// The settings of every server; tests need no durability.
const SETTINGS: [&str; 5] = [
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=400",
    "shared_buffers=64MB",
];
/// Runs the server, stops and starts it on command, and ends it when its stdin closes.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM
postgres=$1; dir=$2; shift 2
start() { "$postgres" -D "$dir/data" -k "$dir" "$@" >>"$dir/log" 2>&1 </dev/null & server=$!; }
start "$@"
while read -r word; do
    case $word in
        stop) kill -QUIT "$server"; wait "$server" ;;
        start) start "$@" ;;
    esac
    echo done
done
kill -QUIT "$server" 2>/dev/null
wait "$server"
rm -rf "$dir"
"#;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A running server.
#[derive(Clone, Debug)]
pub struct Server {
    address: Address,
    /// `None` for an external server.
    supervisor: Option<Arc<Mutex<Supervisor>>>,
}

#[derive(Debug)]
struct Supervisor {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Clone, Debug)]
enum Address {
    Socket(PathBuf),
    /// Text before and after the name of the database.
    Url(String, String),
}

impl Server {
    /// Starts a server with additional settings; `None` if PostgreSQL is missing.
    ///
    /// # Panics
    /// If there is one and it cannot be set up.
    pub fn start(settings: &[&str]) -> Option<Self> {
        let programs = find::programs()?;
        remove_leftovers();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = Path::new(ROOT).join(format!("{PREFIX}{}-{number}", std::process::id()));
        let user = find::plain_user();
        match launch(&programs, &dir, user, settings) {
            Ok(supervisor) => Some(Self {
                address: Address::Socket(dir),
                supervisor: Some(Arc::new(Mutex::new(supervisor))),
            }),
            Err(error) => panic!("failed to start PostgreSQL in \"{}\": {error}", dir.display()),
        }
    }

    /// An external server, by the URL of one of its databases.
    pub(crate) fn external(url: String) -> Self {
        let (place, options) = match url.split_once('?') {
            Some((place, options)) => (place.to_owned(), format!("?{options}")),
            None => (url, String::new()),
        };
        let base = place.rsplit_once('/').map_or(place.as_str(), |(base, _)| base);
        Self { address: Address::Url(format!("{base}/"), options), supervisor: None }
    }

    /// The connection URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        match &self.address {
            Address::Socket(dir) => {
                format!("postgres://{OWNER}@localhost/{database}?host={}", dir.display())
            }
            Address::Url(before, after) => format!("{before}{database}{after}"),
        }
    }

    /// Kills the server as a crash would and waits for its exit.
    pub fn stop(&self) {
        self.send("stop");
    }

    /// Starts it again.
    pub fn resume(&self) {
        self.send("start");
    }

    fn send(&self, word: &str) {
        if let Some(supervisor) = &self.supervisor {
            let mut supervisor =
                supervisor.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = writeln!(supervisor.commands, "{word}");
            let _ = supervisor.answers.read_line(&mut String::new());
        }
    }

    /// A connection as the server's owner, as soon as it accepts one.
    ///
    /// # Panics
    /// If it accepts none in time.
    pub async fn connect(&self) -> PgConnection {
        let url = self.url("postgres");
        let begun = tokio::time::Instant::now();
        loop {
            match PgConnection::connect(&url).await {
                Ok(connection) => return connection,
                Err(error) if begun.elapsed() > CONNECT_TIMEOUT => {
                    panic!("failed to connect to PostgreSQL: {error}")
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

fn launch(
    programs: &Programs,
    dir: &Path,
    user: Option<User>,
    settings: &[&str],
) -> std::io::Result<Supervisor> {
    std::fs::create_dir(dir)?;
    if let Some(user) = user {
        std::os::unix::fs::chown(dir, Some(user.uid), Some(user.gid))?;
    }
    let initdb = become_user(Command::new(&programs.initdb), user)
        .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", OWNER])
        .arg("--pgdata")
        .arg(dir.join("data"))
        .current_dir(dir)
        .output()?;
    if !initdb.status.success() {
        return Err(std::io::Error::other(String::from_utf8_lossy(&initdb.stderr).into_owned()));
    }
    let options = SETTINGS.iter().chain(settings).flat_map(|setting| ["-c", setting]);
    let mut supervisor = become_user(Command::new("sh"), user)
        .args(["-c", SUPERVISOR, "supervisor"])
        .arg(&programs.postgres)
        .arg(dir)
        .args(options)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (Some(commands), Some(answers)) = (supervisor.stdin.take(), supervisor.stdout.take())
    else {
        return Err(std::io::Error::other("the supervisor has no pipes"));
    };
    Ok(Supervisor { commands, answers: BufReader::new(answers) })
}

fn become_user(mut command: Command, user: Option<User>) -> Command {
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// Removes the directories of processes that were killed together with their supervisor.
fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir(ROOT) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|it| it.strip_prefix(PREFIX)?.split('-').next());
        let Some(process) = process else { continue };
        let lives = |process: &str| Path::new("/proc").join(process).exists();
        let pid_file = entry.path().join("data/postmaster.pid");
        let pids = std::fs::read_to_string(pid_file).unwrap_or_default();
        let runs = pids.lines().next().is_some_and(|pid| lives(pid.trim()));
        if !lives(process) && !runs {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
