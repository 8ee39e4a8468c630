//! `fuse_reply_*`, each of which ends its request.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_lowlevel.h.

use crate::{
    abi::{Buf, BufVec, EntryParam, FileInfo, Req},
    buffers,
    files::{attr, attr_out, entry_out, open_out, statfs_out},
    request::{Asked, answer, send},
};
use culvert_wire::{
    Answer, Data, DirectoryWriter, WireEntry,
    structures::{
        BmapOut, EntryOut, FileLock, GetxattrOut, IoctlIn, IoctlOut, LkOut, LseekOut, OpenOut,
        PollOut, StatfsOut, WriteOut,
    },
};
use libc::{flock, iovec, off_t, stat, statvfs};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    slice,
};

/// The bytes at `place`.
unsafe fn bytes<'a>(place: *const c_void, size: usize) -> &'a [u8] {
    match size {
        0 => &[],
        size => slice::from_raw_parts(place.cast(), size),
    }
}

#[unsafe(export_name = "culvert_fuse_reply_err")]
pub unsafe extern "C" fn reply_err(req: *mut Req, error: c_int) -> c_int {
    match error {
        0 => answer(req, Answer::Done {}),
        error if (1..512).contains(&error.abs()) => answer(req, Answer::Error(error.abs())),
        error => {
            crate::log::say(&format!("bad error value: {error}"));
            answer(req, Answer::Error(libc::ERANGE))
        }
    }
}

#[unsafe(export_name = "culvert_fuse_reply_none")]
pub unsafe extern "C" fn reply_none(req: *mut Req) {
    drop(Asked::end(req));
}

#[unsafe(export_name = "culvert_fuse_reply_entry")]
pub unsafe extern "C" fn reply_entry(req: *mut Req, entry: *const EntryParam) -> c_int {
    let entry = entry_out(&*entry);
    answer(req, Answer::Entry { entry })
}

#[unsafe(export_name = "culvert_fuse_reply_create")]
pub unsafe extern "C" fn reply_create(
    req: *mut Req,
    entry: *const EntryParam,
    file: *const FileInfo,
) -> c_int {
    let (entry, open) = (entry_out(&*entry), open_out(&*file));
    answer(req, Answer::Created { entry, open })
}

#[unsafe(export_name = "culvert_fuse_reply_attr")]
pub unsafe extern "C" fn reply_attr(req: *mut Req, stat: *const stat, timeout: f64) -> c_int {
    let attributes = attr_out(&*stat, timeout);
    answer(req, Answer::Attributes { attributes })
}

#[unsafe(export_name = "culvert_fuse_reply_readlink")]
pub unsafe extern "C" fn reply_readlink(req: *mut Req, target: *const c_char) -> c_int {
    let data = Data(CStr::from_ptr(target).to_bytes());
    answer(req, Answer::Data { data })
}

#[unsafe(export_name = "culvert_fuse_reply_open")]
pub unsafe extern "C" fn reply_open(req: *mut Req, file: *const FileInfo) -> c_int {
    let open: OpenOut = open_out(&*file);
    answer(req, Answer::Opened { open })
}

#[unsafe(export_name = "culvert_fuse_reply_write")]
pub unsafe extern "C" fn reply_write(req: *mut Req, count: usize) -> c_int {
    let written = WriteOut {
        size: count as u32,
        padding: 0,
    };
    answer(req, Answer::Written { written })
}

#[unsafe(export_name = "culvert_fuse_reply_buf")]
pub unsafe extern "C" fn reply_buf(req: *mut Req, buffer: *const c_char, size: usize) -> c_int {
    let data = Data(bytes(buffer.cast(), size));
    answer(req, Answer::Data { data })
}

#[unsafe(export_name = "culvert_fuse_reply_iov")]
unsafe extern "C" fn reply_iov(req: *mut Req, parts: *const iovec, count: c_int) -> c_int {
    let all = joined(parts, count as usize);
    answer(req, Answer::Data { data: Data(&all) })
}

unsafe fn joined(parts: *const iovec, count: usize) -> Vec<u8> {
    let part = |at| {
        let part = *parts.add(at);
        bytes(part.iov_base, part.iov_len)
    };
    (0..count).map(part).collect::<Vec<_>>().concat()
}

#[unsafe(export_name = "culvert_fuse_reply_data")]
pub unsafe extern "C" fn reply_data(req: *mut Req, buffer: *mut BufVec, _: c_int) -> c_int {
    let vector = &mut *buffer;
    if vector.count == 1 && vector.first.flags & Buf::IS_FD == 0 && vector.index == 0 {
        let size = vector.first.size.saturating_sub(vector.offset);
        let place = vector.first.mem.cast::<c_char>().add(vector.offset);
        return reply_buf(req, place, size);
    }
    let mut all = vec![0_u8; buffers::size(vector)];
    let mut into = BufVec::of(Buf::memory(all.as_mut_ptr().cast(), all.len()));
    match buffers::copy(&mut into, vector) {
        count @ 0.. => reply_buf(req, all.as_ptr().cast(), count as usize),
        error => reply_err(req, -error as c_int),
    }
}

#[unsafe(export_name = "culvert_fuse_reply_statfs")]
pub unsafe extern "C" fn reply_statfs(req: *mut Req, system: *const statvfs) -> c_int {
    let statfs = StatfsOut {
        st: statfs_out(&*system),
    };
    answer(req, Answer::Statfs { statfs })
}

#[unsafe(export_name = "culvert_fuse_reply_xattr")]
pub unsafe extern "C" fn reply_xattr(req: *mut Req, count: usize) -> c_int {
    let size = GetxattrOut {
        size: count as u32,
        padding: 0,
    };
    answer(req, Answer::XattrSize { size })
}

