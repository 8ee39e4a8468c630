//! A mounted archive must be the unpacked one.

use crate::tools::{CALLER, names, read};
use culvert::{Caller, FileKind, FileSystem, Node};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What the archive's format keeps.
#[derive(Clone, Copy)]
pub struct Keeps {
    /// Times to this many nanoseconds.
    pub time_unit: i64,
    /// Owner and group.
    pub owners: bool,
    /// Hard links.
    pub hard_links: bool,
}

impl Keeps {
    pub const ALL: Self = Self {
        time_unit: 1,
        owners: true,
        hard_links: true,
    };
    pub const SECONDS: Self = Self {
        time_unit: 1_000_000_000,
        ..Self::ALL
    };
}

/// Compares the whole mount with the directory `native`: names, types, modes, owners, times, sizes,
/// links, content; read in odd pieces.
pub fn same(fs: &dyn FileSystem, native: &Path, keeps: Keeps) {
    let mut inodes = HashMap::new();
    directory(fs, fs.root(), native, keeps, &mut inodes);
}

fn directory(
    fs: &dyn FileSystem,
    node: Node,
    native: &Path,
    keeps: Keeps,
    inodes: &mut HashMap<u64, u64>,
) {
    let ours: Vec<_> = names(fs, node).unwrap();
    let set: HashSet<_> = ours.iter().cloned().collect();
    assert_eq!(set.len(), ours.len(), "{}: a name twice", native.display());
    let theirs: HashSet<_> = fs::read_dir(native)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_vec())
        .collect();
    assert_eq!(set, theirs, "{}", native.display());
    for name in ours {
        let path = native.join(std::ffi::OsStr::from_bytes(&name));
        let shown = path.display();
        let entry = fs.lookup(&CALLER, node, &name).unwrap();
        let ours = entry.attributes;
        let theirs = fs::symlink_metadata(&path).unwrap();
        let kind = theirs.file_type();
        assert_eq!(
            ours.mode() & 0o170000,
            theirs.mode() & 0o170000,
            "{shown}: type"
        );
        if !kind.is_symlink() {
            assert_eq!(ours.permissions, theirs.mode() & 0o7777, "{shown}: mode");
        }
        if keeps.owners {
            assert_eq!(
                (ours.uid, ours.gid),
                (theirs.uid(), theirs.gid()),
                "{shown}: owner"
            );
        }
        let time = |seconds: i64, nanoseconds: i64| {
            (i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
                .div_euclid(keeps.time_unit.into())
        };
        assert_eq!(
            time(ours.mtime.seconds, ours.mtime.nanoseconds.into()),
            time(theirs.mtime(), theirs.mtime_nsec()),
            "{shown}: mtime"
        );
        assert_eq!(
            fs.attributes(&Caller::SYSTEM, ours.node).unwrap(),
            ours,
            "{shown}"
        );
        if keeps.hard_links && !kind.is_dir() {
            assert_eq!(u64::from(ours.links), theirs.nlink(), "{shown}: links");
            let before = inodes.insert(theirs.ino(), ours.inode);
            assert!(
                before.is_none_or(|before| before == ours.inode),
                "{shown}: another node"
            );
        }
        if kind.is_dir() {
            let subdirectories = fs::read_dir(&path)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir());
            assert_eq!(
                ours.links as usize,
                2 + subdirectories.count(),
                "{shown}: links"
            );
            assert_eq!(fs.parent(ours.node).unwrap(), node, "{shown}: parent");
            directory(fs, ours.node, &path, keeps, inodes);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap().into_os_string().into_vec();
            assert_eq!(ours.size, target.len() as u64, "{shown}: size of link");
            assert_eq!(
                fs.readlink(&Caller::SYSTEM, ours.node).unwrap(),
                target,
                "{shown}: target"
            );
        } else if kind.is_file() {
            assert_eq!(ours.kind, FileKind::Regular);
            assert_eq!(ours.size, theirs.len(), "{shown}: size");
            let content = fs::read(&path).unwrap();
            for piece in [4096, 70_001] {
                let ours = read(fs, ours.node, piece).unwrap();
                assert!(ours == content, "{shown}: content in pieces of {piece}");
            }
        } else if kind.is_char_device() || kind.is_block_device() {
            assert_eq!(ours.rdev, theirs.rdev(), "{shown}: device");
        }
    }
}
