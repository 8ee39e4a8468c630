//! Descriptors of files of proc(5) that are files of ours: the tables of mounts (/proc/mounts and
//! mountinfo), beside each of which the kernel's own file stays open, and those of mappings.

use super::MOUNTS;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicI32};
use culvert_intercept::descriptors as classes;
use culvert_run::files::c_string;
use culvert_run::task::{process_number, vfork_child_with_table};
use culvert_sys::OwnedFd;
use culvert_sys::sync::Mutex;

/// A table that the program has open.
struct Open {
    fd: i32,
    path: Vec<u8>,
    /// The number of the process that has opened it.
    opener: u32,
    /// Where somebody can wait for changes.
    kernel: Option<Kernel>,
    /// What it says is to be written before anybody reads it.
    is_due: bool,
}

/// The kernel's own file: where its number stands.
pub struct Kernel(&'static AtomicI32);

impl Drop for Kernel {
    fn drop(&mut self) {
        let fd = self.0.swap(-1, AcqRel);
        if fd >= 0 {
            classes::set(fd, classes::UNKNOWN);
            drop(OwnedFd::from_raw(fd));
        }
    }
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// There was one in this process.
static ANY: AtomicBool = AtomicBool::new(false);

/// What some table says is to be written.
static DUE: AtomicBool = AtomicBool::new(false);

/// The kernel's own file at `path`, from whose opening on changes are told.
pub fn open_kernels(path: &[u8]) -> Option<Kernel> {
    let kernel = culvert_run::files::open(&c_string(path), 0, 0).ok()?;
    // Before the program's own is made, which gets the number.
    let place = culvert_run::get().adopt_internal(kernel.raw())?;
    // It has become another number.
    kernel.into_raw();
    Some(Kernel(place))
}

/// Records that `fd` is ours for the table at `path`; `kernel` tells of its changes.
pub fn note(fd: i32, path: &[u8], kernel: Option<Kernel>) {
    let (path, opener) = (path.to_vec(), process_number());
    add(Open {
        fd,
        path,
        opener,
        kernel,
        is_due: false,
    });
}

fn add(open: Open) {
    let fd = open.fd;
    // What a child of vfork has at that number is something else in its parent.
    if !super::has_own_class(fd) || vfork_child_with_table().is_some() {
        return;
    }
    ANY.store(true, Relaxed);
    OPEN.lock().push(open);
    super::table().note_mounts(fd);
}

/// `fd` is none any more.
pub fn forget(fd: i32) {
    let mut open = OPEN.lock();
    let at = open.iter().position(|open| open.fd == fd);
    let gone = at.map(|at| open.swap_remove(at));
    drop(open);
    drop(gone);
}

/// `new` is a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    let of = |open: &Open| {
        (open.fd == old).then(|| (open.path.clone(), open.opener, open.kernel.is_some()))
    };
    let found = OPEN.lock().iter().find_map(of);
    if let Some((path, opener, changes)) = found {
        let kernel = changes.then(|| open_kernels(&path)).flatten();
        if kernel.is_some() == changes {
            add(Open {
                fd: new,
                path,
                opener,
                kernel,
                is_due: false,
            });
        }
    }
}

fn is_table(fd: i32) -> bool {
    (0..=0xffff).contains(&fd) && classes::get(fd) == MOUNTS
}

/// The descriptor of the kernel's own file for the table `fd`.
pub fn kernels(fd: i32) -> Option<i32> {
    if !ANY.load(Relaxed) || !is_table(fd) {
        return None;
    }
    let of = |open: &Open| {
        let kernel = open.kernel.as_ref().filter(|_| open.fd == fd)?;
        Some(kernel.0.load(Acquire))
    };
    OPEN.lock().iter().find_map(of).filter(|&fd| fd >= 0)
}

/// The path of the table `fd`, and the number of the process that has opened it; none for other
/// descriptors.
pub fn path_of(fd: i32) -> Option<(Vec<u8>, u32)> {
    let of = |open: &Open| (open.fd == fd).then(|| (open.path.clone(), open.opener));
    is_table(fd)
        .then(|| OPEN.lock().iter().find_map(of))
        .flatten()
}

/// Whether there was a table in this process.
pub fn are_any() -> bool {
    ANY.load(Relaxed)
}

/// What the table `fd`, which this process has opened, says is to be written when it is needed;
/// false: it is none that is known here.
pub fn postpone(fd: i32) -> bool {
    if vfork_child_with_table().is_some() {
        return false;
    }
    let mut all = OPEN.lock();
    let Some(open) = all.iter_mut().find(|open| open.fd == fd) else {
        return false;
    };
    open.is_due = true;
    DUE.store(true, Release);
    true
}

/// Whether [`write_due`] has something to do.
#[inline]
pub fn are_due() -> bool {
    DUE.load(Acquire)
}

/// Has `write` write what was postponed, of a descriptor and its path; what it cannot write is due
/// still.
pub fn write_due(write: impl Fn(i32, &[u8]) -> bool) {
    // Another thread of the parent has postponed it, at a number that means nothing here.
    if vfork_child_with_table().is_some() {
        return;
    }
    // Others wait until it is written.
    let mut all = OPEN.lock();
    for open in all.iter_mut().filter(|open| open.is_due) {
        open.is_due = !write(open.fd, &open.path);
    }
    DUE.store(all.iter().any(|open| open.is_due), Release);
}

/// Whether what `fd` says could not be written.
pub fn is_due(fd: i32) -> bool {
    are_due() && OPEN.lock().iter().any(|open| open.fd == fd && open.is_due)
}
