//! The functions by nodes that serve those by paths.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::Fuse;
use crate::{
    abi::{Connection, EntryParam, FileInfo, ForgetData, LowLevel, Operations, Req},
    files::zeroed,
    reply, request,
};
use libc::{dev_t, flock, mode_t, off_t, stat};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    sync::atomic::Ordering::SeqCst,
};

/// Those that `own` has something for.
pub fn table(own: &Operations) -> LowLevel {
    /// The function, where the file system has one of those.
    macro_rules! with {
        ($function:ident, $($name:ident)|+) => {
            match () {
                () if $(own.$name.is_some())||+ => Some($function),
                () => None,
            }
        };
    }
    LowLevel {
        init: Some(init),
        destroy: Some(destroy),
        lookup: Some(lookup),
        forget: Some(forget),
        forget_multi: Some(forget_multi),
        getattr: Some(getattr),
        setattr: Some(setattr),
        readlink: with!(readlink, readlink),
        mknod: with!(mknod, mknod | create),
        mkdir: with!(mkdir, mkdir),
        unlink: with!(unlink, unlink),
        rmdir: with!(rmdir, rmdir),
        symlink: with!(symlink, symlink),
        rename: with!(rename, rename),
        link: with!(link, link),
        open: Some(open),
        read: with!(read, read | read_buf),
        write: with!(write, write | write_buf),
        flush: with!(flush, flush | lock),
        release: Some(release),
        fsync: with!(fsync, fsync),
        opendir: Some(opendir),
        readdir: with!(readdir, readdir | getdir),
        readdirplus: with!(readdirplus, readdir),
        releasedir: Some(releasedir),
        fsyncdir: with!(fsyncdir, fsyncdir),
        statfs: with!(statfs, statfs),
        setxattr: with!(setxattr, setxattr),
        getxattr: with!(getxattr, getxattr),
        listxattr: with!(listxattr, listxattr),
        removexattr: with!(removexattr, removexattr),
        access: with!(access, access),
        create: with!(create, create),
        getlk: with!(getlk, lock),
        setlk: with!(setlk, lock),
        flock: with!(flock_of, flock),
        bmap: with!(bmap, bmap),
        ioctl: with!(ioctl, ioctl),
        poll: with!(poll, poll),
        fallocate: with!(fallocate, fallocate),
        copy_file_range: with!(copy_file_range, copy_file_range),
        lseek: with!(lseek, lseek),
        ..LowLevel::NONE
    }
}

unsafe fn of(req: *mut Req) -> &'static Fuse {
    &*request::userdata(req).cast::<Fuse>()
}

unsafe fn done(req: *mut Req, result: Result<(), c_int>) {
    reply::reply_err(req, result.err().unwrap_or(0));
}

unsafe fn entered(req: *mut Req, fuse: &Fuse, result: Result<EntryParam, c_int>) {
    match result {
        Ok(entry) => {
            if reply::reply_entry(req, &raw const entry) == -libc::ENOENT {
                // Nobody has heard of the lookup.
                fuse.tree.forget(entry.ino, 1);
            }
        }
        Err(errno) => {
            reply::reply_err(req, errno);
        }
    }
}

unsafe fn name<'a>(name: *const c_char) -> &'a CStr {
    CStr::from_ptr(name)
}

/// Functions that reply with an error or with nothing.
macro_rules! plain {
    ($($name:ident($($argument:ident : $type:ty),*) = $fuse:ident => $call:expr;)*) => {$(
        unsafe extern "C" fn $name(req: *mut Req $(, $argument: $type)*) {
            let $fuse = of(req);
            $fuse.enter(req);
            let result = $call;
            done(req, result)
        }
    )*};
}

/// Functions that reply with a node.
macro_rules! entries {
    ($($name:ident($($argument:ident : $type:ty),*) = $fuse:ident => $call:expr;)*) => {$(
        unsafe extern "C" fn $name(req: *mut Req $(, $argument: $type)*) {
            let $fuse = of(req);
            $fuse.enter(req);
            let result = $call;
            entered(req, $fuse, result)
        }
    )*};
}

