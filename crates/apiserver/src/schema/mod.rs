//! Structural schemas of custom resources: check, prune, default, validate.
