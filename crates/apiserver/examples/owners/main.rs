//! Sequences of owners for any server: `owners write SEED STEPS` prints one as JSON, and
//! `owners play KUBECONFIG FILE` plays it and says where the server differs from the model.

#![expect(clippy::print_stdout, reason = "the sequence and the verdict are what it is for")]

mod model;
mod player;
mod sequence;

use std::time::Duration;

use player::Timeouts;
use sequence::Step;

type Failure = Box<dyn std::error::Error>;

/// A real cluster learns of new kinds every 30 seconds.
const TIMEOUTS: Timeouts = Timeouts { step: Duration::from_mins(1), end: Duration::from_secs(5) };

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["write", seed, steps] => write(seed.parse()?, steps.parse()?),
        ["play", kubeconfig, file] => play(kubeconfig, file).await,
        _ => Err("usage: owners \"write SEED STEPS\" or \"play KUBECONFIG FILE\"".into()),
    }
}

fn write(seed: u64, steps: usize) -> Result<(), Failure> {
    let steps = sequence::of_seed(seed, steps).ok_or("cannot make a sequence of the seed")?;
    println!("{}", serde_json::to_string_pretty(&steps)?);
    Ok(())
}

async fn play(kubeconfig: &str, file: &str) -> Result<(), Failure> {
    let steps: Vec<Step> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let client = player::client(&std::fs::read_to_string(kubeconfig)?).await?;
    if let Some(difference) = player::compare(client, &steps, TIMEOUTS).await? {
        return Err(format!("the server differs from the model at {difference}").into());
    }
    println!("{} steps: the server agrees with the model", steps.len());
    Ok(())
}
