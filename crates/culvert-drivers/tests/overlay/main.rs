//! The driver `overlay`.

mod conformance;
mod kernel;
mod marks;
mod ours;
mod owner;
mod remembered;
mod steps;
mod tools;
