//! `usher migrate` with the real binary, on both databases.

#[cfg(test)]
mod directions;
#[cfg(test)]
mod test_env;
