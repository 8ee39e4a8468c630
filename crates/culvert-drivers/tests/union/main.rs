//! The driver `union`.

mod beliefs;
mod branches;
mod conformance;
mod links;
mod moves;
mod policies;
mod tools;
