//! Server-side apply: field sets, structured merge and who owns what.
