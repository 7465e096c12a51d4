//! Runs simulated lives.

use std::io::Write as _;

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(10);
    let mut out = std::io::stdout();
    let mut cover = usher_sim::coverage::Coverage::default();
    let mut wrong = 0;
    for seed in 0..seeds {
        let v = usher_sim::life::live(seed, None, false);
        cover.add(&v.coverage);
        if let Some(w) = v.wrong {
            wrong += 1;
            if wrong < 30 {
                let _ = writeln!(out, "seed {seed}: {} {}", w.checker.as_str(), w.what);
            }
        }
    }
    let _ = writeln!(out, "{}", cover.table(seeds));
    let _ = writeln!(out, "{seeds} lives, {wrong} wrong");
}
