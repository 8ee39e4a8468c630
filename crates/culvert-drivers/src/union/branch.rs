//! One branch of a union.

use super::policy::Space;
pub(super) use crate::passthrough::mix;
use crate::{passthrough::Glance, words::invalid_option};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert::{Errno, FileSystem, Node, Result, mount::Mount};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::fs::{fstat, fstatfs};

/// File systems on which nothing happens but by this machine's kernel, which tells of all of it
/// (`f_type`, statfs(2)): tmpfs, ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, overlayfs.
const LOCAL: [u64; 7] = [
    0x0102_1994,
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    OVERLAY,
];

/// overlayfs.
const OVERLAY: u64 = 0x794c_7630;

/// What may happen on a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Everything.
    #[default]
    ReadWrite,
    /// Nothing is created or changed.
    ReadOnly,
    /// Nothing is created.
    NoCreate,
}

/// What the user says of a branch, after `=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Its mode.
    pub mode: Mode,
    /// Where less space is left, nothing is created; none: the mount's.
    pub least: Option<u64>,
}

impl How {
    /// Reads `RW`, `RO` or `NC`, perhaps followed by a comma and a size.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut words = text.splitn(2, |&byte| byte == b',');
        let mode = match words.next().unwrap_or_default() {
            b"" | b"RW" => Mode::ReadWrite,
            b"RO" => Mode::ReadOnly,
            b"NC" => Mode::NoCreate,
            _ => {
                let why = "not RW, RO or NC, perhaps with a size behind a comma (an = in the name \
                    of a branch is written \\=)";
                return Err(invalid_option("modes", text, why));
            }
        };
        let least = words.next().map(|size| bytes("modes", size)).transpose()?;
        Ok(Self { mode, least })
    }
}

impl How {
    /// As the user would write it.
    pub fn told(self) -> Vec<u8> {
        let mode = match self.mode {
            Mode::ReadWrite => "RW",
            Mode::ReadOnly => "RO",
            Mode::NoCreate => "NC",
        };
        // By the largest unit.
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K"), (0, "")];
        let is_whole =
            |least: u64, shift: u32| least >> shift << shift == least && least >> shift > 0;
        let least = self.least.map(|least| {
            let unit = units.iter().find(|unit| is_whole(least, unit.0));
            let (shift, unit) = unit.unwrap_or(&units[4]);
            format!(",{}{unit}", least >> shift)
        });
        [mode, &least.unwrap_or_default()].concat().into_bytes()
    }
}

