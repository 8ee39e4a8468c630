//! The life of a process: how it is made, on whose behalf it acts, under which filters, how it
//! ends.

pub mod credentials;
pub mod exit;
pub mod filters;
pub mod fork;
