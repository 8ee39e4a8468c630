//! getdents64 and its old form: directories as records in the program's buffer.

use super::arguments::descriptor;
use crate::answer::{Answer, FORWARD};
use crate::description::Held;
use crate::process::Process;
use crate::vfs::list;
use crate::vfs::mount_points::{self, in_kernel, is_position};
use crate::vfs::targets::adopt_target;
use culvert::{DirectoryEntry, Errno};
use culvert_intercept::{Call, user};
use culvert_mounts::MountId;
use culvert_sys::nr;

/// One `struct linux_dirent64`, or the old `struct linux_dirent` with the type in the last byte, in
/// `record`; returns its length.
fn encode(entry: &DirectoryEntry<'_>, old: bool, record: &mut [u8; 288]) -> usize {
    let header = if old { 18 } else { 19 };
    let length = (header + entry.name.len() + if old { 2 } else { 1 }).next_multiple_of(8);
    record[..length].fill(0);
    record[0..8].copy_from_slice(&entry.inode.to_ne_bytes());
    record[8..16].copy_from_slice(&entry.next.to_ne_bytes());
    record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
    if old {
        record[length - 1] = entry.kind.directory_type();
    } else {
        record[18] = entry.kind.directory_type();
    }
    record[header..header + entry.name.len()].copy_from_slice(entry.name);
    length
}

/// The program's buffer, as it fills with records.
struct Records {
    buffer: usize,
    size: usize,
    old: bool,
    /// How many bytes of it are filled.
    pub used: usize,
    /// Why nothing was put into it.
    pub failure: Option<Errno>,
}

impl Records {
    /// The buffer of a getdents64(2) or getdents(2).
    pub fn of(call: &Call) -> Self {
        Self {
            buffer: call.args[1],
            size: call.args[2] as u32 as usize,
            old: call.number == nr::GETDENTS,
            used: 0,
            failure: None,
        }
    }

    /// Puts an entry behind the others, and its position into `offset`; whether there was room.
    fn put(&mut self, entry: &DirectoryEntry<'_>, offset: &mut u64) -> bool {
        let mut record = [0u8; 288];
        let length = encode(entry, self.old, &mut record);
        let failure = if self.used + length > self.size {
            Errno::EINVAL
        } else if user::copy_out(self.buffer + self.used, &record[..length]).is_err() {
            Errno::EFAULT
        } else {
            self.used += length;
            *offset = entry.next;
            return true;
        };
        if self.used == 0 {
            self.failure = Some(failure);
        }
        false
    }

    /// What the call answers.
    pub fn answer(&self) -> Answer {
        self.failure.map_or(Ok(self.used), Err)
    }
}

/// getdents64(2), getdents(2)
pub fn getdents(process: &Process, call: &mut Call) -> Answer {
    let fd = call.args[0];
    let Some(held) = descriptor(process, fd) else {
        return if process.run.is_internal(fd as i32) {
            Err(Errno::EBADF)
        } else {
            match list_foreign(process, call) {
                Err(FORWARD) => super::hidden::list(process, call),
                answer => answer,
            }
        };
    };
    list(process, &held, fd as i32, Records::of(call))
}

fn list(process: &Process, held: &Held, fd: i32, mut records: Records) -> Answer {
    let listed = list::entries(process, held, fd, &mut |entry, offset| {
        records.put(entry, offset)
    });
    match listed {
        // What was listed before counts; but a removed directory does not list itself either.
        Err(errno) if records.used == 0 || errno == Errno::ENOENT => Err(errno),
        _ => records.answer(),
    }
}

/// getdents64 on a foreign descriptor: it may be the empty directory under a mount, opened through
/// a link outside.
fn list_foreign(process: &Process, call: &mut Call) -> Answer {
    let fd = call.args[0] as i32;
    let identity = || {
        culvert_run::stat_descriptor(fd)
            .ok()
            .map(|it| (it.st_dev, it.st_ino))
    };
    let mount = (process.targets_exist.then(identity).flatten())
        .and_then(|(device, inode)| process.mounts.is_target(device, inode));
    let Some(mount) = mount else {
        return list_kernels(process, call);
    };
    adopt_target(process, fd, mount)?;
    getdents(process, call)
}

/// getdents64(2), getdents(2) of the kernel's directory behind argument 0.
fn list_kernels(process: &Process, call: &Call) -> Answer {
    let fd = call.args[0] as i32;
    if !process.targets_missing {
        return Err(FORWARD);
    }
    let mounts = in_kernel(process, fd);
    if mounts.is_empty() {
        return Err(FORWARD);
    }
    list_with(process, call, fd, &mounts)
}

fn list_with(process: &Process, call: &Call, fd: i32, mounts: &[MountId]) -> Answer {
    const SEEK_SET: usize = 0;
    const SEEK_CUR: usize = 1;
    let seek = |offset: u64, whence: usize| {
        let position = culvert_sys::fs::seek(
            culvert_sys::BorrowedFd::number(fd),
            offset as i64,
            whence as u32,
        );
        position.map(|at| at as usize)
    };
    let before = seek(0, SEEK_CUR)? as u64;
    if !is_position(before) {
        match call.execute() {
            Ok(0) => {}
            answer => return answer,
        }
    }
    let mut records = Records::of(call);
    let mut offset = before;
    mount_points::put(process, mounts, &mut offset, &mut |entry, offset| {
        records.put(entry, offset)
    });
    // Where that is no position, they would come again and again.
    if offset != before && seek(offset, SEEK_SET).is_err() {
        return Ok(0);
    }
    records.answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert::FileKind;

    #[test]
    fn records_are_laid_out_as_the_kernel_does() {
        let mut record = [0; 288];
        let entry = DirectoryEntry {
            inode: 7,
            next: 9,
            kind: FileKind::Directory,
            name: b"abc",
        };
        assert_eq!(encode(&entry, false, &mut record), 24);
        assert_eq!(
            &record[..24],
            &[
                7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 24, 0, 4, b'a', b'b', b'c', 0, 0
            ]
        );
        assert_eq!(encode(&entry, true, &mut record), 24);
        assert_eq!(&record[16..24], &[24, 0, b'a', b'b', b'c', 0, 0, 4]);
    }

    #[test]
    fn the_longest_name_fits() {
        let entry = DirectoryEntry {
            inode: 1,
            next: 2,
            kind: FileKind::Regular,
            name: &[b'x'; 255],
        };
        for old in [false, true] {
            assert!(encode(&entry, old, &mut [0; 288]) <= 288);
        }
    }
}
