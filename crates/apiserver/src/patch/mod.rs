//! Patches: JSON patch as Go reads it, merge patch, strategic merge of metadata.
