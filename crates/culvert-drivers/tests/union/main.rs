//! The driver `union`.

mod conformance;
mod links;
mod policies;
mod tools;
