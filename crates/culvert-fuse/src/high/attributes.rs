//! Attributes: of files, of the file system, extended ones.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::{Fuse, address, checked};
use crate::{
    abi::{Connection, FileInfo},
    files::zeroed,
    mutex::locked,
};
use culvert_wire::structures::SetattrIn;
use libc::{stat, statvfs, timespec};
use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::Ordering::SeqCst,
};

impl Fuse {
    pub(super) unsafe fn init(&self, connection: *mut Connection) {
        self.enter_alone();
        let Some(function) = self.operations.init else {
            return;
        };
        let mut config = self.config();
        let data = function(connection, &raw mut config);
        self.data.store(data, SeqCst);
        if self.version >= 30 {
            *locked(&self.config) = config;
        }
        if config.remember != 0 {
            self.tree.keep();
        }
    }

    /// What the file system says of `path`, or of the open `file`.
    pub(super) unsafe fn stat(
        &self,
        path: *const c_char,
        file: *mut FileInfo,
    ) -> Result<stat, c_int> {
        let mut stat: stat = zeroed();
        let operations = &self.operations;
        let of_open = operations
            .fgetattr
            .filter(|_| self.version < 30 && !file.is_null());
        let function = of_open.or(operations.getattr).ok_or(libc::ENOSYS)?;
        checked(function(path, &raw mut stat, file))?;
        Ok(stat)
    }

    /// `stat` as options want it, of `node`.
    pub(super) fn shown(&self, node: u64, mut stat: stat) -> stat {
        let config = self.config();
        if config.use_ino == 0 {
            stat.st_ino = node;
        }
        if config.set_mode != 0 {
            stat.st_mode = stat.st_mode & libc::S_IFMT | 0o777 & !config.umask;
        }
        if config.set_uid != 0 {
            stat.st_uid = config.uid;
        }
        if config.set_gid != 0 {
            stat.st_gid = config.gid;
        }
        // Its last name is one that nobody knows.
        if self.tree.with(node, |node| node.hidden) == Some(true) {
            stat.st_nlink = stat.st_nlink.saturating_sub(1);
        }
        stat
    }

    pub(super) unsafe fn getattr(&self, node: u64, file: *mut FileInfo) -> Result<stat, c_int> {
        let path = match file.is_null() {
            true => Some(self.path(node, None)?),
            false => self.open_path(node)?,
        };
        let stat = self.stat(address(path.as_ref()), file)?;
        Ok(self.shown(node, stat))
    }

    pub(super) unsafe fn setattr(
        &self,
        node: u64,
        new: &stat,
        to_set: u32,
        file: *mut FileInfo,
    ) -> Result<stat, c_int> {
        let locked = match file.is_null() {
            true => Some(self.path(node, None)?),
            false => self.open_path(node)?,
        };
        let path = address(locked.as_ref());
        let own = &self.operations;
        let has = |bit: u32| to_set & bit != 0;
        if has(SetattrIn::MODE) {
            let function = own.chmod.ok_or(libc::ENOSYS)?;
            checked(function(path, new.st_mode, file))?;
        }
        if has(SetattrIn::UID | SetattrIn::GID) {
            let of = |bit, id| if has(bit) { id } else { u32::MAX };
            let (uid, gid) = (
                of(SetattrIn::UID, new.st_uid),
                of(SetattrIn::GID, new.st_gid),
            );
            let function = own.chown.ok_or(libc::ENOSYS)?;
            checked(function(path, uid, gid, file))?;
        }
        if has(SetattrIn::SIZE) {
            let of_open = own
                .ftruncate
                .filter(|_| self.version < 30 && !file.is_null());
            let function = of_open.or(own.truncate).ok_or(libc::ENOSYS)?;
            checked(function(path, new.st_size, file))?;
        }
        if has(SetattrIn::ATIME | SetattrIn::MTIME) {
            self.set_times(path, new, to_set, file)?;
        }
        let stat = self.stat(path, file)?;
        Ok(self.shown(node, stat))
    }

