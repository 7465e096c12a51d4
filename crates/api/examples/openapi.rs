//! Writes the document of the routes to `docs/openapi.json`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    std::fs::write(path, usher_api::openapi::text())
}
