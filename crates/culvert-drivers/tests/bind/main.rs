//! The layer `bind`.

mod conformance;
mod rules;
mod tools;
