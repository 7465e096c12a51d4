//! Runs simulated lives and tells what they met.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use usher_sim::{bench, run};

/// Live simulated lives and see whether anything goes wrong
#[derive(Parser)]
#[command(name = "usher-sim", version)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    lives: Lives,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure the rules, the loop and whole lives
    Bench,
}

#[derive(Args)]
struct Lives {
    /// Live in this world
    #[arg(long, default_value = "broker", value_parser = ["broker"])]
    world: String,
    /// Live this many lives
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    seeds: u64,
    /// Begin with this seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Live the one life of this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Tell the life as a story
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Break the rules on purpose, one by one, and name what notices
    #[arg(long)]
    breakages: bool,
}

fn main() -> io::Result<ExitCode> {
    let Cli { verb, lives } = Cli::parse();
    let mut out = io::stdout().lock();
    let good = match verb {
        Some(Verb::Bench) => {
            write!(out, "{}", bench::table())?;
            true
        }
        None => lived(&lives, &mut out)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lived(lives: &Lives, out: &mut impl io::Write) -> io::Result<bool> {
    let Lives { world, seeds, from, seed, trace, breakages } = lives;
    if *breakages {
        return run::breakages(out);
    }
    if let Some(seed) = seed {
        return run::one(*seed, *trace, out);
    }
    run::many(world, *from, *seeds, out)
}
