//! Proof of life: a description that is open only by a mapping, and holds a lock in the name of its
//! process.
//!
//! The kernel drops an OFD lock with the last reference on its description (`locks_remove_file`,
//! fs/locks.c). A descriptor would hold one for as long as *anybody* has the table that it is in,
//! and that may be another process too (clone(2), `CLONE_FILES`). The mapping ends with the memory
//! of its process, by exec and by kill -9, and children of fork do not get it (`MADV_DONTFORK`).

use crate::OwnedFd;
use culvert::Errno;
use culvert_sys::PAGE;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Advice, Mapping, Of};

/// The page that keeps the description open. Nobody touches it; it can not be.
#[derive(Debug)]
pub struct Proof(Mapping);

impl Proof {
    /// Of the description in `descriptor`, which need not stay open.
    pub fn of(descriptor: &OwnedFd) -> Result<Self, Errno> {
        let page = Mapping::new(Of::file(descriptor), PAGE, Protection::empty())?;
        page.advise(Advice::DONTFORK)?;
        Ok(Self(page))
    }

    /// This is the child of a fork, where the page is not.
    pub fn is_the_parents(self) {
        self.0.leak();
    }
}
