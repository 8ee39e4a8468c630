//! What is written down of shadows that are files: a record of what each cannot say itself, its
//! second name, and which one a node's last was.

use super::count;
use crate::shadow::{self, OwnedFd};
use alloc::{ffi::CString, format, vec::Vec};
use culvert::{Errno, Timespec};
use culvert_mounts::MountId;
use culvert_run::{self as run, ShadowName, list, read_link};
use culvert_sys::fs;
use culvert_sys::plain::Packed;

/// What the shadow cannot say, in its record `gone/INODE.attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InodeRecord {
    pub(crate) name: ShadowName,
    /// What [`count`] has been since it is kept.
    pub(crate) count: u32,
    pub(crate) inode: u64,
    pub(crate) permissions: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) block_size: u32,
    pub(crate) made: Option<Timespec>,
    /// The time of change, as long as that of the shadow is `since`.
    pub(crate) changed: Timespec,
    pub(crate) since: Timespec,
}

const WORDS: usize = 15;

impl InodeRecord {
    fn words(&self) -> [u64; WORDS] {
        let time = |time: Timespec| [time.seconds as u64, u64::from(time.nanoseconds)];
        let ([made, made_ns], [changed, changed_ns], [since, since_ns]) = (
            time(self.made.unwrap_or_default()),
            time(self.changed),
            time(self.since),
        );
        [
            u64::from(self.name.mount.0),
            self.name.node.0,
            self.inode,
            u64::from(self.permissions),
            u64::from(self.owner.0),
            u64::from(self.owner.1),
            u64::from(self.block_size),
            u64::from(self.made.is_some()),
            made,
            made_ns,
            changed,
            changed_ns,
            since,
            since_ns,
            u64::from(self.count),
        ]
    }

    fn of_words(words: &[u64; WORDS]) -> Self {
        let time = |at: usize| Timespec {
            seconds: words[at] as i64,
            nanoseconds: words[at + 1] as u32,
        };
        Self {
            name: ShadowName {
                mount: MountId(words[0] as u16),
                node: culvert::Node(words[1]),
            },
            count: words[14] as u32,
            inode: words[2],
            permissions: words[3] as u32,
            owner: (words[4] as u32, words[5] as u32),
            block_size: words[6] as u32,
            made: (words[7] != 0).then(|| time(8)),
            changed: time(10),
            since: time(12),
        }
    }

    pub(crate) fn write(&self, record: &OwnedFd) -> Result<(), Errno> {
        let words = self.words();
        match fs::pwrite(record, words.bytes(), 0)? {
            written if written == size_of_val(&words) => Ok(()),
            _ => Err(Errno::ENOSPC),
        }
    }

    pub(crate) fn read(record: &OwnedFd) -> Result<Self, Errno> {
        let mut words = [0u64; WORDS];
        match fs::pread(record, words.bytes_mut(), 0)? {
            read if read == size_of_val(&words) => Ok(Self::of_words(&words)),
            _ => Err(Errno::EIO),
        }
    }
}

/// The name of the shadow with the inode number `inode`.
pub(crate) fn path_of(inode: u64) -> CString {
    run::get().file(&format!("gone/{inode:x}"))
}

/// The link whose text is the inode number of the last shadow of `name` that became its file.
pub(crate) fn last_of(name: ShadowName) -> CString {
    run::get().file(&format!("gone/{}", name.text()))
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

/// The path of the record of the shadow with the inode number `inode`.
pub(crate) fn record_of(inode: u64) -> CString {
    run::get().file(&format!("gone/{inode:x}.attributes"))
}

pub(crate) fn open_record(inode: u64, flags: u32) -> Result<OwnedFd, Errno> {
    shadow::open(&record_of(inode), flags, 0o600)
}

/// The shadow of `name` that became its file since [`count`] was `seen`.
pub(crate) fn since(name: ShadowName, seen: u32) -> Result<Option<u64>, Errno> {
    let text = match read_link(&last_of(name)) {
        Err(Errno::ENOENT) => return Ok(None),
        text => text?,
    };
    let inode = number(&text).ok_or(Errno::EIO)?;
    let kept = InodeRecord::read(&open_record(inode, 0)?)?;
    // What is ahead of the count was left half done.
    Ok((kept.count > seen && kept.count <= count(name)).then_some(inode))
}

/// The numbers of all such shadows.
pub(crate) fn all() -> Result<Vec<u64>, Errno> {
    match shadow::open(&run::get().file("gone"), 0o200000, 0) {
        Err(Errno::ENOENT) => Ok(Vec::new()),
        folder => Ok(list(&folder?).iter().filter_map(|it| number(it)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_it_was_told() {
        let time = |seconds| Timespec {
            seconds,
            nanoseconds: 7,
        };
        for made in [None, Some(time(-3))] {
            let kept = InodeRecord {
                name: ShadowName {
                    mount: MountId(3),
                    node: culvert::Node(1 << 40),
                },
                count: 77,
                inode: 5,
                permissions: 0o4755,
                owner: (65534, 1000),
                block_size: 4096,
                made,
                changed: time(1 << 33),
                since: time(9),
            };
            assert_eq!(InodeRecord::of_words(&kept.words()), kept);
        }
    }
}
