//! The driver `overlay`.

mod conformance;
mod kernel;
mod marks;
mod ours;
mod owner;
mod steps;
mod tools;
