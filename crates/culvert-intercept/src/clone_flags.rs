//! The flags of a clone.

/// The flags of a clone (clone(2)); fork is 0, vfork is CLONE_VM | CLONE_VFORK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneFlags(pub u64);

impl CloneFlags {
    /// Those of vfork: CLONE_VM and CLONE_VFORK.
    pub(crate) const VFORK: Self = Self(0x4100);

    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
    /// CLONE_VM: parent and child share memory.
    pub const fn vm(self) -> bool {
        self.has(0x100)
    }
    /// CLONE_FILES: they share the table of descriptors.
    pub const fn files(self) -> bool {
        self.has(0x400)
    }
    /// CLONE_SIGHAND: they share the table of signal actions.
    pub const fn sighand(self) -> bool {
        self.has(0x800)
    }
    /// CLONE_VFORK: the parent waits until the child has called exec or ended.
    pub const fn vfork(self) -> bool {
        self.has(0x4000)
    }
    /// CLONE_THREAD: the child is a thread of the same process.
    pub const fn thread(self) -> bool {
        self.has(0x1_0000)
    }
    /// Whether the embedder is told: of all but threads that share what threads share.
    pub(crate) const fn is_told(self) -> bool {
        !self.thread() || !self.files()
    }
    /// CLONE_NEWUSER: the child is in a user namespace of its own.
    pub const fn new_user(self) -> bool {
        self.has(0x1000_0000)
    }
    /// CLONE_FS: they share working directory, root and umask.
    pub const fn fs(self) -> bool {
        self.has(0x200)
    }
    /// CLONE_CLEAR_SIGHAND: all handlers of the child are reset (clone3 only).
    pub const fn clear_sighand(self) -> bool {
        self.has(0x1_0000_0000)
    }
}
