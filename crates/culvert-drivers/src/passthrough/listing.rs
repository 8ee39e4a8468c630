//! Directories listed by the driver itself, for those who do not have the kernel's descriptor on
//! them.

use super::filesystem::PassthroughFs;
use super::kernel::kind;
use super::kernel::{self, Name};
use super::object::Object;
use alloc::vec::Vec;
use culvert::{DirectoryEntry, DirectorySink, Errno, FileKind, Node, Result};
use culvert_sys::fd::AsFd;
use culvert_sys::fs;

impl PassthroughFs {
    /// Lists the directory `object`, which is `dir`, from `from` on: by a description of its own,
    /// or, where it may not be read any more, by that of who holds it.
    pub(super) fn list(
        &self,
        dir: Node,
        object: &Object,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let mut visit = |record: &Record, name: &[u8]| {
            let Some(kind) = self.kind_of(object, record.kind, name) else {
                return true;
            };
            sink(DirectoryEntry {
                // As attributes show it.
                inode: self.nodes.number((object.identity.0, record.inode)).0,
                next: record.next,
                kind,
                name,
            })
        };
        match kernel::open_directory(object.fd(), 0, 0) {
            Ok(opened) => entries_of(&opened, from, &mut visit),
            Err(error) => match self.holds.opened(dir) {
                Some(held) if error.errno() == Errno::EACCES => {
                    held.with(|fd| entries_of(fd, from, &mut visit))
                }
                _ => Err(error),
            },
        }
    }

    /// The type of `name`: as listed, else asked for; none when it is gone by now.
    fn kind_of(&self, dir: &Object, listed: u8, name: &[u8]) -> Option<FileKind> {
        FileKind::of_mode(u32::from(listed) << 12).or_else(|| {
            let name = Name::new(name).ok()?;
            kind(&kernel::status(dir.fd(), Some(&name)).ok()?).ok()
        })
    }
}

/// Calls `visit` with the entries of directory `fd` from `from` on, without `.` and `..`, until it
/// returns false. By a description of its own.
pub(crate) fn entries(
    fd: impl AsFd,
    from: u64,
    visit: &mut dyn FnMut(&Record, &[u8]) -> bool,
) -> Result<()> {
    let opened = kernel::open_directory(fd, 0, 0)?;
    entries_of(&opened, from, visit)
}

/// The same by the description of `fd`.
fn entries_of(
    fd: impl AsFd,
    from: u64,
    visit: &mut dyn FnMut(&Record, &[u8]) -> bool,
) -> Result<()> {
    match kernel::seek(&fd, from, 0) {
        // A position that never was: behind everything.
        Err(error) if error.errno() == Errno::EINVAL => return Ok(()),
        moved => moved?,
    };
    let mut buffer = Vec::with_capacity(32 << 10);
    loop {
        fs::waiting::getdents64(&fd, &mut buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let mut rest = &buffer[..];
        while let Some((mut record, name, after)) = split(rest) {
            rest = after;
            if is_dots(name) {
                continue;
            }
            // Some file systems list `.` and `..` anywhere (ext4: by hashes). Who has the entry
            // before them has them too, so that the end is where it is natively.
            while let Some((dots, _, after)) = split(rest).filter(|found| is_dots(found.1)) {
                record.next = dots.next;
                rest = after;
            }
            if !visit(&record, name) {
                return Ok(());
            }
        }
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The head of an entry (`struct linux_dirent64`, getdents(2)).
pub(crate) struct Record {
    /// `d_ino`.
    pub inode: u64,
    /// `d_off`.
    pub next: u64,
    /// `d_type`.
    pub kind: u8,
}

/// The first entry of `bytes`, its name and what follows it.
fn split(bytes: &[u8]) -> Option<(Record, &[u8], &[u8])> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let length = usize::from(u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?));
    let record = Record {
        inode: word(0)?,
        next: word(8)?,
        kind: *bytes.get(18)?,
    };
    let name = bytes.get(19..length)?;
    let name = &name[..name.iter().position(|&byte| byte == 0)?];
    Some((record, name, bytes.get(length..)?))
}
