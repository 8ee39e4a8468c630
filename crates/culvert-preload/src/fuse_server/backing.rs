//! Backing files that the server registers for passthrough (`FUSE_DEV_IOC_BACKING_OPEN`,
//! fs/fuse/backing.c). This process keeps a descriptor of its own on each, which clients find.

use super::{State, trusted};
use alloc::vec::Vec;
use culvert::Errno;
use culvert_drivers::KeptFd;
use culvert_run::{internal, memory};
use culvert_slots::backing;
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::{BorrowedFd, OwnedFd, sync::Mutex};

/// Those of this process, by number; numbers begin with 1 (`idr_alloc_cyclic`).
#[derive(Debug)]
pub struct BackingFiles(Mutex<(i32, Vec<(i32, KeptFd)>)>);

impl BackingFiles {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new((0, Vec::new())))
    }
}

impl State {
    /// The number of the file that `struct fuse_backing_map` at `argument` names.
    pub(super) fn open_backing(&self, argument: usize) -> Result<usize, Errno> {
        let fd = memory::get::<i32>(argument)?;
        let flags = memory::get::<u32>(argument.wrapping_add(4))?;
        let padding = memory::get::<u64>(argument.wrapping_add(8))?;
        if flags != 0 || padding != 0 {
            return Err(Errno::EINVAL);
        }
        let directory = trusted(&self.directory)?;
        let copy = fcntl(BorrowedFd::number(fd), Command::DUPFD_CLOEXEC, 0)?;
        let own = internal::keeper().keep(OwnedFd::from_raw(copy as i32));
        let mut files = self.backing.0.lock();
        let id = files.0.checked_add(1).ok_or(Errno::ENOSPC)?;
        backing::publish(&directory, id, own.raw())?;
        files.0 = id;
        files.1.push((id, own));
        Ok(id as usize)
    }

    /// The number at `argument` means no file any more.
    pub(super) fn close_backing(&self, argument: usize) -> Result<usize, Errno> {
        let id = memory::get::<i32>(argument)?;
        let mut files = self.backing.0.lock();
        let at = files.1.iter().position(|(number, _)| *number == id);
        let (_, own) = files.1.swap_remove(at.ok_or(Errno::ENOENT)?);
        drop(files);
        let _ = backing::withdraw(&trusted(&self.directory)?, id);
        drop(own);
        Ok(0)
    }
}
