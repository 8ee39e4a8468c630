//! Nodes that have no descriptor for the time being, and how they get one again.
//!
//! A server of a kernel mount may have to know more nodes than a process may have descriptors, for
//! the kernel forgets them when it likes. So those that were not used for the longest time are
//! closed. They are opened again by their file handle (`name_to_handle_at(2)`), where that is
//! allowed, which leads to the same inode or nowhere; else by the last name that they were seen
//! with, if that still leads to the same inode.

use super::kernel::{self, Name, identity};
use super::object::Object;
use crate::descriptor::{NodeBook, OwnedFd, Traces};
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node, Result};
use culvert_sys::fd::{AsFd, BorrowedFd};
use culvert_sys::raw::general::{self as linux, statx};
use culvert_sys::{nr, process, syscall};

/// The longest handle that is kept, bytes: those of ext4 have 8, of tmpfs 12, of XFS 12 or 24, of
/// Btrfs 20.
const LONGEST: usize = 24;

/// `struct file_handle` (open_by_handle_at(2)).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    length: u32,
    kind: i32,
    bytes: [u8; LONGEST],
}

impl Handle {
    /// All of it as numbers.
    fn words(&self) -> [u64; 4] {
        let mut words = [0; 4];
        words[0] = u64::from(self.length) | u64::from(self.kind as u32) << 32;
        let chunks = self.bytes.as_chunks::<8>().0;
        for (word, bytes) in words[1..].iter_mut().zip(chunks) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    }

    /// What [`Handle::words`] gave.
    fn from_words([head, bytes @ ..]: [u64; 4]) -> Self {
        let mut handle = Self {
            length: (head as u32).min(LONGEST as u32),
            kind: (head >> 32) as i32,
            bytes: [0; LONGEST],
        };
        let chunks = handle.bytes.as_chunks_mut::<8>().0;
        for (chunk, word) in chunks.iter_mut().zip(bytes) {
            *chunk = word.to_ne_bytes();
        }
        handle
    }
}

#[cfg(test)]
impl Handle {
    /// For tests of the table: it leads nowhere.
    pub(super) const fn fake() -> Self {
        Self {
            length: 0,
            kind: 0,
            bytes: [0; LONGEST],
        }
    }
}

/// What a node was that has no descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// `st_dev` and `st_ino`.
    pub identity: (u64, u64),
    /// When the inode was made: a number may be used again for another.
    pub birth: u64,
    pub kind: FileKind,
    /// None: it is opened by its name.
    pub handle: Option<Handle>,
    /// Where it stands in the book, counted from 1; 0: nowhere.
    pub away: u32,
}

impl Closed {
    /// Writes a directory that has a handle down, for the server after this one: somebody may be in
    /// it, who would not look for it by its path. Files that are open are not closed, and others
    /// are looked for.
    pub fn put_away(&mut self, book: Option<&'static dyn NodeBook>, node: Node, references: u64) {
        if let (Some(book), Some(handle), FileKind::Directory) = (book, &self.handle, self.kind) {
            let [head, first, second, third] = handle.words();
            let (device, inode) = self.identity;
            let traces = [device, inode, self.birth, head, first, second, third];
            let place = book.put_away(node.0, references, &traces);
            self.away = place.map_or(0, |place| place + 1);
        }
    }

    /// What a server before this one has put away in `place`.
    pub fn from_traces(place: u32, traces: &Traces) -> Self {
        let [device, inode, birth, handle @ ..] = *traces;
        Self {
            identity: (device, inode),
            birth,
            kind: FileKind::Directory,
            handle: Some(Handle::from_words(handle)),
            away: place + 1,
        }
    }

    /// The front end has `references` on it.
    pub fn note(&self, book: Option<&'static dyn NodeBook>, references: u64) {
        if let (Some(book), Some(place)) = (book, self.away.checked_sub(1)) {
            book.count(place, references);
        }
    }

    /// It is not closed any more, or not known.
    pub fn take_back(&self, book: Option<&'static dyn NodeBook>) {
        if let (Some(book), Some(place)) = (book, self.away.checked_sub(1)) {
            book.take_back(place);
        }
    }
}

/// When the inode was made, as one number; 0 where the file system does not say.
pub(super) fn birth(status: &statx) -> u64 {
    match status.stx_mask & linux::STATX_BTIME {
        0 => 0,
        _ => (status.stx_btime.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(status.stx_btime.tv_nsec)),
    }
}

/// Closes nodes and opens them again.
pub(super) struct Closing {
    /// How many may be open.
    pub limit: usize,
    /// By which handles are opened: a description on the root, and the number of the mount that it
    /// is on; none: handles are not to be had here.
    handles: Option<(OwnedFd, u64)>,
}

impl Closing {
    /// Of nodes below `root`, of which `limit` may have a descriptor.
    pub fn new(root: &OwnedFd, limit: usize) -> Self {
        Self {
            limit,
            handles: handles(root),
        }
    }

    /// Whether what `status` describes can be opened by a handle. Not what is on another mount,
    /// whose handles mean nothing here.
    pub fn has_handle(&self, status: &statx) -> bool {
        let mount = self.handles.as_ref().map(|(_, mount)| *mount);
        mount == Some(status.stx_mnt_id)
    }

    /// Whether names matter at all.
    pub const fn by_handles(&self) -> bool {
        self.handles.is_some()
    }

