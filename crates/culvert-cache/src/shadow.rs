//! Shadow files: what a driven node looks like to the kernel once the kernel has to know of it.
//!
//! A shadow is empty until it must be read by somebody who is not intercepted, or mapped: then it
//! is *filled* with the node's bytes, once for all processes of the run (`state.rs`).

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert::{Errno, Shared, Sink};
use culvert_run::task;
use culvert_run::{self as run, ShadowName};
use culvert_sys::raw::general::{O_CREAT, O_WRONLY};
use culvert_sys::raw::general::{O_DIRECTORY, O_DSYNC, O_SYNC};
use culvert_sys::{nr, syscall};

pub use culvert_run::files::{OwnedFd, open, open_descriptors};

/// An open file description on the shadow of `name` that is none of the program's, with the access
/// mode and status flags `flags`; its offset is not to be used.
pub fn open_shadow(name: ShadowName, flags: u32) -> Result<OwnedFd, Errno> {
    match parked(name, kept_flags(flags)) {
        Some(parked) => Ok(parked),
        None => open_description(name, flags),
    }
}

/// One that was opened before and could not be closed.
pub fn parked(name: ShadowName, flags: u32) -> Option<OwnedFd> {
    let locks = &run::get().posix_locks;
    locks.are_on(name).then(|| locks.parked(name, flags))?
}

/// A new open file description on the shadow of `name`, with the access mode and status flags
/// `flags`.
///
/// Where closing it would drop the program's locks, it will stay: so its number is then none that
/// the program gets next.
pub fn open_description(name: ShadowName, flags: u32) -> Result<OwnedFd, Errno> {
    match run::get().posix_locks.are_on(name) {
        true => run::internal::open_high(&|| open_lowest(name, flags)),
        false => open_lowest(name, flags),
    }
}

/// [`open`] of `path`, which is the shadow of `name`, or was before that became a file itself: at a
/// number as [`open_description`]'s.
pub fn open_path(name: ShadowName, path: &CStr, flags: u32) -> Result<OwnedFd, Errno> {
    match run::get().posix_locks.are_on(name) {
        true => run::internal::open_high(&|| open(path, flags, 0)),
        false => open(path, flags, 0),
    }
}

/// As [`open_description`], at the lowest number that is free: for the program itself.
pub fn open_lowest(name: ShadowName, flags: u32) -> Result<OwnedFd, Errno> {
    let path = run::get().shadow(name);
    let wanted = kept_flags(flags);
    loop {
        match open(&path, wanted, 0) {
            // Made here, or by others, and gone again when it has become a file itself
            // (orphan_file/).
            Err(Errno::ENOENT) => drop(create(&path)?),
            other => return other,
        }
    }
}

/// Those of `flags` that a shadow is opened with.
pub fn kept_flags(flags: u32) -> u32 {
    flags & (3 | KEPT | culvert_run::files::O_PATH)
}

fn create(path: &CStr) -> Result<OwnedFd, Errno> {
    // Before it is there: who finds none does not look for it.
    if let Some(notes) = run::get().node_locks.notes() {
        notes.shadows.store(1, Release);
    }
    open(path, O_WRONLY | O_CREAT, 0o600)
}

/// Whether there may be any shadow. What the processes of the run say of that is mapped where many
/// ask.
pub fn may_be_any() -> bool {
    const MANY: u32 = 32;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let locks = &run::get().node_locks;
    let notes = match ASKED.load(Relaxed) {
        MANY => locks.notes(),
        asked => {
            ASKED.store(asked + 1, Relaxed);
            locks.notes_if_mapped()
        }
    };
    notes.is_none_or(|notes| notes.shadows.load(Acquire) != 0)
}

/// Status flags of the program's that a shadow is opened with, for the next process to find:
/// `O_APPEND`, `O_NONBLOCK`, `O_ASYNC`, `O_NOFOLLOW`, and `O_DSYNC` and `O_SYNC`, which cost
/// nothing there.
const KEPT: u32 = 0o2000 | 0o4000 | 0o20000 | 0o400000 | O_SYNC;

/// The flags of a description of a directory on its shadow, which is a regular file: there
/// `O_DSYNC` says that it was opened with `O_DIRECTORY` (F_GETFL shows that).
pub fn flags_of_directory(flags: u32) -> u32 {
    let asked = if flags & O_DIRECTORY != 0 { O_DSYNC } else { 0 };
    flags & !(O_SYNC | O_DIRECTORY) | asked
}

/// The way back.
pub fn flags_of_directory_shadow(flags: u32) -> u32 {
    let asked = if flags & O_DSYNC != 0 { O_DIRECTORY } else { 0 };
    flags & !O_SYNC | asked
}

/// A shadow as what a driver reads into.
pub struct ToShadow {
    /// The shadow.
    pub fd: i32,
    /// Where the next byte goes.
    pub at: u64,
    /// How many more are wanted.
    pub room: usize,
}

impl ToShadow {
    /// All of `bytes`, from `at` on.
    fn write(&mut self, bytes: Shared<'_>) -> culvert::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = bytes.part(done, bytes.len());
            let (fd, start) = (self.fd as usize, rest.start() as usize);
            // SAFETY: the kernel only reads, and answers EFAULT where a source has vanished.
            match unsafe { syscall::call(nr::PWRITE64, [fd, start, rest.len(), self.at as usize]) }
            {
                Ok(n) => {
                    done += n;
                    self.at += n as u64;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EFAULT) => {
                    return Err(culvert::Error::because(
                        Errno::EIO,
                        "the mapped source vanished while it was read (truncated?)",
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        run::get().node_locks.filled(done as u64, 0);
        Ok(done)
    }
}

impl Sink for ToShadow {
    fn remaining(&self) -> usize {
        self.room
    }
    fn put(&mut self, bytes: &[u8]) -> culvert::Result<usize> {
        self.put_shared(bytes.into())
    }
    fn put_shared(&mut self, bytes: Shared<'_>) -> culvert::Result<usize> {
        let bytes = bytes.part(0, self.room);
        let end = self.at + bytes.len() as u64;
        let done = task::limits::without_file_size(end, || self.write(bytes))?;
        self.room -= done;
        Ok(done)
    }
    fn put_zeroes(&mut self, count: usize) -> culvert::Result<usize> {
        let count = count.min(self.room);
        self.at += count as u64;
        self.room -= count;
        Ok(count)
    }
}

/// Writes all of `bytes` at `offset` of a shadow.
pub fn write_all(fd: i32, offset: u64, bytes: &[u8]) -> culvert::Result<()> {
    let mut sink = ToShadow {
        fd,
        at: offset,
        room: bytes.len(),
    };
    sink.put(bytes).map(|_| ())
}
