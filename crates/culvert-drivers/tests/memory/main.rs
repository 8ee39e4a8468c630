//! The memory driver from outside.

mod conformance;
mod damage;
mod limits;
mod processes;
mod random;
mod tools;
mod worker;
