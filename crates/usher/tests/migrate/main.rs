//! `usher migrate` with the real binary, on both databases.

#[cfg(test)]
mod ground;
#[cfg(test)]
mod ways;
