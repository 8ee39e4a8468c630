//! The memory driver from outside.

mod conformance;
mod damage;
mod fresh;
mod limits;
mod mapped;
mod paths;
mod processes;
mod random;
mod spill;
mod tools;
mod worker;
