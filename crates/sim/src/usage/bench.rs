//! How fast admission and the graph of Usages are, on this machine.

/// Measures and prints a table.
pub fn table() -> String {
    String::new()
}