plain! {
    unlink(parent: u64, at: *const c_char) = fuse => fuse.unlink(parent, name(at));
    rmdir(parent: u64, at: *const c_char) = fuse => fuse.rmdir(parent, name(at));
    rename(parent: u64, from: *const c_char, new_parent: u64, to: *const c_char, flags: c_uint)
        = fuse => fuse.rename((parent, name(from)), (new_parent, name(to)), flags);
    flush(node: u64, file: *mut FileInfo) = fuse => fuse.flush(node, file);
    release(node: u64, file: *mut FileInfo) = fuse => fuse.release(node, file);
    fsync(node: u64, data_only: c_int, file: *mut FileInfo) = fuse => fuse.fsync(node, data_only, file);
    releasedir(node: u64, file: *mut FileInfo) = fuse => fuse.releasedir(node, file);
    fsyncdir(node: u64, data_only: c_int, file: *mut FileInfo)
        = fuse => fuse.fsyncdir(node, data_only, file);
    setxattr(node: u64, key: *const c_char, value: *const c_char, size: usize, flags: c_int)
        = fuse => fuse.setxattr(node, key, value, size, flags);
    removexattr(node: u64, key: *const c_char) = fuse => fuse.removexattr(node, key);
    access(node: u64, mask: c_int) = fuse => fuse.access(node, mask);
    setlk(node: u64, file: *mut FileInfo, lock: *mut flock, sleep: c_int)
        = fuse => fuse.lock(node, file, if sleep != 0 { libc::F_SETLKW } else { libc::F_SETLK }, lock);
    flock_of(node: u64, file: *mut FileInfo, operation: c_int)
        = fuse => fuse.flock(node, file, operation);
    fallocate(node: u64, mode: c_int, offset: off_t, length: off_t, file: *mut FileInfo)
        = fuse => fuse.fallocate(node, mode, offset, length, file);
}

entries! {
    mknod(parent: u64, at: *const c_char, mode: mode_t, device: dev_t)
        = fuse => fuse.mknod(parent, name(at), mode, device);
    mkdir(parent: u64, at: *const c_char, mode: mode_t) = fuse => fuse.mkdir(parent, name(at), mode);
    symlink(target: *const c_char, parent: u64, at: *const c_char)
        = fuse => fuse.symlink(target, parent, name(at));
    link(node: u64, parent: u64, at: *const c_char) = fuse => fuse.link(node, parent, name(at));
}

unsafe extern "C" fn init(data: *mut c_void, connection: *mut Connection) {
    (*data.cast::<Fuse>()).init(connection);
}

unsafe extern "C" fn destroy(data: *mut c_void) {
    let fuse = &*data.cast::<Fuse>();
    if let Some(function) = fuse.operations.destroy {
        fuse.enter_alone();
        function(fuse.data.load(SeqCst));
    }
}

unsafe extern "C" fn lookup(req: *mut Req, parent: u64, at: *const c_char) {
    let fuse = of(req);
    fuse.enter(req);
    let config = fuse.config();
    match fuse.lookup(parent, name(at)) {
        Err(libc::ENOENT) if config.negative_timeout != 0.0 => {
            let nothing = EntryParam {
                ino: 0,
                generation: 0,
                attr: zeroed(),
                attr_timeout: 0.0,
                entry_timeout: config.negative_timeout,
            };
            reply::reply_entry(req, &raw const nothing);
        }
        result => entered(req, fuse, result),
    }
}

unsafe extern "C" fn forget(req: *mut Req, node: u64, count: u64) {
    of(req).tree.forget(node, count);
    reply::reply_none(req);
}

unsafe extern "C" fn forget_multi(req: *mut Req, count: usize, all: *mut ForgetData) {
    for one in std::slice::from_raw_parts(all, count) {
        of(req).tree.forget(one.ino, one.count);
    }
    reply::reply_none(req);
}

