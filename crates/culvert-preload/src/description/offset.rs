//! The offset: here while the description is private, the kernel's once it is shared
//! (descriptors/offset.rs).

use super::turns::Turns;
use super::{Description, Object};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use culvert::Errno;
use culvert_cache::follow;
use culvert_run::{
    node_locks::{Lent, NodeLock},
    node_shares::{Share, Together},
    task,
};
use culvert_sys::sync::Mutex;

/// The offset of a private description. While the process has one thread its locks cost nothing.
#[derive(Default)]
pub struct Offset {
    pub(crate) turns: Turns,
    /// The block of the thread whose turn it is; 0: nobody's.
    pub(crate) owner: AtomicUsize,
    /// Changes with the turn.
    pub(crate) value: AtomicU64,
    /// Locked while the kernel is made the keeper: what then stands for the turn that was under
    /// way.
    pub(crate) lent: Mutex<Option<Lent>>,
}

/// What names the calling thread in [`Offset::owner`].
pub(crate) fn own_block() -> usize {
    core::ptr::from_ref(culvert_intercept::current()) as usize
}

/// How a write has its file.
pub enum Turn {
    /// Alone, under the node's lock where its shadow may follow; none where its caller has that.
    Alone(Option<NodeLock<'static>>),
    /// Beside those of others that do the same.
    Beside(Share),
}

impl Description {
    /// Whether the calling thread's turn is under way, and the lock of the node stands for it.
    fn is_lent_to_us(&self) -> bool {
        self.offset.owner.load(Relaxed) == own_block() && self.offset.lent.lock().is_some()
    }

    /// In a forked child: whose turn it was is in the parent, and so is the lock that stands for
    /// it.
    pub fn forget_turn(&self) {
        if self.offset.turns.forget() {
            core::mem::forget(self.offset.lent.lock().take());
        }
    }

    /// Whether its descriptors, once they are shared, may be on the driver's own file.
    pub(crate) fn may_be_direct(&self) -> bool {
        matches!(&self.object, Object::File(file) if file.descriptor().is_some())
    }

    /// Whether its driver's descriptor may become the program's own number, from the open on.
    pub(crate) fn may_be_lent(&self) -> bool {
        matches!(&self.object, Object::File(file) if file.is_backed())
            && task::vfork_child().is_none()
            && !task::tables_differ()
    }

    /// The lock of its node, where its file may have a shadow that follows; none also where it
    /// stands for the turn that this thread has at its offset.
    #[inline]
    pub fn lock_node(&self) -> Option<NodeLock<'static>> {
        match self.changes {
            // It may have come to stand for this thread's turn, which only its end releases.
            true => culvert_run::get()
                .node_locks
                .lock_but(self.name(), &|| self.is_lent_to_us()),
            false => None,
        }
    }

    /// What a write of the file begins with.
    #[inline]
    pub fn turn_to_write(&self, what: Together) -> Turn {
        match self
            .parallel_writes
            .then(|| follow::share(self.name(), what))
        {
            Some(Some(share)) => Turn::Beside(share),
            _ => Turn::Alone(self.lock_node()),
        }
    }
}

/// Behind this offset some write ends behind the largest one: no program has more memory.
const FAR: u64 = i64::MAX as u64 - (1 << 47);

/// lseek of the kernel descriptor.
pub fn kernel_seek(fd: i32, offset: i64, whence: usize) -> Result<u64, Errno> {
    let fd = culvert_sys::BorrowedFd::number(fd);
    let at = culvert_sys::fs::seek(fd, offset, whence as u32)?;
    if at > FAR
        && let Some(notes) = culvert_run::get().node_locks.notes()
    {
        notes.far_offsets.store(1, Relaxed);
    }
    Ok(at)
}

/// Whether a description of the run may be at an offset that leaves no room for a write.
pub(crate) fn any_far() -> bool {
    let notes = culvert_run::get().node_locks.notes();
    notes.is_some_and(|notes| notes.far_offsets.load(Relaxed) != 0)
}
