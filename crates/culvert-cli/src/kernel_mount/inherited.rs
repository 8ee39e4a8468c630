//! Descriptors that the command was given and a server has no use for: a pipe among them would be
//! open, and its reader would wait, as long as the mount is there.

use culvert_server::handover::open_descriptors;
use culvert_sys::OwnedFd;

/// Those that were open when the command began, but for the standard ones.
#[derive(Debug)]
pub struct Inherited(Vec<i32>);

impl Inherited {
    /// What is open now.
    pub fn now() -> Self {
        const STANDARD: i32 = 2;
        let all = open_descriptors().into_iter();
        Self(all.filter(|number| *number > STANDARD).collect())
    }

    /// Whether `number` is one of them.
    pub fn has(&self, number: i32) -> bool {
        self.0.contains(&number)
    }

    /// Closes them, once the source is open, which may have been named by one.
    pub fn close(&self) {
        for number in &self.0 {
            // This program has not opened it, and nothing in it refers to it.
            drop(OwnedFd::from_raw(*number));
        }
    }
}