unsafe fn attributes(req: *mut Req, fuse: &Fuse, result: Result<stat, c_int>) {
    match result {
        Ok(stat) => reply::reply_attr(req, &raw const stat, fuse.config().attr_timeout),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn getattr(req: *mut Req, node: u64, file: *mut FileInfo) {
    let fuse = of(req);
    fuse.enter(req);
    attributes(req, fuse, fuse.getattr(node, file));
}

unsafe extern "C" fn setattr(
    req: *mut Req,
    node: u64,
    stat: *mut stat,
    to_set: c_int,
    file: *mut FileInfo,
) {
    let fuse = of(req);
    fuse.enter(req);
    attributes(req, fuse, fuse.setattr(node, &*stat, to_set as u32, file));
}

unsafe extern "C" fn readlink(req: *mut Req, node: u64) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.readlink(node) {
        Ok(target) => reply::reply_readlink(req, target.as_ptr()),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn open(req: *mut Req, node: u64, file: *mut FileInfo) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.open(node, file) {
        // Who has asked does not wait any more, so nobody would close it.
        Ok(()) if reply::reply_open(req, file) == -libc::ENOENT => {
            let _ = fuse.release(node, file);
        }
        Ok(()) => {}
        Err(errno) => {
            reply::reply_err(req, errno);
        }
    }
}

unsafe extern "C" fn create(
    req: *mut Req,
    parent: u64,
    at: *const c_char,
    mode: mode_t,
    file: *mut FileInfo,
) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.create(parent, name(at), mode, file) {
        Ok(entry) if reply::reply_create(req, &raw const entry, file) == -libc::ENOENT => {
            let _ = fuse.release(entry.ino, file);
            fuse.tree.forget(entry.ino, 1);
        }
        Ok(_) => {}
        Err(errno) => {
            reply::reply_err(req, errno);
        }
    }
}

unsafe extern "C" fn read(
    req: *mut Req,
    node: u64,
    size: usize,
    offset: off_t,
    file: *mut FileInfo,
) {
    let fuse = of(req);
    fuse.enter(req);
    fuse.read(req, node, size, offset, file);
}

unsafe extern "C" fn write(
    req: *mut Req,
    node: u64,
    bytes: *const c_char,
    size: usize,
    offset: off_t,
    file: *mut FileInfo,
) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.write(node, bytes, size, offset, file) {
        Ok(count) => reply::reply_write(req, count),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn opendir(req: *mut Req, node: u64, file: *mut FileInfo) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.opendir(node, file) {
        Ok(()) if reply::reply_open(req, file) == -libc::ENOENT => {
            let _ = fuse.releasedir(node, file);
        }
        Ok(()) => {}
        Err(errno) => {
            reply::reply_err(req, errno);
        }
    }
}

unsafe fn listed(
    req: *mut Req,
    node: u64,
    size: usize,
    offset: off_t,
    file: *mut FileInfo,
    plus: bool,
) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.readdir(node, size, offset, file, plus) {
        Ok(bytes) => reply::reply_buf(req, bytes.as_ptr().cast(), bytes.len()),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn readdir(
    req: *mut Req,
    node: u64,
    size: usize,
    offset: off_t,
    file: *mut FileInfo,
) {
    listed(req, node, size, offset, file, false);
}

unsafe extern "C" fn readdirplus(
    req: *mut Req,
    node: u64,
    size: usize,
    offset: off_t,
    file: *mut FileInfo,
) {
    listed(req, node, size, offset, file, true);
}

unsafe extern "C" fn statfs(req: *mut Req, node: u64) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.statfs(node) {
        Ok(system) => reply::reply_statfs(req, &raw const system),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe fn valued(req: *mut Req, size: usize, result: Result<Vec<u8>, c_int>, length: usize) {
    match result {
        Ok(_) if size == 0 => reply::reply_xattr(req, length),
        Ok(bytes) => reply::reply_buf(req, bytes.as_ptr().cast(), bytes.len()),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn getxattr(req: *mut Req, node: u64, key: *const c_char, size: usize) {
    let fuse = of(req);
    fuse.enter(req);
    let (length, result) = fuse.getxattr(node, key, size);
    valued(req, size, result, length);
}

unsafe extern "C" fn listxattr(req: *mut Req, node: u64, size: usize) {
    let fuse = of(req);
    fuse.enter(req);
    let (length, result) = fuse.listxattr(node, size);
    valued(req, size, result, length);
}

unsafe extern "C" fn getlk(req: *mut Req, node: u64, file: *mut FileInfo, lock: *mut flock) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.lock(node, file, libc::F_GETLK, lock) {
        Ok(()) => reply::reply_lock(req, lock),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn bmap(req: *mut Req, node: u64, size: usize, index: u64) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.bmap(node, size, index) {
        Ok(index) => reply::reply_bmap(req, index),
        Err(errno) => reply::reply_err(req, errno),
    };
}

#[allow(clippy::too_many_arguments)] // The header's.
unsafe extern "C" fn ioctl(
    req: *mut Req,
    node: u64,
    command: c_uint,
    argument: *mut c_void,
    file: *mut FileInfo,
    flags: c_uint,
    input: *const c_void,
    input_size: usize,
    output_size: usize,
) {
    let fuse = of(req);
    fuse.enter(req);
    let input = match input_size {
        0 => &[],
        size => std::slice::from_raw_parts(input.cast::<u8>(), size),
    };
    match fuse.ioctl(node, (command, argument, flags), file, input, output_size) {
        Ok((result, bytes)) => reply::reply_ioctl(req, result, bytes.as_ptr().cast(), bytes.len()),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn poll(req: *mut Req, node: u64, file: *mut FileInfo, handle: *mut c_void) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.poll(node, file, handle) {
        Ok(ready) => reply::reply_poll(req, ready),
        Err(errno) => reply::reply_err(req, errno),
    };
}

#[allow(clippy::too_many_arguments)] // The header's.
unsafe extern "C" fn copy_file_range(
    req: *mut Req,
    node: u64,
    offset: off_t,
    file: *mut FileInfo,
    to: u64,
    to_offset: off_t,
    to_file: *mut FileInfo,
    size: usize,
    flags: c_int,
) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.copy((node, file, offset), (to, to_file, to_offset), size, flags) {
        Ok(count) => reply::reply_write(req, count),
        Err(errno) => reply::reply_err(req, errno),
    };
}

unsafe extern "C" fn lseek(
    req: *mut Req,
    node: u64,
    offset: off_t,
    whence: c_int,
    file: *mut FileInfo,
) {
    let fuse = of(req);
    fuse.enter(req);
    match fuse.lseek(node, offset, whence, file) {
        Ok(offset) => reply::reply_lseek(req, offset),
        Err(errno) => reply::reply_err(req, errno),
    };
}
