//! Mapped files whose bytes a driver has.

pub mod pager;
