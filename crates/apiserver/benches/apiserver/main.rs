//! What the API server does in a second, with clients and server on the same cores.
//!
//! `cargo xtask bench apiserver` starts the server as a process of its own, durable and in memory,
//! and with `--versus real` also a real Kubernetes, and prints one table; `-- --quick` measures
//! less. `-- --in-process` varies the number of clients, in one process.

#![expect(clippy::expect_used, reason = "a measurement that cannot continue has failed")]
#![expect(clippy::panic, reason = "as above")]
#![expect(clippy::print_stdout, reason = "it prints the measured numbers")]
#![expect(clippy::cast_precision_loss, reason = "the numbers are read by people")]

mod caller;
mod clients;
mod fanout;
mod in_process;
mod load;
mod machine;
mod report;
mod serve;
mod side;
mod thing;
mod versus;
mod watcher;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let value = |wanted: &str| {
        let at = words.iter().position(|word| word == wanted)?;
        words.get(at + 1).map(String::as_str)
    };
    if let Some(kubeconfig) = value(serve::KUBECONFIG) {
        serve::run(kubeconfig, value(serve::FILE)).await;
    } else if has("--in-process") {
        in_process::run(has("--quick")).await;
    } else {
        versus::run(value("--sides"), has("--quick")).await;
    }
}
