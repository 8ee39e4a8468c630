//! The driver `overlay`.

mod conformance;
mod kernel;
mod marks;
mod ours;
mod owner;
mod remembered;
#[path = "../scratch/mod.rs"]
mod scratch;
mod steps;
mod tools;
