//! Children of vfork: they run in their parent's memory, but have descriptors, credentials and a
//! working directory of their own.

use super::{UNUSUAL, credentials, tables};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::*};
use culvert_sys::sync::Mutex;

/// What a child of vfork has changed: it shares its parent's memory, but has descriptors and a
/// working directory of its own until it execs or exits.
#[derive(Default)]
pub struct VforkChild {
    /// The number of its table of descriptors; None: it is its parent's (`CLONE_FILES`).
    pub(super) table: Option<usize>,
    state: Mutex<ChildState>,
    /// It has changed its credentials, which are known in memory that it shares.
    pub(super) changed_credentials: AtomicBool,
    /// What the block that they share said of its parent's.
    parent_credentials: usize,
    /// Its slot for locks between processes (node_locks.rs).
    pub slot: AtomicU32,
    /// Filters that it has installed, which its parent has not got.
    pub filters: AtomicUsize,
    /// The umask that it has set, plus one; 0: still its parent's.
    pub umask: AtomicU32,
}

/// What a floor above knows of: a description, a working directory.
pub type Known = Arc<dyn Any + Send + Sync>;

#[derive(Default)]
struct ChildState {
    descriptors: Vec<(i32, Option<Known>)>,
    working_directory: Option<&'static (dyn Any + Send + Sync)>,
    /// Where the numbers of descriptors stand that drivers keep in its table.
    kept_descriptors: Vec<&'static AtomicI32>,
    /// What an exec that succeeded left behind in the shared memory.
    leftovers: Vec<Box<dyn Send>>,
}

impl VforkChild {
    /// What the child has made of `fd`, if it has changed it; within: none where that is not ours.
    pub fn changed(&self, fd: i32) -> Option<Option<Known>> {
        let state = self.state.lock();
        let mut changes = state.descriptors.iter().rev();
        let found = changes.find(|(changed, _)| *changed == fd);
        found.map(|(_, known)| known.clone())
    }

    /// The child's `fd` is now `known`, or not ours.
    pub fn change(&self, fd: i32, known: Option<Known>) {
        let mut state = self.state.lock();
        state.descriptors.retain(|(changed, _)| *changed != fd);
        state.descriptors.push((fd, known));
    }

    /// The working directory that the child has chosen.
    pub fn directory(&self) -> Option<&'static (dyn Any + Send + Sync)> {
        self.state.lock().working_directory
    }

    /// The child has chosen another one.
    pub fn set_directory(&self, directory: Option<&'static (dyn Any + Send + Sync)>) {
        self.state.lock().working_directory = directory;
    }

    /// A driver keeps a descriptor in the child's table; its number stands at `place` (-1 once it
    /// is closed).
    pub fn keep_descriptor(&self, place: &'static AtomicI32) {
        self.state.lock().kept_descriptors.push(place);
    }

    /// The descriptors that drivers keep in the child's table.
    pub fn kept_descriptors(&self) -> Vec<i32> {
        let state = self.state.lock();
        let numbers = state.kept_descriptors.iter().map(|fd| fd.load(Relaxed));
        numbers.filter(|&fd| fd >= 0).collect()
    }

    /// Where the number `fd` stands, if a driver keeps that in the child's table.
    pub fn place_of_kept(&self, fd: i32) -> Option<&'static AtomicI32> {
        let state = self.state.lock();
        let mut places = state.kept_descriptors.iter();
        places.find(|place| place.load(Relaxed) == fd).copied()
    }

    /// Keeps `value` until the parent goes on.
    pub fn keep(&self, value: Box<dyn Send>) {
        self.state.lock().leftovers.push(value);
    }
}

/// The same, if it has a table of descriptors of its own.
#[inline]
pub fn vfork_child_with_table() -> Option<&'static VforkChild> {
    vfork_child().filter(|child| child.table.is_some())
}

/// The slot of the thread block that holds the child's changes.
const CHILD_SLOT: usize = 0;
/// The changes of the vfork child that is running, if this is one.
#[inline]
pub fn vfork_child() -> Option<&'static VforkChild> {
    if UNUSUAL.load(Relaxed) == 0 {
        return None;
    }
    let block = culvert_intercept::current();
    if !block.is_vfork_child() {
        return None;
    }
    // SAFETY: the slot is null or a box made by `enter_vfork_child`, which lives until the parent
    // goes on.
    unsafe { (block.slot[CHILD_SLOT].load(Relaxed) as *const VforkChild).as_ref() }
}

/// A vfork child is about to be made by this thread, which `shares_table` with it or not.
pub fn enter_vfork(shares_table: bool) {
    UNUSUAL.fetch_add(1, Relaxed);
    let block = culvert_intercept::current();
    let outer = block.slot[CHILD_SLOT].load(Relaxed);
    block.slot[CHILD_SLOT + 1].store(outer, Relaxed);
    block.slot[CHILD_SLOT].store(
        Box::into_raw(Box::new(VforkChild {
            table: (!shares_table).then(tables::new_number),
            parent_credentials: block.credentials.load(Relaxed),
            ..VforkChild::default()
        })) as usize,
        Relaxed,
    );
}

/// The parent goes on: the child has its own memory now, or is gone.
pub fn leave_vfork() {
    let block = culvert_intercept::current();
    let child = block.slot[CHILD_SLOT].load(Relaxed) as *mut VforkChild;
    block.slot[CHILD_SLOT].store(block.slot[CHILD_SLOT + 1].load(Relaxed), Relaxed);
    block.slot[CHILD_SLOT + 1].store(0, Relaxed);
    if !child.is_null() {
        // SAFETY: made by `enter_vfork`, and the child does not run in this memory any more.
        let child = unsafe { Box::from_raw(child) };
        block.credentials.store(child.parent_credentials, Relaxed);
        if child.changed_credentials.load(Relaxed) {
            credentials::are_others();
            credentials::forget_others();
        }
        for _ in 0..child.filters.load(Relaxed) {
            super::is_not_confined();
        }
    }
    UNUSUAL.fetch_sub(1, Relaxed);
}
