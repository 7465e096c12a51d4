//! The client's verbs against a server that answers from a list.

mod server;
mod verbs;
