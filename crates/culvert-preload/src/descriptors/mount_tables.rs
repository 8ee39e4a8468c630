//! Descriptors of files of proc(5) of which programs read what we say: the tables of mounts
//! (/proc/mounts and mountinfo), which are files of ours, and beside each of which the kernel's own
//! file stays open, and those of mappings, which are the kernel's.

use super::MOUNTS;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicI32};
use culvert_intercept::descriptors as classes;
use culvert_run::files::c_string;
use culvert_sys::OwnedFd;
use culvert_sys::sync::Mutex;

/// A table that the program has open.
struct Open {
    fd: i32,
    path: Vec<u8>,
    /// Where somebody can wait for changes.
    kernel: Option<Kernel>,
    /// What is read of it, where it is the kernel's.
    text: Option<Arc<Mutex<Text>>>,
}

/// What programs read of a file of mappings: one for each description.
#[derive(Default)]
pub struct Text {
    /// All of it, as it was when the program last began to read.
    pub content: Vec<u8>,
    /// Whether that has happened.
    pub is_known: bool,
    /// Where the program goes on.
    pub at: u64,
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
    let path = path.to_vec();
    let text = None;
    add(Open {
        fd,
        path,
        kernel,
        text,
    });
}

/// Records that `fd` is the kernel's file of mappings at `path`, of which `text` is read. False: it
/// cannot be known what this number stands for.
pub fn note_text(fd: i32, path: &[u8], text: Arc<Mutex<Text>>) -> bool {
    let (path, text) = (path.to_vec(), Some(text));
    let kernel = None;
    add(Open {
        fd,
        path,
        kernel,
        text,
    })
}

fn add(open: Open) -> bool {
    let fd = open.fd;
    if !super::has_own_class(fd) {
        return false;
    }
    ANY.store(true, Relaxed);
    OPEN.lock().push(open);
    super::table().note_mounts(fd);
    true
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
        (open.fd == old).then(|| (open.path.clone(), open.kernel.is_some(), open.text.clone()))
    };
    let found = OPEN.lock().iter().find_map(of);
    if let Some((path, _, Some(text))) = found {
        note_text(new, &path, text);
    } else if let Some((path, changes, None)) = found {
        let kernel = changes.then(|| open_kernels(&path)).flatten();
        if kernel.is_some() == changes {
            note(new, &path, kernel);
        }
    }
}

/// Whether `fd` is one of them.
#[inline]
pub fn is_table(fd: i32) -> bool {
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

/// The path of the file of mappings `fd`, and what is read of it; none for other descriptors.
pub fn text_of(fd: i32) -> Option<(Vec<u8>, Arc<Mutex<Text>>)> {
    let of = |open: &Open| {
        let text = open.text.as_ref().filter(|_| open.fd == fd)?;
        Some((open.path.clone(), text.clone()))
    };
    is_table(fd)
        .then(|| OPEN.lock().iter().find_map(of))
        .flatten()
}

/// The path of the table of mounts `fd`; none for other descriptors.
pub fn path_of(fd: i32) -> Option<Vec<u8>> {
    let of = |open: &Open| (open.fd == fd && open.text.is_none()).then(|| open.path.clone());
    is_table(fd)
        .then(|| OPEN.lock().iter().find_map(of))
        .flatten()
}

/// Whether there was a table in this process.
pub fn are_any() -> bool {
    ANY.load(Relaxed)
}