/// Option `name`: a number of bytes, with K, M, G or T for powers of 1024.
pub fn bytes(name: &str, text: &[u8]) -> Result<u64> {
    let (digits, shift) = match text.split_last() {
        Some((b'k' | b'K', digits)) => (digits, 10),
        Some((b'm' | b'M', digits)) => (digits, 20),
        Some((b'g' | b'G', digits)) => (digits, 30),
        Some((b't' | b'T', digits)) => (digits, 40),
        _ => (text, 0),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = core::str::from_utf8(digits).ok().filter(|_| is_number);
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let size = number.and_then(|number| number.checked_mul(1 << shift));
    size.ok_or_else(|| invalid_option(name, text, "not a size (100, 64K, 4G)"))
}

/// A file system that is a branch, or was one and is still in use.
pub struct Tree {
    /// It.
    pub fs: Box<dyn FileSystem>,
    /// Which of all that the union has had in this process.
    pub id: usize,
    /// What it is opened by.
    pub mount: Mount,
    /// As the user sees it.
    pub source: Vec<u8>,
    /// Whether it is a branch no more.
    pub left: AtomicBool,
    /// Whether its root had a name when it was opened, as far as that is known: not all file
    /// systems count links.
    pub has_links: bool,
    /// Whether its root was removed: there is nothing any more, and nothing can be made.
    pub gone: AtomicBool,
    /// Why it could not be opened.
    pub refused: Option<Errno>,
    /// The device that it lies on, where that is known.
    pub device: Option<u64>,
    /// Where it is a tree of the kernel's, and nodes are not kept for long.
    pub glance: Option<Glance>,
    /// Whether its root is on a file system whose kernel tells of all that happens there.
    pub is_local: bool,
    /// Whether that goes by modes and access lists alone: not overlayfs, which asks for its
    /// mounter, too.
    pub is_by_mode: bool,
    salt: u64,
}

/// A file system, and its part in the union.
#[derive(Clone)]
pub struct Branch {
    /// It.
    pub tree: Arc<Tree>,
    /// What may happen there.
    pub how: How,
}

impl Deref for Branch {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Tree {
    /// That of `mount`, open as `fs`.
    pub fn new(mount: &Mount, id: usize, fs: Box<dyn FileSystem>, glances: bool) -> Self {
        let root = fs.handed_down(fs.root()).map(BorrowedFd::number);
        let found = root.and_then(|root| fstat(root).ok());
        let glance = glances.then(|| Glance::of(mount, &*fs)).flatten();
        let kind = root.filter(|_| glance.is_some()).and_then(type_of);
        let is_local = kind.is_some_and(|kind| LOCAL.contains(&kind));
        Self {
            device: found.as_ref().map(|found| found.st_dev),
            has_links: found.is_none_or(|found| found.st_nlink > 0),
            is_local,
            is_by_mode: is_local && kind != Some(OVERLAY),
            glance,
            salt: salt(mount),
            source: mount.source.clone(),
            mount: mount.clone(),
            left: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            refused: None,
            id,
            fs,
        }
    }

    /// The union's number for `node` of this branch: the same in every process.
    pub fn number(&self, node: Node) -> Node {
        number(self.salt, node)
    }

    /// `inode` of this branch, told apart from those of others.
    pub fn inode(&self, inode: u64) -> u64 {
        number(self.salt, Node(inode)).0
    }
}

impl Branch {
    /// Whether things may be changed here.
    pub fn changes(&self) -> bool {
        self.how.mode != Mode::ReadOnly && !self.fs.capabilities().read_only
    }

    /// Whether things may be created here.
    pub fn creates(&self) -> bool {
        self.how.mode == Mode::ReadWrite && !self.fs.capabilities().read_only
    }

    /// Its space; none where it cannot be asked, or is read-only or gone.
    pub fn space(&self) -> Option<Space> {
        if self.gone.load(Relaxed) {
            return None;
        }
        let found = self.fs.statfs().ok().filter(|found| !found.read_only)?;
        Some(Space::of(&found))
    }
}

/// Whether `file` is on a file system whose kernel tells of all that happens there.
pub fn is_local(file: BorrowedFd<'_>) -> bool {
    type_of(file).is_some_and(|kind| LOCAL.contains(&kind))
}

/// The type of the file system that `file` is on (statfs(2)).
fn type_of(file: BorrowedFd<'_>) -> Option<u64> {
    Some(fstatfs(file).ok()?.f_type as u64)
}

/// What tells the nodes of branch `mount` from those of others.
pub fn salt(mount: &Mount) -> u64 {
    let driver = mount.driver.as_bytes().iter();
    let bytes = driver.chain(&[0]).chain(&mount.source);
    bytes.fold(0, |sum, &byte| mix(sum ^ u64::from(byte)))
}

/// The number of `node` of the branch with `salt`: not 0, and not one of the union's own.
pub fn number(salt: u64, node: Node) -> Node {
    let mixed = mix(salt ^ mix(node.0));
    Node(match mixed <= super::OWN.0 {
        true => !mixed,
        false => mixed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_said_of_a_branch() {
        for (text, mode, least) in [
            ("", Mode::ReadWrite, None),
            ("RW", Mode::ReadWrite, None),
            ("RO", Mode::ReadOnly, None),
            ("NC,4G", Mode::NoCreate, Some(4 << 30)),
            (",100", Mode::ReadWrite, Some(100)),
        ] {
            let how = How { mode, least };
            assert_eq!(How::parse(text.as_bytes()).unwrap(), how, "{text}");
        }
        for text in ["rw", "RW,", "RW,4X", "RW,-1", "RW,99999999999T", "RO "] {
            assert!(How::parse(text.as_bytes()).is_err(), "{text}");
        }
        let said = How::parse(b"b=RO").unwrap_err().to_string();
        assert!(said.contains("is written \\="), "{said}");
    }
}
