//! How fast plans over a large fleet are, on this machine.
