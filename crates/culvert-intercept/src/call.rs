//! Calls of the program's that a handler makes itself, before it answers them.

use crate::{Call, wait};
use core::{ffi::CStr, marker::PhantomData};
use culvert_sys::{Errno, syscall};

impl Call {
    /// Executes it here, as it stands. To the kernel it is the program's, like one that is
    /// forwarded: the kernel checks every address in it, and the program answers for what it does.
    #[inline]
    pub fn execute(&self) -> Result<usize, Errno> {
        // SAFETY: the program's own call, which it may make without us at any time.
        unsafe { syscall::call(self.number, self.args) }
    }

    /// The same of one that may wait: [`wait::RESTART`] when a signal has ended that. What it says
    /// of locks is [`wait::interruptible`]'s.
    #[inline]
    pub fn wait(&self) -> Result<usize, Errno> {
        // SAFETY: as in `execute`.
        unsafe { wait::call(self.number, self.args) }
    }

    /// The call, to be made with other arguments.
    #[inline]
    pub fn replacing<'a>(&self) -> Replaced<'a> {
        Replaced(Self { ..*self }, PhantomData)
    }
}

/// A call of the program's in which some arguments are ours. Memory of ours in it is borrowed until
/// it is made.
#[derive(Debug)]
pub struct Replaced<'a>(Call, PhantomData<&'a mut [u8]>);

impl<'a> Replaced<'a> {
    /// Argument `at` is another number, or another address of the program's.
    #[inline]
    pub fn word(mut self, at: usize, word: usize) -> Self {
        self.0.args[at] = word;
        self
    }

    /// Argument `at`, a path, is ours.
    #[inline]
    pub fn path(mut self, at: usize, path: &'a CStr) -> Self {
        self.0.args[at] = path.as_ptr() as usize;
        self
    }

    /// Argument `at`, which the kernel reads, is memory of ours.
    ///
    /// # Safety
    /// By its other arguments, the call reads no more of it than there is.
    #[inline]
    pub unsafe fn bytes(mut self, at: usize, bytes: &'a [u8]) -> Self {
        self.0.args[at] = bytes.as_ptr() as usize;
        self
    }

    /// Argument `at`, which the kernel writes, is memory of ours.
    ///
    /// # Safety
    /// By its other arguments, the call writes no more of it than there is.
    #[inline]
    pub unsafe fn room(mut self, at: usize, bytes: &'a mut [u8]) -> Self {
        self.0.args[at] = bytes.as_mut_ptr() as usize;
        self
    }

    /// [`Call::execute`].
    #[inline]
    pub fn execute(self) -> Result<usize, Errno> {
        self.0.execute()
    }

    /// [`Call::wait`].
    #[inline]
    pub fn wait(self) -> Result<usize, Errno> {
        self.0.wait()
    }
}
