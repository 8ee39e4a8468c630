//! The driver `union`.

mod beliefs;
mod branches;
mod conformance;
mod links;
mod moves;
mod policies;
#[path = "../scratch/mod.rs"]
mod scratch;
mod tools;
