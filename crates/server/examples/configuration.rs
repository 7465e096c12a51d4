//! Prints the reference of all settings, which is committed as `docs/configuration.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(usher_server::config::manual::document().as_bytes())
}
