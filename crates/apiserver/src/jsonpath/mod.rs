//! JSONPath.
