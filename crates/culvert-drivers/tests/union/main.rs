//! The driver `union`.

mod conformance;
mod policies;
mod tools;
