//! What the functions of a library answer, judged.

use alloc::{ffi::CString, format, vec, vec::Vec};
use core::ffi::c_int;
use culvert::library::abi::{Dirent, Stat, StatVfs};
use culvert::path::PathEntry;
use culvert::{Attributes, Errno, Error, FileKind, OpenFlags, Result, StatFs};

/// For how many names a directory is asked at first, at most, whatever the library says.
pub const NAMES_AT_FIRST: usize = 4096;
/// No directory has more.
pub const MOST_NAMES: usize = 1 << 22;

/// What function `name` has returned.
pub fn checked(name: &str, result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        // `fuse_dev_do_write` (fs/fuse/dev.c) takes none from 512 on.
        1..512 => Err(Errno::new(result).into()),
        _ => Err(Error::because(
            Errno::EIO,
            format!("{name} of the library has returned {result}, which is no errno"),
        )),
    }
}

pub fn string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::EINVAL.into())
}

/// `name` of the library has said that it has put `done` bytes where `room` are.
pub fn within(name: &str, done: usize, room: usize) -> Result<usize> {
    match done <= room {
        true => Ok(done),
        false => Err(Error::because(
            Errno::EIO,
            format!("{name} of the library says {done} of {room} bytes"),
        )),
    }
}

/// Nothing where the answer is that the library has no such function for this.
pub fn unless_missing<R>(answer: Result<R>) -> Option<Result<R>> {
    match answer {
        Err(error) if error.errno() == Errno::ENOSYS => None,
        answer => Some(answer),
    }
}

/// The flags of open(2) that the library sees.
pub const fn flags(flags: OpenFlags) -> c_int {
    flags.without(OpenFlags::LENDS).0 as c_int
}

pub fn kind(name: &str, mode: u32) -> Result<FileKind> {
    FileKind::of_mode(mode).ok_or_else(|| {
        Error::because(
            Errno::EIO,
            format!("{name} of the library gives mode 0{mode:o}, which is no type of a file"),
        )
    })
}

pub fn attributes(name: &str, stat: &Stat) -> Result<Attributes> {
    kind(name, stat.mode)?;
    Ok(stat.attributes().ok_or(Errno::EIO)?)
}

/// What `statfs` has found; what it leaves out is usual.
pub fn space(found: &StatVfs, read_only: bool) -> StatFs {
    let or = |value: u64, other: u32| match u32::try_from(value) {
        Ok(value @ 1..) => value,
        _ => other,
    };
    StatFs {
        block_size: or(found.frsize, or(found.bsize, 4096)),
        blocks: found.blocks,
        blocks_free: found.bfree,
        blocks_available: found.bavail,
        files: found.files,
        files_free: found.ffree,
        name_max: or(found.namemax, 255),
        read_only,
        ..StatFs::default()
    }
}

/// What `ask` puts into a buffer of `room` bytes.
pub fn sized(
    name: &str,
    room: usize,
    ask: impl FnOnce(*mut u8, *mut usize) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let mut size = bytes.len();
    ask(bytes.as_mut_ptr(), &raw mut size)?;
    bytes.truncate(within(name, size, bytes.len())?);
    Ok(bytes)
}

/// The names that function `name` puts where there is room for so many; for `hint` of them it is
/// asked first.
pub fn names(
    name: &str,
    hint: usize,
    mut ask: impl FnMut(*mut Dirent, usize, *mut usize) -> Result<()>,
) -> Result<Vec<PathEntry>> {
    let mut room = hint.clamp(1, NAMES_AT_FIRST);
    loop {
        let mut entries = Vec::new();
        entries.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
        entries.resize(room, Dirent::NONE);
        let mut count = 0;
        ask(entries.as_mut_ptr(), room, &raw mut count)?;
        if count > MOST_NAMES {
            return Err(Error::because(
                Errno::EOVERFLOW,
                format!("{name} of the library says {count} names; {MOST_NAMES} are the most"),
            ));
        }
        if count > room {
            room = count;
            continue;
        }
        let found = entries.iter().take(count).map(entry);
        let mut found = found.collect::<Result<Vec<_>>>()?;
        found.retain(|one| !matches!(&one.name[..], b"." | b".."));
        return Ok(found);
    }
}

pub fn entry(found: &Dirent) -> Result<PathEntry> {
    let end = found.name.iter().position(|&byte| byte == 0);
    let name = end.and_then(|end| found.name.get(..end));
    let name = name.filter(|name| !name.is_empty() && !name.contains(&b'/'));
    let name = name.ok_or_else(|| {
        Error::because(
            Errno::EIO,
            "getdirents of the library gives a name that is none",
        )
    })?;
    Ok(PathEntry {
        name: name.to_vec(),
        kind: kind("getdirents", found.kind)?,
        inode: found.inode,
    })
}
