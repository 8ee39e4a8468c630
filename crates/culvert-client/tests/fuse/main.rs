//! The driver with servers at the other end: drivers of ours behind our own server, servers of
//! others, and one that is not to be trusted.

mod caches;
mod channel;
mod conformance;
mod hostile;
mod large;
mod names;
mod ours;
mod pages;
mod requests;
mod servers;
mod stored;
