//! The driver `union`.

mod branches;
mod conformance;
mod links;
mod moves;
mod policies;
mod tools;