    unsafe fn set_times(
        &self,
        path: *const c_char,
        new: &stat,
        to_set: u32,
        file: *mut FileInfo,
    ) -> Result<(), c_int> {
        let has = |bit: u32| to_set & bit != 0;
        let flags = self.operations.flags.map_or(0, |flags| flags as usize);
        // In version 2 a file system says whether it knows UTIME_NOW and UTIME_OMIT.
        let knows = self.version >= 30 || flags & 4 != 0;
        let before = match knows || has(SetattrIn::ATIME) && has(SetattrIn::MTIME) {
            true => zeroed(),
            false => self.stat(path, file)?,
        };
        let mut now: timespec = zeroed();
        if !knows {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        }
        let time = |bit, bit_now, given: timespec, before: timespec| match (has(bit), has(bit_now))
        {
            (true, true) if knows => timespec {
                tv_sec: 0,
                tv_nsec: libc::UTIME_NOW,
            },
            (true, true) => now,
            (true, false) => given,
            (false, _) if knows => timespec {
                tv_sec: 0,
                tv_nsec: libc::UTIME_OMIT,
            },
            (false, _) => before,
        };
        let of = |tv_sec, tv_nsec| timespec { tv_sec, tv_nsec };
        let times = [
            time(
                SetattrIn::ATIME,
                SetattrIn::ATIME_NOW,
                of(new.st_atime, new.st_atime_nsec),
                of(before.st_atime, before.st_atime_nsec),
            ),
            time(
                SetattrIn::MTIME,
                SetattrIn::MTIME_NOW,
                of(new.st_mtime, new.st_mtime_nsec),
                of(before.st_mtime, before.st_mtime_nsec),
            ),
        ];
        if let Some(function) = self.operations.utimens {
            return checked(function(path, times.as_ptr(), file)).map(drop);
        }
        let function = self.operations.utime.filter(|_| self.version < 30);
        let mut seconds = times.map(|time| time.tv_sec);
        let function = function.ok_or(libc::ENOSYS)?;
        checked(function(path, &raw mut seconds)).map(drop)
    }

    pub(super) unsafe fn access(&self, node: u64, mask: c_int) -> Result<(), c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.access.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr(), mask)).map(drop)
    }

    pub(super) unsafe fn statfs(&self, node: u64) -> Result<statvfs, c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.statfs.ok_or(libc::ENOSYS)?;
        let mut system: statvfs = zeroed();
        if self.version >= 25 {
            checked(function(path.path.as_ptr(), (&raw mut system).cast()))?;
            return Ok(system);
        }
        let mut older: libc::statfs = zeroed();
        checked(function(path.path.as_ptr(), (&raw mut older).cast()))?;
        system.f_bsize = older.f_bsize as u64;
        system.f_frsize = older.f_bsize as u64;
        (system.f_blocks, system.f_bfree) = (older.f_blocks, older.f_bfree);
        system.f_bavail = older.f_bavail;
        (system.f_files, system.f_ffree) = (older.f_files, older.f_ffree);
        system.f_namemax = older.f_namelen as u64;
        Ok(system)
    }

    pub(super) unsafe fn setxattr(
        &self,
        node: u64,
        key: *const c_char,
        value: *const c_char,
        size: usize,
        flags: c_int,
    ) -> Result<(), c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.setxattr.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr(), key, value, size, flags)).map(drop)
    }

    pub(super) unsafe fn removexattr(&self, node: u64, key: *const c_char) -> Result<(), c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.removexattr.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr(), key)).map(drop)
    }

    /// The length of a value of at most `size` bytes, and it.
    pub(super) unsafe fn getxattr(
        &self,
        node: u64,
        key: *const c_char,
        size: usize,
    ) -> (usize, Result<Vec<u8>, c_int>) {
        let Some(function) = self.operations.getxattr else {
            return (0, Err(libc::ENOSYS));
        };
        self.value(node, size, &mut |path, place| {
            function(path, key, place, size)
        })
    }

    /// The same of the list of names.
    pub(super) unsafe fn listxattr(
        &self,
        node: u64,
        size: usize,
    ) -> (usize, Result<Vec<u8>, c_int>) {
        let Some(function) = self.operations.listxattr else {
            return (0, Err(libc::ENOSYS));
        };
        self.value(node, size, &mut |path, place| function(path, place, size))
    }

    fn value(
        &self,
        node: u64,
        size: usize,
        ask: &mut dyn FnMut(*const c_char, *mut c_char) -> c_int,
    ) -> (usize, Result<Vec<u8>, c_int>) {
        let path = match self.path(node, None) {
            Ok(path) => path,
            Err(errno) => return (0, Err(errno)),
        };
        let mut bytes = vec![0_u8; size];
        let place = match size {
            0 => ptr::null_mut(),
            _ => bytes.as_mut_ptr().cast::<c_void>(),
        };
        match checked(ask(path.path.as_ptr(), place.cast())) {
            Ok(length) if size == 0 || length as usize <= size => {
                bytes.truncate(length as usize);
                (length as usize, Ok(bytes))
            }
            Ok(_) => (0, Err(libc::EIO)),
            Err(errno) => (0, Err(errno)),
        }
    }
}
