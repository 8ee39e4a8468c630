//! Buffers in memory and behind descriptors.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_common.h.

use crate::abi::{Buf, BufVec};
use std::{
    ffi::{c_int, c_void},
    io,
};

/// At most so much is copied at once between descriptors.
const PIECE: usize = 128 << 10;

unsafe fn at(vector: &BufVec, index: usize) -> Option<&Buf> {
    (index < vector.count).then(|| &*(&raw const vector.first).add(index))
}

/// Bytes of all.
pub unsafe fn size(vector: &BufVec) -> usize {
    let sizes = (0..vector.count).map_while(|index| at(vector, index));
    sizes.fold(0, |all: usize, one| all.saturating_add(one.size))
}

fn failed() -> isize {
    -(io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO) as isize)
}

/// Reads or writes up to `length` bytes of `buffer` from `offset` on.
unsafe fn transfer(
    buffer: &Buf,
    offset: usize,
    memory: *mut c_void,
    length: usize,
    write: bool,
) -> isize {
    let mut done = 0;
    while done < length {
        let (place, rest) = (
            memory.cast::<u8>().add(done).cast::<c_void>(),
            length - done,
        );
        let position = buffer.pos + (offset + done) as i64;
        let count = match (write, buffer.flags & Buf::FD_SEEK != 0) {
            (true, true) => libc::pwrite(buffer.fd, place, rest, position),
            (true, false) => libc::write(buffer.fd, place, rest),
            (false, true) => libc::pread(buffer.fd, place, rest, position),
            (false, false) => libc::read(buffer.fd, place, rest),
        };
        match count {
            0 => break,
            1.. => done += count as usize,
            _ if done > 0 => break,
            _ => return failed(),
        }
        if buffer.flags & Buf::FD_RETRY == 0 {
            break;
        }
    }
    done as isize
}

unsafe fn one(to: &Buf, to_offset: usize, from: &Buf, from_offset: usize, length: usize) -> isize {
    let memory = |buffer: &Buf, offset: usize| buffer.mem.cast::<u8>().add(offset).cast::<c_void>();
    let is_fd = |buffer: &Buf| buffer.flags & Buf::IS_FD != 0;
    match (is_fd(to), is_fd(from)) {
        (false, false) => {
            let (to, from) = (memory(to, to_offset), memory(from, from_offset));
            std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), length);
            length as isize
        }
        (true, false) => transfer(to, to_offset, memory(from, from_offset), length, true),
        (false, true) => transfer(from, from_offset, memory(to, to_offset), length, false),
        (true, true) => {
            let mut piece = vec![0_u8; length.min(PIECE)];
            let place = piece.as_mut_ptr().cast();
            let mut done = 0;
            while done < length {
                let wanted = piece.len().min(length - done);
                let count = match transfer(from, from_offset + done, place, wanted, false) {
                    count @ 1.. => transfer(to, to_offset + done, place, count as usize, true),
                    count => count,
                };
                match count {
                    0.. => done += count as usize,
                    _ if done > 0 => break,
                    error => return error,
                }
                if (count as usize) < wanted {
                    break;
                }
            }
            done as isize
        }
    }
}

/// Copies from `from` to `to`, from where both are: how many bytes, or a negated errno.
pub unsafe fn copy(to: &mut BufVec, from: &mut BufVec) -> isize {
    let mut done = 0;
    loop {
        let (Some(into), Some(out)) = (at(to, to.index), at(from, from.index)) else {
            return done;
        };
        let rest = |buffer: &Buf, offset: usize| buffer.size.saturating_sub(offset);
        let length = rest(into, to.offset).min(rest(out, from.offset));
        let count = match length {
            0 => 0,
            length => one(into, to.offset, out, from.offset, length),
        };
        if count < 0 {
            return if done > 0 { done } else { count };
        }
        done += count;
        let ended = length > 0 && (count as usize) < length;
        let (to_size, from_size) = (into.size, out.size);
        to.offset += count as usize;
        from.offset += count as usize;
        if to.offset >= to_size {
            (to.index, to.offset) = (to.index + 1, 0);
        }
        if from.offset >= from_size {
            (from.index, from.offset) = (from.index + 1, 0);
        }
        if ended {
            return done;
        }
    }
}

#[unsafe(export_name = "culvert_fuse_buf_size")]
unsafe extern "C" fn buf_size(vector: *const BufVec) -> usize {
    size(&*vector)
}

#[unsafe(export_name = "culvert_fuse_buf_copy")]
unsafe extern "C" fn buf_copy(to: *mut BufVec, from: *mut BufVec, _: c_int) -> isize {
    if std::ptr::eq(to, from) {
        return size(&*to) as isize;
    }
    copy(&mut *to, &mut *from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::fd::AsRawFd};

    #[test]
    fn bytes_go_between_memory_and_files() {
        let path = std::env::temp_dir().join(format!("culvert-buffers-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let behind = |pos, size| Buf {
            flags: Buf::IS_FD | Buf::FD_SEEK | Buf::FD_RETRY,
            fd: file.as_raw_fd(),
            pos,
            ..Buf::memory(std::ptr::null_mut(), size)
        };
        let mut bytes = [0_u8; 8];
        let mut memory = BufVec::of(Buf::memory(bytes.as_mut_ptr().cast(), bytes.len()));
        // SAFETY: all have as much as they say.
        unsafe {
            // The file ends before the buffer does.
            assert_eq!(copy(&mut memory, &mut BufVec::of(behind(4, 8))), 6);
            assert_eq!(&bytes, b"456789\0\0");
            let mut from = BufVec::of(behind(0, 4));
            assert_eq!(copy(&mut BufVec::of(behind(10, 4)), &mut from), 4);
            let mut memory = BufVec::of(Buf::memory(bytes.as_mut_ptr().cast(), 4));
            assert_eq!(copy(&mut memory, &mut BufVec::of(behind(10, 100))), 4);
        }
        assert_eq!(&bytes[..4], b"0123");
        // What a pipe has is all, unless the rest is to be waited for.
        let (out, mut into) = std::io::pipe().unwrap();
        into.write_all(b"ab").unwrap();
        let mut from = BufVec::of(Buf {
            flags: Buf::IS_FD,
            fd: out.as_raw_fd(),
            ..Buf::memory(std::ptr::null_mut(), 8)
        });
        let mut memory = BufVec::of(Buf::memory(bytes.as_mut_ptr().cast(), bytes.len()));
        // SAFETY: as above.
        assert_eq!(unsafe { copy(&mut memory, &mut from) }, 2);
        assert_eq!(&bytes[..2], b"ab");
    }
}
