//! Shadow files: what a driven node looks like to the kernel once the kernel has to know of it.
//!
//! A shadow is empty until it must be read by somebody who is not intercepted, or mapped: then it
//! is *filled* with the node's bytes, once for all processes of the run, and marked by the sticky
//! bit.

use crate::description::{Description, Object};
use crate::paging::pager::{self, fill};
use crate::paging::room;
use crate::process;
use crate::run::{self, ShadowName, stat_descriptor, stat_path};
use alloc::format;
use alloc::vec::Vec;
use culvert::{Errno, File, Sink};
use culvert_sys::raw::general::{O_DIRECTORY, O_DSYNC, O_SYNC};
use culvert_sys::{nr, syscall};

/// Of a shadow's mode: it has its node's bytes.
pub const FILLED: u32 = 0o1000;
/// Who changes the file changes the shadow too (paging/follow.rs). The run directory is the user's
/// alone, so the bit lets nobody in.
const FOLLOWED: u32 = 0o040;
const O_CREAT: usize = 0o100;
const O_CLOEXEC: usize = 0o2000000;

/// Whether a shadow with this `struct stat` holds its node's bytes.
pub fn is_filled(found: &culvert_sys::raw::general::stat) -> bool {
    found.st_mode & FILLED != 0
}

/// Whether it also follows its file.
pub fn is_followed(found: &culvert_sys::raw::general::stat) -> bool {
    found.st_mode & FOLLOWED != 0 && (is_filled(found) || fill::is_partly(found))
}

/// A descriptor that is closed when dropped.
pub struct Descriptor(pub i32);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is owned.
        let _ = unsafe { syscall::call(nr::CLOSE, [self.0 as usize]) };
    }
}

impl Descriptor {
    /// Gives up ownership.
    pub fn release(self) -> i32 {
        let fd = self.0;
        core::mem::forget(self);
        fd
    }
}

/// open(2) by a NUL-terminated path, close-on-exec.
pub fn open(path: &[u8], flags: usize, mode: usize) -> Result<Descriptor, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    // SAFETY: the path ends in NUL.
    unsafe { syscall::call(nr::OPEN, [path.as_ptr() as usize, flags | O_CLOEXEC, mode]) }
        .map(|fd| Descriptor(fd as i32))
}

/// An open file description on the shadow of `name` that is none of the program's, with the access
/// mode and status flags `flags`; its offset is not to be used.
pub fn open_shadow(name: ShadowName, flags: u32) -> Result<Descriptor, Errno> {
    match parked(name, kept_flags(flags)) {
        Some(parked) => Ok(parked),
        None => open_description(name, flags),
    }
}

/// One that was opened before and could not be closed.
pub fn parked(name: ShadowName, flags: usize) -> Option<Descriptor> {
    let locks = &process::get().table.posix_locks;
    locks.are_on(name).then(|| locks.parked(name, flags))?
}

/// A new open file description on the shadow of `name`, with the access mode and status flags
/// `flags`.
///
/// Where closing it would drop the program's locks, it will stay: so its number is then none that
/// the program gets next.
pub fn open_description(name: ShadowName, flags: u32) -> Result<Descriptor, Errno> {
    match process::get().table.posix_locks.are_on(name) {
        true => crate::descriptors::open_high(&|| open_lowest(name, flags)),
        false => open_lowest(name, flags),
    }
}

/// [`open`] of `path`, which is the shadow of `name`, or was before that became a file itself: at a
/// number as [`open_description`]'s.
pub fn open_path(name: ShadowName, path: &[u8], flags: usize) -> Result<Descriptor, Errno> {
    match process::get().table.posix_locks.are_on(name) {
        true => crate::descriptors::open_high(&|| open(path, flags, 0)),
        false => open(path, flags, 0),
    }
}

