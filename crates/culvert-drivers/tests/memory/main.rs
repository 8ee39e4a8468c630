//! The memory driver from outside.

mod conformance;
mod tools;
