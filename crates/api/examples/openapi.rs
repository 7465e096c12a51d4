//! Prints the document of the routes, which is committed as `docs/openapi.json`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(usher_api::openapi::text().as_bytes())
}
