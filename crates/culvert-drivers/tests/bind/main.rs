//! The layer `bind`.

mod conformance;
mod rules;
#[path = "../scratch/mod.rs"]
mod scratch;
mod tools;
