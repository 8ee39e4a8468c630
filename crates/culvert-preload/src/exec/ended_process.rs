//! A process that has ended: the kernel knows its number until it is waited for.

use culvert::Errno;
use culvert_run::task::helper::{self, Blocked};

/// A child that did nothing and has ended. It is waited for when this is dropped.
pub struct EndedProcess {
    id: usize,
    _blocked: Blocked,
}

impl EndedProcess {
    /// Makes one. All signals are blocked as long as it is there.
    ///
    /// # Errors
    /// Of clone(2).
    pub fn new() -> Result<Self, Errno> {
        let blocked = Blocked::all();
        // Of words of 16 bytes, to which a stack is aligned.
        let mut stack = [0u128; 64];
        let top = stack.as_mut_ptr_range().end as usize;
        // SAFETY: the child makes one system call, exit(2), on a stack of its own.
        let id = unsafe { helper::start(top, nothing, &mut ()) }?;
        Ok(Self {
            id,
            _blocked: blocked,
        })
    }

    /// Its number.
    pub fn id(&self) -> usize {
        self.id
    }
}

extern "C" fn nothing(_: &mut ()) -> ! {
    helper::end()
}

impl Drop for EndedProcess {
    fn drop(&mut self) {
        helper::reap(self.id);
    }
}
