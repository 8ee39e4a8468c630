//! Descriptors that are kept out of the way of the program.

use culvert_sys::OwnedFd;

/// A descriptor that is held for a client, perhaps under a number that changes.
pub trait Held: Send + Sync {
    /// Its number now.
    fn number(&self) -> i32;
}

impl Held for OwnedFd {
    fn number(&self) -> i32 {
        self.raw()
    }
}
