//! Open files.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::{Fuse, address, checked};
use crate::{
    abi::{Buf, BufVec, EntryParam, FileInfo, Req},
    files::zeroed,
    reply,
};
use libc::{flock, mode_t, off_t};
use std::{
    cell::RefCell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
};

thread_local! {
    /// What is read.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Fuse {
    pub(super) unsafe fn open(&self, node: u64, file: *mut FileInfo) -> Result<(), c_int> {
        let path = self.path(node, None)?;
        let path = path.path.as_ptr();
        if let Some(function) = self.operations.open {
            checked(function(path, file))?;
        }
        self.cached(node, path, file);
        self.tree.with(node, |node| node.opens += 1);
        Ok(())
    }

    /// What options say of the kernel's cache of a file that is open now.
    unsafe fn cached(&self, node: u64, path: *const c_char, file: *mut FileInfo) {
        let config = self.config();
        let switches = [
            (config.direct_io, FileInfo::DIRECT_IO),
            (config.kernel_cache, FileInfo::KEEP_CACHE),
            (
                config.parallel_direct_writes,
                FileInfo::PARALLEL_DIRECT_WRITES,
            ),
        ];
        for (_, bit) in switches.iter().filter(|(on, _)| *on != 0) {
            (*file).bits |= bit;
        }
        if config.no_rofd_flush != 0 && (*file).flags & libc::O_ACCMODE == libc::O_RDONLY {
            (*file).bits |= FileInfo::NOFLUSH;
        }
        if config.auto_cache != 0
            && let Ok(stat) = self.stat(path, file)
        {
            let now = Some((stat.st_size, stat.st_mtime, stat.st_mtime_nsec));
            let before = self
                .tree
                .with(node, |node| std::mem::replace(&mut node.seen, now));
            if before.flatten() == now {
                (*file).bits |= FileInfo::KEEP_CACHE;
            }
        }
    }

    pub(super) unsafe fn create(
        &self,
        parent: u64,
        name: &CStr,
        mode: mode_t,
        file: *mut FileInfo,
    ) -> Result<EntryParam, c_int> {
        let locked = self.path(parent, Some(name))?;
        let path = locked.path.as_ptr();
        let function = self.operations.create.ok_or(libc::ENOSYS)?;
        checked(function(path, mode, file))?;
        let entry = self.entry(parent, name, path, file);
        let entry = entry.and_then(|entry| match entry.attr.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(entry),
            _ => {
                self.tree.forget(entry.ino, 1);
                Err(libc::EIO)
            }
        });
        match entry {
            Ok(entry) => {
                self.tree.with(entry.ino, |node| node.opens += 1);
                self.cached(entry.ino, path, file);
                Ok(entry)
            }
            Err(errno) => {
                if let Some(release) = self.operations.release {
                    release(path, file);
                }
                Err(errno)
            }
        }
    }

    pub(super) unsafe fn release(&self, node: u64, file: *mut FileInfo) -> Result<(), c_int> {
        // A file that has lost its name is closed all the same.
        let path = self.path(node, None).ok();
        let place = match &path {
            Some(path) => path.path.as_ptr(),
            None if self.config().nullpath_ok != 0 => ptr::null(),
            // What has no name is told as one that nothing has.
            None => c"-".as_ptr(),
        };
        let flushed = match (*file).has(FileInfo::FLUSH) && self.operations.flush.is_some() {
            true => self.flushed(place, file),
            false => Ok(()),
        };
        if let Some(function) = self.operations.release {
            function(place, file);
        }
        let last = self.tree.with(node, |node| {
            node.opens = node.opens.saturating_sub(1);
            node.opens == 0 && std::mem::take(&mut node.hidden)
        });
        if let (Some(true), Some(path), Some(unlink)) = (last, &path, self.operations.unlink) {
            unlink(path.path.as_ptr());
        }
        flushed
    }

    pub(super) unsafe fn read(
        &self,
        req: *mut Req,
        node: u64,
        size: usize,
        offset: off_t,
        file: *mut FileInfo,
    ) {
        let path = match self.open_path(node) {
            Ok(path) => path,
            Err(errno) => {
                reply::reply_err(req, errno);
                return;
            }
        };
        let place = address(path.as_ref());
        if let Some(function) = self.operations.read_buf {
            let mut buffer = ptr::null_mut();
            match checked(function(place, &raw mut buffer, size, offset, file)) {
                Ok(_) if !buffer.is_null() => {
                    reply::reply_data(req, buffer, 0);
                }
                Ok(_) => {
                    reply::reply_err(req, libc::EIO);
                }
                Err(errno) => {
                    reply::reply_err(req, errno);
                }
            }
            if !buffer.is_null() {
                let all = std::slice::from_raw_parts(&raw const (*buffer).first, (*buffer).count);
                for one in all.iter().filter(|one| one.flags & Buf::IS_FD == 0) {
                    libc::free(one.mem);
                }
                libc::free(buffer.cast());
            }
            return;
        }
        let Some(function) = self.operations.read else {
            reply::reply_err(req, libc::ENOSYS);
            return;
        };
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let bytes = buffer.as_mut_ptr().cast::<c_char>();
            match checked(function(place, bytes, size, offset, file)) {
                Ok(count) if count as usize <= size => reply::reply_buf(req, bytes, count as usize),
                Ok(_) => {
                    crate::log::say("read too many bytes");
                    reply::reply_err(req, libc::EIO)
                }
                Err(errno) => reply::reply_err(req, errno),
            };
        });
    }

    pub(super) unsafe fn write(
        &self,
        node: u64,
        bytes: *const c_char,
        size: usize,
        offset: off_t,
        file: *mut FileInfo,
    ) -> Result<usize, c_int> {
        let path = self.open_path(node)?;
        let path = address(path.as_ref());
        let count = match (self.operations.write_buf, self.operations.write) {
            (Some(function), _) => {
                let mut buffer = BufVec::of(Buf::memory(bytes.cast_mut().cast(), size));
                checked(function(path, &raw mut buffer, offset, file))?
            }
            (None, Some(function)) => checked(function(path, bytes, size, offset, file))?,
            (None, None) => return Err(libc::ENOSYS),
        };
        match count as usize <= size {
            true => Ok(count as usize),
            false => Err(libc::EIO),
        }
    }

    /// Flushes, and gives back the locks of who closes.
    unsafe fn flushed(&self, path: *const c_char, file: *mut FileInfo) -> Result<(), c_int> {
        let result = match self.operations.flush {
            Some(function) => checked(function(path, file)).map(drop),
            None => Err(libc::ENOSYS),
        };
        if let Some(function) = self.operations.lock {
            let mut lock: flock = zeroed();
            lock.l_type = libc::F_UNLCK as i16;
            lock.l_whence = libc::SEEK_SET as i16;
            function(path, file, libc::F_SETLK, &raw mut lock);
            if result == Err(libc::ENOSYS) {
                return Ok(());
            }
        }
        result
    }

    pub(super) unsafe fn flush(&self, node: u64, file: *mut FileInfo) -> Result<(), c_int> {
        let path = self.open_path(node)?;
        self.flushed(address(path.as_ref()), file)
    }

    pub(super) unsafe fn fsync(
        &self,
        node: u64,
        data_only: c_int,
        file: *mut FileInfo,
    ) -> Result<(), c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.fsync.ok_or(libc::ENOSYS)?;
        checked(function(address(path.as_ref()), data_only, file)).map(drop)
    }

    pub(super) unsafe fn lock(
        &self,
        node: u64,
        file: *mut FileInfo,
        command: c_int,
        lock: *mut flock,
    ) -> Result<(), c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.lock.ok_or(libc::ENOSYS)?;
        checked(function(address(path.as_ref()), file, command, lock)).map(drop)
    }

    pub(super) unsafe fn flock(
        &self,
        node: u64,
        file: *mut FileInfo,
        operation: c_int,
    ) -> Result<(), c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.flock.ok_or(libc::ENOSYS)?;
        checked(function(address(path.as_ref()), file, operation)).map(drop)
    }

    pub(super) unsafe fn fallocate(
        &self,
        node: u64,
        mode: c_int,
        offset: off_t,
        length: off_t,
        file: *mut FileInfo,
    ) -> Result<(), c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.fallocate.ok_or(libc::ENOSYS)?;
        checked(function(address(path.as_ref()), mode, offset, length, file)).map(drop)
    }

    pub(super) unsafe fn bmap(&self, node: u64, size: usize, mut index: u64) -> Result<u64, c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.bmap.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr(), size, &raw mut index))?;
        Ok(index)
    }

    /// ioctl(2) with its command, argument and flags: the result and the bytes that go out.
    pub(super) unsafe fn ioctl(
        &self,
        node: u64,
        (command, argument, flags): (c_uint, *mut c_void, c_uint),
        file: *mut FileInfo,
        input: &[u8],
        output_size: usize,
    ) -> Result<(c_int, Vec<u8>), c_int> {
        use culvert_wire::structures::IoctlIn;
        if flags & IoctlIn::UNRESTRICTED != 0 {
            return Err(libc::EPERM);
        }
        let path = self.open_path(node)?;
        let function = self.operations.ioctl.ok_or(libc::ENOSYS)?;
        let mut of_directory = FileInfo::default();
        let mut file = file;
        if flags & IoctlIn::DIRECTORY != 0 {
            of_directory = self.directory_file(file);
            file = &raw mut of_directory;
        }
        let mut bytes = input.to_vec();
        bytes.resize(input.len().max(output_size), 0);
        let place = match bytes.is_empty() {
            true => ptr::null_mut(),
            false => bytes.as_mut_ptr().cast::<c_void>(),
        };
        let path = address(path.as_ref());
        let result = checked(function(path, command, argument, file, flags, place))?;
        let _ = of_directory;
        bytes.truncate(output_size);
        Ok((result, bytes))
    }

    pub(super) unsafe fn poll(
        &self,
        node: u64,
        file: *mut FileInfo,
        handle: *mut c_void,
    ) -> Result<c_uint, c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.poll.ok_or(libc::ENOSYS)?;
        let mut ready = 0;
        checked(function(
            address(path.as_ref()),
            file,
            handle,
            &raw mut ready,
        ))?;
        Ok(ready)
    }

    pub(super) unsafe fn copy(
        &self,
        (node, file, offset): (u64, *mut FileInfo, off_t),
        (to, to_file, to_offset): (u64, *mut FileInfo, off_t),
        size: usize,
        flags: c_int,
    ) -> Result<usize, c_int> {
        let (from, into) = (self.open_path(node)?, self.open_path(to)?);
        let function = self.operations.copy_file_range.ok_or(libc::ENOSYS)?;
        let (from, into) = (address(from.as_ref()), address(into.as_ref()));
        match function(from, file, offset, into, to_file, to_offset, size, flags) {
            count @ 0.. => Ok(count as usize),
            error => Err(-error as c_int),
        }
    }

    pub(super) unsafe fn lseek(
        &self,
        node: u64,
        offset: off_t,
        whence: c_int,
        file: *mut FileInfo,
    ) -> Result<off_t, c_int> {
        let path = self.open_path(node)?;
        let function = self.operations.lseek.ok_or(libc::ENOSYS)?;
        match function(address(path.as_ref()), offset, whence, file) {
            offset @ 0.. => Ok(offset),
            error => Err(-error as c_int),
        }
    }
}
