//! Runs simulated worlds and prints what they met.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use usher_sim::bench::BENCHES;
use usher_sim::run::{self, Range, WORLDS, World};

/// Run simulated worlds and report what goes wrong
#[derive(Parser)]
#[command(name = "usher-sim", version)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    runs: Options,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure the rules, the loop and whole runs
    Bench {
        /// Measure this
        #[arg(default_value = "kernel", value_parser = BENCHES.map(|it| it.0))]
        name: String,
    },
}

#[derive(Args)]
struct Options {
    /// Live in this world, else in every one
    #[arg(long, value_parser = WORLDS.map(|it| it.name))]
    world: Option<String>,
    /// Run this many seeds
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    seeds: u64,
    /// Begin with this seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Run this one seed
    #[arg(long, value_name = "N", requires = "world")]
    seed: Option<u64>,
    /// Print every step of the seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Break the rules on purpose, one by one, and name what notices
    #[arg(long)]
    breakages: bool,
}

fn main() -> io::Result<ExitCode> {
    let Cli { verb, runs } = Cli::parse();
    let mut out = io::stdout().lock();
    let good = match verb {
        Some(Verb::Bench { name }) => {
            for (_, table) in BENCHES.iter().filter(|it| it.0 == name) {
                write!(out, "{}", table())?;
            }
            true
        }
        None => run_worlds(&runs, &mut out)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_worlds(runs: &Options, out: &mut impl io::Write) -> io::Result<bool> {
    let world = runs.world.as_deref().and_then(World::named);
    let mut good = true;
    for world in world.map_or(WORLDS.to_vec(), |it| vec![it]) {
        good &= run_world(world, runs, out)?;
    }
    Ok(good)
}

fn run_world(world: World, runs: &Options, out: &mut impl io::Write) -> io::Result<bool> {
    let Options { seeds, from, seed, trace, breakages, .. } = runs;
    if *breakages {
        return run::breakages(world, out);
    }
    if let Some(seed) = seed {
        return run::one(world, *seed, *trace, out);
    }
    let step = (seeds / 10).next_multiple_of(run::SHARE).max(run::SHARE);
    let progress = |run_worlds: u64| {
        if seeds > &step && run_worlds.is_multiple_of(step) && run_worlds < *seeds {
            // Progress is a courtesy; a closed stderr must not end the run.
            let _ = writeln!(io::stderr(), "{}: {run_worlds} of {seeds} seeds", world.name);
        }
    };
    run::many(Range { world, from: *from, runs: *seeds }, &progress, out)
}