#[unsafe(export_name = "culvert_fuse_reply_lock")]
pub unsafe extern "C" fn reply_lock(req: *mut Req, lock: *const flock) -> c_int {
    let lock = &*lock;
    let kind = c_uint::from(lock.l_type as u16);
    let mut lk = FileLock {
        r#type: kind,
        ..FileLock::default()
    };
    if lock.l_type != libc::F_UNLCK as i16 {
        lk.start = lock.l_start as u64;
        lk.end = match lock.l_len {
            0 => i64::MAX as u64,
            length => (lock.l_start + length - 1) as u64,
        };
    }
    lk.pid = lock.l_pid as u32;
    answer(req, Answer::Lock { lock: LkOut { lk } })
}

#[unsafe(export_name = "culvert_fuse_reply_bmap")]
pub unsafe extern "C" fn reply_bmap(req: *mut Req, index: u64) -> c_int {
    let block = BmapOut { block: index };
    answer(req, Answer::Block { block })
}

#[unsafe(export_name = "culvert_fuse_reply_ioctl")]
pub unsafe extern "C" fn reply_ioctl(
    req: *mut Req,
    result: c_int,
    buffer: *const c_void,
    size: usize,
) -> c_int {
    let ioctl = IoctlOut {
        result,
        ..IoctlOut::default()
    };
    let data = Data(bytes(buffer, size));
    answer(req, Answer::Ioctl { ioctl, data })
}

#[unsafe(export_name = "culvert_fuse_reply_ioctl_iov")]
unsafe extern "C" fn reply_ioctl_iov(
    req: *mut Req,
    result: c_int,
    parts: *const iovec,
    count: c_int,
) -> c_int {
    let all = joined(parts, count as usize);
    reply_ioctl(req, result, all.as_ptr().cast(), all.len())
}

/// `struct fuse_ioctl_iovec`: address and length.
unsafe fn areas(parts: *const iovec, count: usize) -> Vec<u8> {
    let part = |at| {
        let part = *parts.add(at);
        [
            (part.iov_base as u64).to_ne_bytes(),
            (part.iov_len as u64).to_ne_bytes(),
        ]
        .concat()
    };
    (0..count).map(part).collect::<Vec<_>>().concat()
}

#[unsafe(export_name = "culvert_fuse_reply_ioctl_retry")]
unsafe extern "C" fn reply_ioctl_retry(
    req: *mut Req,
    input: *const iovec,
    input_count: usize,
    output: *const iovec,
    output_count: usize,
) -> c_int {
    let ioctl = IoctlOut {
        result: 0,
        flags: IoctlIn::RETRY,
        in_iovs: input_count as u32,
        out_iovs: output_count as u32,
    };
    let all = [areas(input, input_count), areas(output, output_count)].concat();
    let data = Data(&all);
    answer(req, Answer::Ioctl { ioctl, data })
}

#[unsafe(export_name = "culvert_fuse_reply_poll")]
pub unsafe extern "C" fn reply_poll(req: *mut Req, ready: c_uint) -> c_int {
    let ready = PollOut {
        revents: ready,
        padding: 0,
    };
    answer(req, Answer::Ready { ready })
}

#[unsafe(export_name = "culvert_fuse_reply_lseek")]
pub unsafe extern "C" fn reply_lseek(req: *mut Req, offset: off_t) -> c_int {
    let offset = LseekOut {
        offset: offset as u64,
    };
    answer(req, Answer::Offset { offset })
}

/// Ends request `req`, which nobody has a function for.
pub unsafe fn missing(req: *mut Req) {
    let own = Asked::end(req);
    send(own.session, own.unique, Answer::Error(libc::ENOSYS));
}

unsafe fn add(
    buffer: *mut c_char,
    size: usize,
    name: *const c_char,
    (inode, mode, next): (u64, u32, off_t),
    entry: Option<&EntryOut>,
) -> usize {
    let name = CStr::from_ptr(name).to_bytes();
    // `struct fuse_dirent`, and `struct fuse_entry_out` in front of it.
    let length = (24 + name.len()).next_multiple_of(8) + entry.map_or(0, |_| size_of::<EntryOut>());
    if buffer.is_null() || size < length {
        return length;
    }
    let place = slice::from_raw_parts_mut(buffer.cast::<u8>(), size);
    let mut writer = DirectoryWriter::new(place);
    let one = WireEntry {
        inode,
        next: next as u64,
        kind: mode >> 12 & 15,
        name,
    };
    match entry {
        Some(entry) => writer.add_plus(entry, &one),
        None => writer.add(&one),
    };
    length
}

#[unsafe(export_name = "culvert_fuse_add_direntry")]
pub unsafe extern "C" fn add_direntry(
    _: *mut Req,
    buffer: *mut c_char,
    size: usize,
    name: *const c_char,
    stat: *const stat,
    offset: off_t,
) -> usize {
    let found = stat
        .as_ref()
        .map_or((0, 0, offset), |stat| (stat.st_ino, stat.st_mode, offset));
    add(buffer, size, name, found, None)
}

#[unsafe(export_name = "culvert_fuse_add_direntry_plus")]
pub unsafe extern "C" fn add_direntry_plus(
    _: *mut Req,
    buffer: *mut c_char,
    size: usize,
    name: *const c_char,
    entry: *const EntryParam,
    offset: off_t,
) -> usize {
    let stat = (*entry).attr;
    let mut out = entry_out(&*entry);
    out.attr = attr(&stat, stat.st_ino);
    add(
        buffer,
        size,
        name,
        (stat.st_ino, stat.st_mode, offset),
        Some(&out),
    )
}
