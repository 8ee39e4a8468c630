//! Descriptors that are rings (io_uring(7)), made here, and the memory that kernel and program
//! share for them.

mod awaited;
pub mod entry;
pub mod memory;
pub mod restrictions;

use super::RING;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub use awaited::{await_descriptor, is_awaited};
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use culvert_run::{descriptor_path, stat_descriptor};
use culvert_sys::sync::Mutex;
use memory::RingMemory;
use restrictions::Restrictions;

pub const SETUP_SQE128: u32 = 1 << 10;

pub const SETUP_CQE32: u32 = 1 << 11;

const SETUP_SINGLE_ISSUER: u32 = 1 << 12;

pub const SETUP_NO_SQARRAY: u32 = 1 << 16;

/// A ring of this process.
pub struct Ring {
    /// `st_dev` and `st_ino`: each ring has an inode of its own (`io_uring_get_file`,
    /// io_uring/io_uring.c).
    pub identity: (u64, u64),
    pub setup: u32,
    pub memory: RingMemory,
    /// A socket of AF_UNIX may be among the files that are registered.
    pub unix: AtomicBool,
    /// A file of which a layer hears more than the kernel does by itself may be among them.
    pub layered: AtomicBool,
    /// The thread that may submit, where only one may.
    pub issuer: AtomicUsize,
    pub state: Mutex<State>,
}

impl Ring {
    /// The calling thread is the one that may submit.
    pub fn take(&self) {
        self.issuer.store(this_thread(), Relaxed);
    }

    /// Whether another thread is the one that may.
    pub fn is_anothers(&self) -> bool {
        self.setup & SETUP_SINGLE_ISSUER != 0 && self.issuer.load(Relaxed) != this_thread()
    }
}

pub fn this_thread() -> usize {
    core::ptr::from_ref(culvert_intercept::current()) as usize
}

/// What one thread at a time changes.
#[derive(Default)]
pub struct State {
    pub restrictions: Option<Restrictions>,
    /// It takes no requests yet (`IORING_SETUP_R_DISABLED`).
    pub disabled: bool,
    /// What was done, by position in the queue, and the kernel has not taken the request yet.
    pub performed: Vec<(u32, i32)>,
    /// A request of the kernel's had IOSQE_IO_DRAIN: what follows may wait for it.
    pub drains: bool,
    /// The kernel's requests that this call has filled in.
    pub filled: Vec<u32>,
}

/// A number that is known to be a ring.
struct KnownRing {
    fd: i32,
    ring: Arc<Ring>,
}

static KNOWN: Mutex<Vec<KnownRing>> = Mutex::new(Vec::new());

/// What a descriptor is.
pub enum DescriptorKind {
    Ring(Arc<Ring>),
    /// One that was not made here: from another process, or before exec.
    Stranger,
    Other,
}

/// What `fd` is.
pub fn find(fd: i32) -> DescriptorKind {
    if super::class(fd) == RING {
        let known = KNOWN.lock();
        if let Some(known) = known.iter().find(|known| known.fd == fd) {
            return DescriptorKind::Ring(known.ring.clone());
        }
    }
    look(fd)
}

#[cold]
pub fn look(fd: i32) -> DescriptorKind {
    let Ok(found) = stat_descriptor(fd) else {
        return DescriptorKind::Other;
    };
    let identity = (found.st_dev, found.st_ino);
    let known = KNOWN.lock();
    if let Some(known) = known.iter().find(|known| known.ring.identity == identity) {
        return DescriptorKind::Ring(known.ring.clone());
    }
    drop(known);
    // Neither file nor socket: a device's st_mode has a kind.
    if found.st_mode & 0o170000 != 0 {
        return DescriptorKind::Other;
    }
    match descriptor_path(fd) {
        Ok(path) if path == b"anon_inode:[io_uring]" => DescriptorKind::Stranger,
        _ => DescriptorKind::Other,
    }
}

/// Records that `new` is a dup of the ring `old`.
pub fn duplicated(old: i32, new: i32) {
    let mut known = KNOWN.lock();
    if let Some(ring) = known.iter().find(|known| known.fd == old) {
        let ring = ring.ring.clone();
        known.retain(|known| known.fd != new);
        known.push(KnownRing { fd: new, ring });
    }
}

/// Records that `fd` is not a ring any more. The last number takes the ring's memory with it, so
/// that the ring can end.
pub fn forget(fd: i32) {
    let mut known = KNOWN.lock();
    let at = known.iter().position(|known| known.fd == fd);
    let gone = at.map(|at| known.swap_remove(at));
    drop(known);
    drop(gone);
}

/// Records that `fd` is the ring `ring`.
pub fn note(fd: i32, ring: Ring) {
    let mut known = KNOWN.lock();
    known.retain(|known| known.fd != fd);
    known.push(KnownRing {
        fd,
        ring: Arc::new(ring),
    });
    drop(known);
    crate::descriptors::table().note_ring(fd);
}
