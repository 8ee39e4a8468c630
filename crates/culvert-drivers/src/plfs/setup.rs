//! What all containers of a mount have in common.

use super::host;
use super::hosts::SYNC;
use super::layout::{self, ACCESS};
use super::service::Service;
use super::shared::Shared;
use crate::{Keeper, KeptFd};
use alloc::{format, vec::Vec};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use culvert::Result;
use culvert_sys::clock::Clock;
use culvert_sys::fd::{AsFd, BorrowedFd};
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process};

/// A directory that holds containers.
pub struct Backend {
    /// Its absolute path, as metalinks name it.
    pub path: Vec<u8>,
    pub root: KeptFd,
}

/// See the module.
pub struct Setup {
    pub keeper: Keeper,
    pub backends: Vec<Backend>,
    /// Which of them hold containers, and which droppings.
    pub canonical: Vec<usize>,
    pub shadow: Vec<usize>,
    pub hostdirs: u64,
    pub host: Vec<u8>,
    /// The check sum of the back ends in version files.
    pub checksum: u32,
    pub shared: Shared,
    /// Who says where appends go; none: locks do.
    pub service: Option<Service>,
    pub lazy: bool,
    /// Changes of other processes are looked for at open and sync alone.
    pub at_sync: bool,
    pub lock_appends: bool,
    /// What is written reaches other machines when it is synced.
    pub syncs: bool,
    /// Most extents of an index in memory.
    pub extents: usize,
    /// Files are plain ones of the back ends: workload `file_per_proc`.
    pub flat: bool,
    pub read_only: bool,
    pub clock: Clock,
    /// The process's own table of descriptors; others are those of children of vfork(2), and of
    /// threads that have one of their own.
    pub home: AtomicUsize,
}

impl Setup {
    /// The directory of back end `at`.
    pub fn root(&self, at: usize) -> BorrowedFd<'_> {
        self.backends[at].root.fd()
    }

    /// The back end on which `path` has its container: by the hash of the last name.
    pub fn canonical_of(&self, path: &[u8]) -> usize {
        let name = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => &path[slash + 1..],
            None => path,
        };
        let name = if name.is_empty() { b"/" } else { name };
        self.canonical[layout::canonical(name, self.canonical.len())]
    }

    /// Nanoseconds since the epoch.
    pub fn nanoseconds(&self) -> u64 {
        let (seconds, nanoseconds) = self.clock.now();
        (seconds as u64).wrapping_mul(1_000_000_000) + u64::from(nanoseconds)
    }

    /// Seconds since the epoch, as records have them.
    pub fn seconds(&self) -> f64 {
        let (seconds, nanoseconds) = self.clock.now();
        seconds as f64 + f64::from(nanoseconds) / 1e9
    }

    /// Whether set-user-ID stays when this process writes.
    pub fn is_privileged(&self) -> bool {
        process::geteuid() == 0
    }

    /// Sets the times of content and of status of the file whose container is `dir` to the present.
    pub fn touch(&self, dir: impl AsFd) -> Result<()> {
        let flags = linux::O_WRONLY | linux::O_NONBLOCK;
        let cut = host::open(&dir, ACCESS, flags, 0).map(|access| fs::ftruncate(access, 0));
        if matches!(cut, Ok(Ok(()))) {
            return Ok(());
        }
        // Who may not open it any more sets that of access, too: the others alone are the owner's.
        let name = host::terminated(ACCESS)?;
        Ok(fs::utimensat(
            dir,
            Some(&name),
            None,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }
}

/// Begins the names of containers that are being made.
pub const NEW: &[u8] = b".culvert-new.";
/// The directory, on each back end, of removed containers that are still open.
pub const REMOVED: &[u8] = b".culvert-removed";

/// Whether `path` is the driver's own, and not to be seen.
pub fn is_reserved(path: &[u8]) -> bool {
    let own = |part: &[u8]| part.starts_with(NEW) || part.starts_with(REMOVED) || part == SYNC;
    path.split(|&byte| byte == b'/').any(own)
}

/// Whether the container at the absolute path `path` is a removed one.
pub fn is_aside(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|&byte| byte == b'/');
    parts.next().is_some_and(|name| name.starts_with(NEW)) && parts.next() == Some(REMOVED)
}

/// Numbers for names of what is being made.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A name that nobody else uses.
pub fn unused() -> Vec<u8> {
    let (pid, next) = (host::own_pid(), NEXT.fetch_add(1, SeqCst));
    [
        NEW,
        format!("{pid}.{next}.{:x}", crate::archive::host::random()).as_bytes(),
    ]
    .concat()
}