/// As [`open_description`], at the lowest number that is free: for the program itself.
pub fn open_lowest(name: ShadowName, flags: u32) -> Result<Descriptor, Errno> {
    let path = process::get().run.shadow(name);
    let wanted = kept_flags(flags);
    loop {
        match open(&path, wanted, 0) {
            // Made here, or by others, and gone again when it has become a file itself (gone/).
            Err(Errno::ENOENT) => drop(create(&path)?),
            other => return other,
        }
    }
}

/// Those of `flags` that a shadow is opened with.
pub fn kept_flags(flags: u32) -> usize {
    (flags & (3 | KEPT | crate::description::O_PATH)) as usize
}

fn create(path: &[u8]) -> Result<Descriptor, Errno> {
    open(path, 0o1 | O_CREAT, 0o600)
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

struct ToDescriptor {
    fd: i32,
    at: u64,
    room: usize,
}

impl ToDescriptor {
    /// All of `bytes`, from `at` on.
    fn write(&mut self, bytes: &[u8]) -> culvert::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            // SAFETY: the slice is given with its length; a source that vanished makes the kernel
            // answer EFAULT.
            match unsafe {
                syscall::call(
                    nr::PWRITE64,
                    [
                        self.fd as usize,
                        bytes[done..].as_ptr() as usize,
                        bytes.len() - done,
                        self.at as usize,
                    ],
                )
            } {
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
        room::changed(done as u64, 0);
        Ok(done)
    }
}

impl Sink for ToDescriptor {
    fn remaining(&self) -> usize {
        self.room
    }
    fn put(&mut self, bytes: &[u8]) -> culvert::Result<usize> {
        let count = bytes.len().min(self.room);
        let end = self.at + count as u64;
        let done = crate::process::limits::without_file_size(end, || self.write(&bytes[..count]))?;
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

/// Fills the shadow of `name` with the bytes of `file` unless it is filled already.
pub fn fill(name: ShadowName, file: &dyn File) -> culvert::Result<()> {
    let path = process::get().run.shadow(name);
    if stat_path(&path).is_ok_and(|found| is_filled(&found)) {
        return Ok(());
    }
    // Open for writing under the lock only: while it is, nobody can execute it (vfs/busy.rs).
    let _lock = process::get()
        .node_locks
        .lock(crate::resolver::MountId(name.mount), name.node);
    let writable = match open_shadow(name, 0o2) {
        // Somebody has filled it meanwhile, and executes it.
        Err(Errno::ETXTBSY) if stat_path(&path).is_ok_and(|found| is_filled(&found)) => {
            return Ok(());
        }
        opened => opened?,
    };
    let result = fill_opened(file, &writable);
    process::get().table.posix_locks.close(name, writable);
    result
}

fn fill_opened(file: &dyn File, writable: &Descriptor) -> culvert::Result<()> {
    let found = stat_descriptor(writable.0)?;
    if is_filled(&found) {
        return Ok(());
    }
    if fill::is_partly(&found) {
        return fill::complete_in_room(file, writable.0);
    }
    let attributes = file.attributes()?;
    room::make(attributes.size)?;
    let mut sink = ToDescriptor {
        fd: writable.0,
        at: 0,
        room: 0,
    };
    while sink.at < attributes.size {
        sink.room = (attributes.size - sink.at).min(1 << 20) as usize;
        if file.read_at(sink.at, &mut sink)? == 0 {
            return Err(culvert::Error::because(
                Errno::EIO,
                "the file ended before its size",
            ));
        }
    }
    crate::paging::bytes::set_length(writable.0, attributes.size)?;
    set_times(writable, &attributes);
    Ok(mark_filled(writable, &attributes)?)
}

/// Gives the shadow the times of a file with these attributes.
pub fn set_times(shadow: &Descriptor, attributes: &culvert::Attributes) {
    let times =
        [attributes.atime, attributes.mtime].map(|t| [t.seconds as usize, t.nanoseconds as usize]);
    let arguments = [shadow.0 as usize, 0, times.as_ptr() as usize, 0];
    // SAFETY: sets the times of our own file.
    let _ = unsafe { syscall::call(nr::UTIMENSAT, arguments) };
}

/// Makes the shadow of `name`, whose file never changes, one that the pager fills when it is mapped
/// and touched; whether it is one.
fn begin(name: ShadowName, file: &dyn File) -> culvert::Result<bool> {
    let writable = match open_shadow(name, 0o2) {
        // It is being executed, and was filled for that.
        Err(Errno::ETXTBSY) => return Ok(false),
        opened => opened?,
    };
    let result = begin_opened(name, file, &writable);
    process::get().table.posix_locks.close(name, writable);
    result
}

fn begin_opened(name: ShadowName, file: &dyn File, writable: &Descriptor) -> culvert::Result<bool> {
    let is_fresh = |found: &culvert_sys::raw::general::stat| {
        !is_filled(found) && found.st_size == 0 && fill::is_fit(found)
    };
    let found = stat_descriptor(writable.0)?;
    let attributes = file.attributes()?;
    // Before the lock, for which the pager may be waiting.
    if !(fill::is_partly(&found) || is_fresh(&found) && pager::lazy(name, attributes.size)) {
        return Ok(false);
    }
    let mount = crate::resolver::MountId(name.mount);
    let _lock = process::get().node_locks.lock(mount, name.node);
    let found = stat_descriptor(writable.0)?;
    if is_fresh(&found) && !fill::is_partly(&found) {
        crate::paging::bytes::set_length(writable.0, attributes.size)?;
        set_times(writable, &attributes);
        mark_partly(writable.0, &attributes, false)?;
        return Ok(true);
    }
    Ok(fill::is_partly(&found))
}

/// Says that a shadow holds the bytes of a file with these attributes.
fn mark_filled(shadow: &Descriptor, attributes: &culvert::Attributes) -> Result<(), Errno> {
    mark(shadow.0, attributes, FILLED)
}

/// Says that a shadow that may have holes has none any more.
pub fn mark_complete(fd: i32) -> Result<(), Errno> {
    let mode = stat_descriptor(fd)?.st_mode & 0o7777 & !fill::PARTLY | FILLED;
    // SAFETY: sets the mode of our own file.
    unsafe { syscall::call(nr::FCHMOD, [fd as usize, mode as usize]) }.map(|_| ())
}

/// Says that a shadow of a file with these attributes may have holes, and follows it where that
/// `changes`.
pub fn mark_partly(fd: i32, attributes: &culvert::Attributes, changes: bool) -> Result<(), Errno> {
    mark(
        fd,
        attributes,
        fill::PARTLY | if changes { FOLLOWED } else { 0 },
    )
}

/// Its time of change is now. Under the node's lock.
pub fn touch(fd: i32) -> Result<(), Errno> {
    let found = stat_descriptor(fd)?;
    let mode = found.st_mode & 0o7777;
    // SAFETY: sets the mode of our own file.
    match unsafe { syscall::call(nr::FCHMOD, [fd as usize, mode as usize]) } {
        // Another user by now (setuid(2)), who may still write it: its time of modification is now,
        // too, so that who looks next compares it.
        Err(Errno::EPERM) => crate::paging::bytes::set_length(fd, found.st_size as u64),
        touched => touched.map(|_| ()),
    }
}

/// Says that it does, and follows it.
pub fn mark_followed(fd: i32, attributes: &culvert::Attributes) -> Result<(), Errno> {
    mark(fd, attributes, FILLED | FOLLOWED)
}

/// Says that it is the file itself from now on.
pub fn mark_gone(fd: i32, attributes: &culvert::Attributes) -> Result<(), Errno> {
    mark(fd, attributes, FILLED | crate::gone::GONE)
}

fn mark(fd: i32, attributes: &culvert::Attributes, bits: u32) -> Result<(), Errno> {
    let executable = match attributes.permissions & 0o111 {
        0 => 0,
        _ => 0o100,
    };
    let mode = (0o600 | bits | executable) as usize;
    // SAFETY: sets the mode of our own file.
    unsafe { syscall::call(nr::FCHMOD, [fd as usize, mode]) }.map(|_| ())
}

/// Lets the kernel execute the shadow of `name` in `fd`: it may have been filled when its file was
/// not executable yet, or was another one with the same number. Whether the program may is not its
/// matter.
pub fn make_executable(name: ShadowName, fd: i32) -> Result<(), Errno> {
    if stat_descriptor(fd)?.st_mode & 0o100 != 0 {
        return Ok(());
    }
    let mount = crate::resolver::MountId(name.mount);
    // The mode is read and written: others mark it under the lock, too.
    let _lock = process::get().node_locks.lock(mount, name.node);
    let mode = stat_descriptor(fd)?.st_mode & 0o7777 | 0o100;
    // SAFETY: sets the mode of our own file.
    unsafe { syscall::call(nr::FCHMOD, [fd as usize, mode as usize]) }.map(|_| ())
}

/// Writes all of `bytes` at `offset` of a shadow.
pub fn write_all(fd: i32, offset: u64, bytes: &[u8]) -> culvert::Result<()> {
    let mut sink = ToDescriptor {
        fd,
        at: offset,
        room: bytes.len(),
    };
    sink.put(bytes).map(|_| ())
}

/// What mmap is given for a description: its own descriptor when that is a filled shadow already,
/// else a new one on the filled shadow.
///
/// A new one is avoided where possible: closing it would drop the POSIX locks that this process has
/// on the shadow (fcntl(2)).
pub enum Mappable {
    /// The program's own descriptor.
    Own(i32),
    /// A descriptor for this purpose.
    Other(Descriptor),
}

impl Mappable {
    /// The descriptor's number.
    pub fn number(&self) -> i32 {
        match self {
            Self::Own(fd) | Self::Other(Descriptor(fd)) => *fd,
        }
    }
}

impl Mappable {
    /// It has been mapped.
    pub fn close(self, description: &Description) {
        if let Self::Other(descriptor) = self {
            process::get()
                .table
                .posix_locks
                .close(description.name(), descriptor);
        }
    }
}

/// Something to map for the description of `fd`. `on_demand`: it may be one that the pager fills
/// (`pager::mapped`).
pub fn mappable(description: &Description, fd: i32, on_demand: bool) -> culvert::Result<Mappable> {
    let Object::File(file) = &description.object else {
        return Err(Errno::ENODEV.into());
    };
    if description.is_shared() && stat_descriptor(fd)?.st_mode & FILLED != 0 {
        return Ok(Mappable::Own(fd));
    }
    let name = ShadowName {
        mount: description.mount.0,
        node: description.node,
    };
    // Open all the time, so that nobody empties it before it is mapped.
    let mappable = match description.is_shared() {
        true => Mappable::Own(fd),
        false => Mappable::Other(open_shadow(name, 0)?),
    };
    let begun = match on_demand {
        true => begin(name, &**file),
        false => Ok(false),
    };
    let ready = begun.and_then(|begun| match begun {
        true => Ok(()),
        false => fill(name, &**file),
    });
    match ready {
        Ok(()) => Ok(mappable),
        Err(error) => {
            mappable.close(description);
            Err(error)
        }
    }
}

/// All open descriptors of this process, from `/proc/self/fd`.
pub fn open_descriptors() -> Vec<i32> {
    let Ok(directory) = open(
        format!("{}\0", culvert_sys::own_descriptors::directory()).as_bytes(),
        0o200000,
        0,
    ) else {
        return Vec::new();
    };
    run::list(&directory)
        .iter()
        .filter_map(|name| core::str::from_utf8(name).ok()?.parse::<i32>().ok())
        .filter(|&fd| fd != directory.0)
        .collect()
}
