//! The driver `union`.

mod conformance;
mod links;
mod moves;
mod policies;
mod tools;
