//! Selectors of labels and fields, as text and as a predicate.
