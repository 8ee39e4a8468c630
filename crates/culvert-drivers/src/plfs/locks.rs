//! The two files of a container by whose flock(2) appends exclude each other.
//!
//! They are regular files because NFS and GlusterFS carry their locks to all machines; the kernel
//! keeps those of directories on each machine (`nfs_dir_operations` and `fuse_dir_operations` have
//! no `flock`). The first process that needs one makes it. PLFS takes no note of them.
//!
//! Whoever may lock one can keep all others from appending for as long as he likes. So those who
//! may write the file may open them, and nobody else: not who may only read it.
//!
//! Those of programs' record locks are a third one's, [`RECORDS`], which nobody else opens; who may
//! read or write the file may open it, as with any file.
//!
//! The length of [`APPENDS`] says how often the file was cut, so that a writer need not read its
//! own records at its close.

use super::host;
use super::layout::ACCESS;
use super::setup::unused;
use crate::OwnedFd;
use crate::passthrough::attributes::{Target, change};
use crate::passthrough::kernel::Name;
use alloc::vec::Vec;
use culvert::{Errno, Error, Result, SetAttributes};
use culvert_sync_wire::{APPENDS, HOLDER};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::{AtFlags, RenameFlags};
use culvert_sys::fs;
use culvert_sys::raw::general::{self as linux, statx};

/// Their names.
pub const NAMES: [&[u8]; 2] = [APPENDS.as_bytes(), HOLDER.as_bytes()];

/// The file whose record locks are those of the container.
pub const RECORDS: &[u8] = b".culvert-locks";

/// Its mode, for a file of `mode`.
pub const fn records_mode(mode: u32) -> u32 {
    0o600 | mode & 0o666
}

/// Their mode, for a file of `mode`: who may write the file may lock them, and the owner always.
pub const fn lock_mode(mode: u32) -> u32 {
    let write = mode & 0o222;
    0o600 | write | write << 1
}

/// Opens `name` in `container`, and makes it if there is none.
pub fn open(container: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    match open_found(container, name)? {
        Some(found) => Ok(found),
        None => {
            make(container, name)?;
            open_found(container, name)?.ok_or_else(|| Errno::ENOENT.into())
        }
    }
}

/// Opens `name` in `container`; none if nobody has made it yet.
pub fn open_found(container: BorrowedFd<'_>, name: &[u8]) -> Result<Option<OwnedFd>> {
    // NFS wants a writable descriptor for an exclusive lock, and a readable one for a shared lock.
    let modes = [linux::O_RDWR, linux::O_WRONLY, linux::O_RDONLY];
    let mut refused = Error::from(Errno::EACCES);
    for mode in modes {
        match host::open(container, name, mode | linux::O_NONBLOCK, 0) {
            Ok(found) => return Ok(Some(found)),
            Err(error) if error.errno() == Errno::ENOENT => return Ok(None),
            Err(error) if error.errno() == Errno::EACCES => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// Makes `name`, with its group and its mode from the beginning, whatever the umask.
fn make(container: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let staged: Vec<u8> = unused();
    let name = Name::new(name)?;
    let modes = if name.bytes() == RECORDS {
        records_mode
    } else {
        lock_mode
    };
    let made = create(container, &staged, modes).and_then(|()| {
        let from = Name::new(&staged)?;
        let (from, to) = (from.terminated(), name.terminated());
        let linked = fs::linkat(container, from, container, to, AtFlags::empty());
        Ok(match linked {
            // The file system has no hard links.
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK) => {
                let flags = RenameFlags::NOREPLACE;
                fs::renameat2(container, from, container, to, flags)
            }
            linked => linked,
        })
    });
    // It has been renamed, perhaps.
    let _ = host::unlink(container, &staged, false);
    match made? {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // Nor that: for a moment the file has a narrower mode.
        Err(Errno::EINVAL | Errno::ENOSYS) => match create(container, name.bytes(), modes) {
            Err(error) if error.errno() == Errno::EEXIST => Ok(()),
            made => made,
        },
        Err(errno) => Err(errno.into()),
    }
}

/// Makes both in a container that others than its owner may write, so that they are the owner's,
/// whose later chmod(2) reaches them.
pub fn make_shared(container: BorrowedFd<'_>, mode: u32) -> Result<()> {
    if mode & 0o022 == 0 {
        return Ok(());
    }
    for name in NAMES {
        if open_found(container, name)?.is_none() {
            make(container, name)?;
        }
    }
    Ok(())
}

/// `modes`: its mode, for that of the file.
fn create(container: BorrowedFd<'_>, name: &[u8], modes: fn(u32) -> u32) -> Result<()> {
    let flags = linux::O_RDWR | linux::O_CREAT | linux::O_EXCL;
    let made = host::open(container, name, flags, 0o600)?;
    let access = host::status(container, ACCESS)?;
    let mode = u32::from(access.stx_mode);
    let mode = match belongs(&made, &access)? {
        Whose::Owners | Whose::Groups => modes(mode),
        // All others may write, this one among them.
        Whose::Nobodys { .. } if mode & 0o002 != 0 => 0o666,
        // The owner's, who is not in the group that he has given the file to.
        Whose::Nobodys { own: true } => modes(mode) & !0o060,
        Whose::Nobodys { own: false } => {
            host::unlink(container, name, false)?;
            let text = "the owner of the file is to append to it, or lock it, first";
            return Err(Error::because(Errno::EACCES, text));
        }
    };
    Ok(fs::fchmod(&made, mode)?)
}

/// To whom a file in a container belongs.
pub enum Whose {
    /// To the owner and the group of the container.
    Owners,
    /// To its group, and to another one.
    Groups,
    /// Not to its group; to its owner, or to another one.
    Nobodys { own: bool },
}

/// Gives `made`, which this process has made in a container, to the owner and the group of that, as
/// far as it may.
pub fn belongs(made: &OwnedFd, access: &statx) -> Result<Whose> {
    let found = fs::fstat(made)?;
    let give = |uid, gid| {
        let changes = SetAttributes {
            uid,
            gid,
            ..SetAttributes::default()
        };
        change(Target::File(made.borrow()), &changes).is_ok()
    };
    let own = found.st_uid == access.stx_uid || give(Some(access.stx_uid), None);
    let group = found.st_gid == access.stx_gid || give(None, Some(access.stx_gid));
    Ok(match (own, group) {
        (true, true) => Whose::Owners,
        (false, true) => Whose::Groups,
        (own, false) => Whose::Nobodys { own },
    })
}

/// How often the file was cut.
pub fn cuts(container: BorrowedFd<'_>) -> Result<u64> {
    match host::status_now(container, APPENDS.as_bytes()) {
        Ok(status) => Ok(status.stx_size),
        Err(error) if error.errno() == Errno::ENOENT => Ok(0),
        Err(error) => Err(error),
    }
}

/// Counts a cut in `appends`, a descriptor of [`APPENDS`].
///
/// # Errors
/// `EFBIG`: beyond the limit of the process, where the kernel would end it by SIGXFSZ.
pub fn count_cut(appends: BorrowedFd<'_>) -> Result<()> {
    let next = fs::fstat(appends)?.st_size as u64 + 1;
    match next > host::file_size_limit() {
        true => Err(Errno::EFBIG.into()),
        false => Ok(fs::ftruncate(appends, next)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_the_file_may_lock() {
        assert_eq!(lock_mode(0o644), 0o600);
        assert_eq!(lock_mode(0o664), 0o660);
        assert_eq!(lock_mode(0o602), 0o606);
        assert_eq!(lock_mode(0o444), 0o600);
    }
}
