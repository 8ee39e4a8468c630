//! Between the structures of C and those of the protocol.

use crate::abi::{EntryParam, FileInfo};
use culvert_wire::structures::{Attr, AttrOut, EntryOut, Kstatfs, OpenOut, SetattrIn};
use libc::{stat, statvfs};

/// A `T` of zeroes.
pub fn zeroed<T: Copy>() -> T {
    // SAFETY: only structures of integers are asked for.
    unsafe { std::mem::zeroed() }
}

fn time(seconds: f64) -> (u64, u32) {
    match seconds {
        seconds if seconds.is_nan() || seconds <= 0.0 => (0, 0),
        seconds if seconds >= u32::MAX.into() => (u32::MAX.into(), 0),
        seconds => (seconds as u64, (seconds.fract() * 1e9) as u32),
    }
}

pub fn attr(stat: &stat, ino: u64) -> Attr {
    Attr {
        ino,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: stat.st_atime as u64,
        mtime: stat.st_mtime as u64,
        ctime: stat.st_ctime as u64,
        atimensec: stat.st_atime_nsec as u32,
        mtimensec: stat.st_mtime_nsec as u32,
        ctimensec: stat.st_ctime_nsec as u32,
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

pub fn attr_out(stat: &stat, timeout: f64) -> AttrOut {
    let (attr_valid, attr_valid_nsec) = time(timeout);
    AttrOut {
        attr_valid,
        attr_valid_nsec,
        dummy: 0,
        attr: attr(stat, stat.st_ino),
    }
}

pub fn entry_out(entry: &EntryParam) -> EntryOut {
    let (attr_valid, attr_valid_nsec) = time(entry.attr_timeout);
    let (entry_valid, entry_valid_nsec) = time(entry.entry_timeout);
    EntryOut {
        nodeid: entry.ino,
        generation: entry.generation,
        entry_valid,
        attr_valid,
        entry_valid_nsec,
        attr_valid_nsec,
        attr: attr(&entry.attr, entry.attr.st_ino),
    }
}

pub fn open_out(file: &FileInfo) -> OpenOut {
    let flags = [
        (FileInfo::DIRECT_IO, OpenOut::DIRECT_IO),
        (FileInfo::KEEP_CACHE, OpenOut::KEEP_CACHE),
        (FileInfo::NONSEEKABLE, OpenOut::NONSEEKABLE),
        (FileInfo::CACHE_READDIR, OpenOut::CACHE_DIR),
        (FileInfo::NOFLUSH, OpenOut::NOFLUSH),
        (
            FileInfo::PARALLEL_DIRECT_WRITES,
            OpenOut::PARALLEL_DIRECT_WRITES,
        ),
    ];
    let set = flags.iter().filter(|(own, _)| file.has(*own));
    OpenOut {
        fh: file.fh,
        open_flags: set.fold(0, |all, (_, flag)| all | flag),
        backing_id: 0,
    }
}

pub fn statfs_out(system: &statvfs) -> Kstatfs {
    Kstatfs {
        blocks: system.f_blocks,
        bfree: system.f_bfree,
        bavail: system.f_bavail,
        files: system.f_files,
        ffree: system.f_ffree,
        bsize: system.f_bsize as u32,
        namelen: system.f_namemax as u32,
        frsize: system.f_frsize as u32,
        ..Kstatfs::default()
    }
}

/// What SETATTR sets, and which bits of `FUSE_SET_ATTR_*` say so: those of the protocol.
pub fn set_attr(asked: &SetattrIn) -> (stat, i32) {
    let mut stat: stat = zeroed();
    stat.st_mode = asked.mode;
    stat.st_uid = asked.uid;
    stat.st_gid = asked.gid;
    stat.st_size = asked.size as i64;
    stat.st_atime = asked.atime as i64;
    stat.st_mtime = asked.mtime as i64;
    stat.st_ctime = asked.ctime as i64;
    stat.st_atime_nsec = asked.atimensec.into();
    stat.st_mtime_nsec = asked.mtimensec.into();
    stat.st_ctime_nsec = asked.ctimensec.into();
    let known = SetattrIn::MODE
        | SetattrIn::UID
        | SetattrIn::GID
        | SetattrIn::SIZE
        | SetattrIn::ATIME
        | SetattrIn::MTIME
        | SetattrIn::ATIME_NOW
        | SetattrIn::MTIME_NOW
        | SetattrIn::CTIME;
    (stat, (asked.valid & known) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_and_nanoseconds() {
        assert_eq!(time(1.5), (1, 500_000_000));
        assert_eq!(time(-1.0), (0, 0));
        assert_eq!(time(f64::NAN), (0, 0));
        assert_eq!(time(1e30), (u64::from(u32::MAX), 0));
    }
}
