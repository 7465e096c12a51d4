//! The table, and what is behind.

use std::time::Duration;

use crate::fanout::WATCHERS;
use crate::load::{CLIENTS, LISTED};
use crate::versus::Figures;

/// One line: what it is, whether more is better, and its value for a server.
struct Line {
    name: String,
    more_is_better: bool,
    value: fn(&Figures) -> Option<f64>,
}

/// A ratio that is wanted.
struct Goal {
    /// Whether both servers are durable, or neither is.
    is_durable: bool,
    creates: f64,
}

const GOALS: [Goal; 2] =
    [Goal { is_durable: true, creates: 10.0 }, Goal { is_durable: false, creates: 5.0 }];
/// The wanted memory of a small object.
const BYTES_PER_OBJECT: f64 = 2000.0;

fn lines(figures: &[Figures]) -> Vec<Line> {
    let objects = figures.iter().find_map(|it| it.filled).map_or(0, |filled| filled.objects);
    let line = |name: String, more_is_better, value| Line { name, more_is_better, value };
    vec![
        line("creates/s".to_owned(), true, |it| Some(it.creates)),
        line("gets/s".to_owned(), true, |it| Some(it.gets)),
        line(format!("lists of {LISTED}/s"), true, |it| Some(it.lists)),
        line(format!("events/s to {WATCHERS} watchers"), true, |it| Some(it.fanout.rate)),
        line(format!("one change to {WATCHERS} watchers, ms"), false, |it| {
            Some(millis(it.fanout.delay))
        }),
        line("watches that the server ended".to_owned(), false, |it| Some(it.fanout.ended as f64)),
        line("start to ready, ms".to_owned(), false, |it| Some(millis(it.start))),
        line("idle memory, MB".to_owned(), false, |it| Some(megabytes(it.idle))),
        line(format!("memory with {objects} objects, MB"), false, |it| {
            it.filled.map(|filled| megabytes(filled.resident))
        }),
        line("memory per object, bytes".to_owned(), false, |it| {
            it.filled.map(|filled| filled.per_object as f64)
        }),
    ]
}

/// Prints one column per server, and one per pair of an embedded server and another.
pub(crate) fn print(figures: &[Figures], sync: Duration) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let size = figures.first().map_or(0, |it| it.list_bytes / LISTED);
    println!();
    println!(
        "{CLIENTS} clients over TLS, server and clients on {cores} cores, {size} bytes per object \
         in a list, one write and sync of 4 KiB: {} us",
        sync.as_micros()
    );
    println!();
    let pairs = pairs(figures);
    let names = figures.iter().map(|side| format!("{:>20}", side.name));
    let ratios = pairs.iter().map(|(own, other)| {
        let both = format!("{} : {}", own.name, other.name);
        format!("{both:>32}")
    });
    println!("{:<36}{}", "", names.chain(ratios).collect::<String>());
    let lines = lines(figures);
    for line in &lines {
        let values = figures.iter().map(|side| format!("{:>20}", shown((line.value)(side))));
        let ratios = pairs.iter().map(|pair| {
            let ratio = line.ratio(*pair).map_or("-".to_owned(), |ratio| format!("{ratio:.1}"));
            format!("{ratio:>32}")
        });
        println!("{:<36}{}", line.name, values.chain(ratios).collect::<String>());
    }
    println!();
    print_goals(figures, &pairs);
    print_behind(&lines, &pairs);
}

fn print_goals(figures: &[Figures], pairs: &[(&Figures, &Figures)]) {
    let reached = |is_so: bool| if is_so { "reached" } else { "missed" };
    for (own, other) in pairs {
        let same = GOALS
            .iter()
            .find(|goal| (own.is_durable, other.is_durable) == (goal.is_durable, goal.is_durable));
        let Some(goal) = same else { continue };
        let ratio = own.creates / other.creates;
        println!(
            "goal {}: creates {} : {} are {ratio:.1}, wanted {}",
            reached(ratio >= goal.creates),
            own.name,
            other.name,
            goal.creates
        );
    }
    for side in figures.iter().filter(|side| side.is_embedded) {
        let Some(filled) = side.filled else { continue };
        let bytes = filled.per_object as f64;
        println!(
            "goal {}: {bytes} bytes of memory per object {}, wanted less than {BYTES_PER_OBJECT}",
            reached(bytes < BYTES_PER_OBJECT),
            side.name
        );
    }
}

/// Names every line in which an embedded server is worse than another.
fn print_behind(lines: &[Line], pairs: &[(&Figures, &Figures)]) {
    for (own, other) in pairs {
        let behind: Vec<&str> = lines
            .iter()
            .filter(|line| line.ratio((own, other)).is_some_and(|ratio| ratio < 1.0))
            .map(|line| line.name.as_str())
            .collect();
        let behind = if behind.is_empty() { "nothing".to_owned() } else { behind.join("; ") };
        println!("{} is behind {} in: {behind}", own.name, other.name);
    }
}

/// Every embedded server with every other one that promises no more than it does.
fn pairs(figures: &[Figures]) -> Vec<(&Figures, &Figures)> {
    let own = figures.iter().filter(|side| side.is_embedded);
    own.flat_map(|own| {
        let others = figures.iter().filter(|side| !side.is_embedded);
        others.filter(|other| own.is_durable || !other.is_durable).map(move |other| (own, other))
    })
    .collect()
}

impl Line {
    /// How many times better the first is.
    fn ratio(&self, (own, other): (&Figures, &Figures)) -> Option<f64> {
        let (own, other) = ((self.value)(own)?, (self.value)(other)?);
        let ratio = if self.more_is_better { own / other } else { other / own };
        // None divided by none.
        (!ratio.is_nan()).then_some(ratio)
    }
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