    /// What is to be remembered of `object` before its descriptor is closed; none when it must stay
    /// open: it has no name any more, or none that is known (`named`).
    pub fn close(&self, object: &Object, named: bool) -> Option<Closed> {
        let status = kernel::status(object.fd(), None).ok()?;
        if status.stx_nlink == 0 {
            return None;
        }
        let handle = self.has_handle(&status).then(|| handle_of(object.fd()));
        let handle = handle.and_then(Result::ok);
        (handle.is_some() || named).then(|| Closed {
            identity: object.identity,
            birth: birth(&status),
            kind: object.kind,
            handle,
            away: 0,
        })
    }

    /// A descriptor on what `closed` was. `place`: the directory and the name in it, which matter
    /// without a handle.
    ///
    /// # Errors
    /// `ESTALE`: it is gone, or elsewhere.
    pub fn open(&self, closed: &Closed, place: (impl AsFd, Option<&Name>)) -> Result<OwnedFd> {
        let opened = by_own_right(|| match (closed.handle, &self.handles, place) {
            (Some(handle), Some((mount, _)), _) => open_handle(mount, &handle),
            (_, _, (dir, Some(name))) => kernel::open_place(dir, name),
            _ => Err(Errno::ESTALE.into()),
        });
        let opened = opened.map_err(|error| match error.errno() {
            Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP => Errno::ESTALE.into(),
            _ => error,
        })?;
        let status = kernel::status(&opened, None)?;
        match (identity(&status), birth(&status)) == (closed.identity, closed.birth) {
            true => Ok(opened),
            false => Err(Errno::ESTALE.into()),
        }
    }
}

/// A description on directory `root` by which handles can be opened, and its mount; none where the
/// file system has no handles, or this process lacks `CAP_DAC_READ_SEARCH`.
fn handles(root: &OwnedFd) -> Option<(OwnedFd, u64)> {
    let status = kernel::status(root, None).ok()?;
    let handle = handle_of(root).ok()?;
    // Not with O_PATH: `open_by_handle_at` takes no such descriptor (`get_path_anchor`,
    // fs/fhandle.c).
    let mount = kernel::open_directory(root, 0, 0).ok()?;
    let back = open_handle(&mount, &handle).ok()?;
    let found = kernel::status(&back, None).ok()?;
    // Linux 5.8 tells mounts apart.
    (identity(&found) == identity(&status) && status.stx_mnt_id != 0)
        .then_some((mount, status.stx_mnt_id))
}

/// name_to_handle_at(2) of what `fd` is.
fn handle_of(fd: impl AsFd) -> Result<Handle> {
    let mut handle = Handle {
        length: LONGEST as u32,
        kind: 0,
        bytes: [0; LONGEST],
    };
    let mut mount = 0i32;
    // SAFETY: the path is NUL-terminated; the kernel writes the handle, at most as long as it says,
    // and the mount's number.
    unsafe {
        syscall::call(
            nr::NAME_TO_HANDLE_AT,
            [
                fd.as_fd().raw() as usize,
                c"".as_ptr() as usize,
                (&raw mut handle) as usize,
                (&raw mut mount) as usize,
                kernel::AT_EMPTY_PATH as usize,
            ],
        )?;
    }
    Ok(handle)
}

/// The kind of the handle of what `fd` is, and its bytes (name_to_handle_at(2)).
pub fn file_handle(fd: BorrowedFd<'_>) -> Result<(u32, Vec<u8>)> {
    let handle = handle_of(fd)?;
    let bytes = handle.bytes.get(..handle.length as usize);
    Ok((handle.kind as u32, bytes.ok_or(Errno::EOVERFLOW)?.to_vec()))
}

/// The identity of the file system that `fd`, an open directory, lies on (`FS_IOC_GETFSUUID`, Linux
/// 6.9); none: the kernel does not say.
pub fn file_system_identity(fd: BorrowedFd<'_>) -> Option<[u8; 16]> {
    /// `struct fsuuid2`: length and bytes.
    const GET_UUID: usize = 0x8011_1500;
    let mut found = [0u8; 17];
    // SAFETY: the kernel writes what the request says, 17 bytes.
    let asked = unsafe {
        let to = (&raw mut found) as usize;
        syscall::call(nr::IOCTL, [fd.raw() as usize, GET_UUID, to])
    };
    asked.ok()?;
    found[1..].first_chunk().copied()
}

/// open_by_handle_at(2), with `O_PATH`.
fn open_handle(mount: &OwnedFd, handle: &Handle) -> Result<OwnedFd> {
    let flags = kernel::O_PATH | kernel::O_NOFOLLOW | kernel::O_CLOEXEC;
    let arguments = [
        mount.raw() as usize,
        (&raw const *handle) as usize,
        flags as usize,
    ];
    // SAFETY: the kernel reads the handle, as long as it says.
    let fd = unsafe { syscall::call(nr::OPEN_BY_HANDLE_AT, arguments) }?;
    Ok(OwnedFd::from_raw(fd as i32))
}

/// Runs `run` as the process itself, should the thread act as another user: whoever has a node had
/// the right to come to it.
fn by_own_right<R>(run: impl FnOnce() -> R) -> R {
    const ASK: u32 = u32::MAX;
    let own = process::geteuid();
    let acting = process::setfsuid(ASK);
    if acting == own {
        return run();
    }
    // Of each, the lower 32 and the upper ones: effective, permitted and inheritable.
    let rights = process::capget();
    process::setfsuid(own);
    let result = run();
    process::setfsuid(acting);
    // To be another user again has taken all rights over files, those as well that the thread had
    // been given.
    if let Ok(rights) = rights {
        // It fails for nothing that the thread had before.
        let _ = process::capset(&rights);
    }
    result
}
