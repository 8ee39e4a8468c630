//! The tree that an archive's members make, built in the order of the archive with the rules of
//! `tar -x`: a later member replaces an earlier one of the same name, missing parents come into
//! being, a member below a symbolic link lands where the link leads. What would lie outside is left
//! out with a warning.

mod seal;

use super::bytes::put_string;
use super::format::{self, EntryRecord, NONE, NodeRecord};
use super::warning::Warnings;
use alloc::{string::String, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// Longest name of a directory entry, bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;
/// Longest target of a symbolic link, bytes (`PATH_MAX` without its NUL).
pub const TARGET_MAX: usize = 4095;
/// Deepest directory: what `PATH_MAX` allows to name from the root.
const DEPTH_MAX: u64 = 2048;
/// Links followed on the way to a member's directory (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// What placing a member gives, or why it is left out.
type Placed<T> = core::result::Result<T, &'static str>;

const UPWARDS: &str = "left out: its name has a \"..\"";
const LONG: &str = "left out: its name has a component of more than 255 bytes";
const OUTSIDE: &str = "left out: a symbolic link on the way to it leads out of the archive";

/// A tree under construction. Records are numbered as they come; [`Tree::seal`] brings them into
/// the form of the index.
pub struct Tree {
    /// While building, `extent` of a directory counts its entries and `size` is its depth.
    nodes: Vec<NodeRecord>,
    entries: Vec<EntryRecord>,
    names: Vec<u8>,
    /// Entry numbers + 1 by hash of directory and name; a power of two of slots, at most half of
    /// them taken.
    slots: Vec<u32>,
    seed: u64,
    sparse: Vec<u8>,
    xattrs: Vec<u8>,
    /// What was left out, and why.
    pub warnings: Warnings,
    /// The directory part of the last member and the directory that it led to: the next is mostly
    /// in the same.
    last: Option<(Vec<u8>, u32)>,
    implicit: NodeRecord,
}

const ROOT: u32 = 0;

impl Tree {
    /// A tree of a root only. It and directories that no member describes get `mtime`; `seed` is
    /// secret.
    pub fn new(mtime: Timespec, seed: u64) -> Self {
        let implicit = NodeRecord::new(FileKind::Directory as u32 | 0o755, mtime);
        Self {
            nodes: vec![implicit],
            entries: Vec::new(),
            names: Vec::new(),
            slots: vec![0; 64],
            seed,
            sparse: Vec::new(),
            xattrs: Vec::new(),
            warnings: Warnings::default(),
            last: None,
            implicit,
        }
    }

    /// Adds the member called `name`. `target` is that of a symbolic link; `links`, `entry` and,
    /// but for regular files and devices, `size`, `place` and `extent` of the record are filled in
    /// here. An error only when the index would outgrow its format.
    pub fn add(&mut self, name: &[u8], record: NodeRecord, target: &[u8]) -> Result<()> {
        self.room()?;
        if let Err(why) = self.try_add(name, record, target) {
            self.warnings.add(name, why);
        }
        Ok(())
    }

    /// Adds `name` as a hard link to what `existing` names now.
    pub fn link(&mut self, name: &[u8], existing: &[u8]) -> Result<()> {
        self.room()?;
        if let Err(why) = self.try_link(name, existing) {
            self.warnings.add(name, why);
        }
        Ok(())
    }

    /// Keeps a sparse map of (offset, length) pairs, sorted and checked, and returns where, for
    /// `extent`.
    pub fn keep_map(&mut self, map: &[(u64, u64)]) -> u64 {
        let at = self.sparse.len() as u64;
        self.sparse
            .extend_from_slice(&(map.len() as u64).to_le_bytes());
        let mut stored = 0u64;
        for &(offset, length) in map {
            for number in [offset, length, stored] {
                self.sparse.extend_from_slice(&number.to_le_bytes());
            }
            stored += length;
        }
        at
    }

    /// Keeps the content of a file and returns where, for `place` of [`format::Storage::Indexed`].
    pub fn keep_content(&mut self, content: &[u8]) -> Result<u64> {
        let at = self.names.len() as u64;
        self.names.extend_from_slice(content);
        self.room()?;
        Ok(at)
    }

    /// Keeps extended attributes and returns where, for `extra`; [`NONE`] for none of them.
    pub fn keep_xattrs(&mut self, xattrs: &[(Vec<u8>, Vec<u8>)]) -> u32 {
        let Ok(at) = u32::try_from(self.xattrs.len()) else {
            return NONE;
        };
        if xattrs.is_empty() {
            return NONE;
        }
        self.xattrs
            .extend_from_slice(&(xattrs.len() as u32).to_le_bytes());
        for (name, value) in xattrs {
            put_string(&mut self.xattrs, name);
            put_string(&mut self.xattrs, value);
        }
        at
    }

    /// The archive is damaged, and nothing behind that can be read: `EIO`, for who is `tolerant` a
    /// warning.
    pub fn damaged(&mut self, what: String, tolerant: bool) -> Result<()> {
        if tolerant {
            self.warnings.add(b"", what);
            return Ok(());
        }
        Err(Error::because(Errno::EIO, what))
    }

    /// How many members there are so far.
    pub fn members(&self) -> usize {
        self.entries.len()
    }

    /// Record numbers and name offsets are 32 bits wide, with a path's worth to spare.
    fn room(&self) -> Result<()> {
        const LIMIT: usize = (u32::MAX - (1 << 16)) as usize;
        if self.nodes.len() < LIMIT && self.names.len() < LIMIT {
            return Ok(());
        }
        Err(Error::because(
            Errno::EOVERFLOW,
            "the archive has more members or names than an index can hold (4 G)",
        ))
    }

    fn try_add(&mut self, path: &[u8], mut record: NodeRecord, target: &[u8]) -> Placed<()> {
        let directory = record.is_directory();
        let Some((parent, name)) = self.locate(path)? else {
            if !directory {
                return Err("left out: it has no name");
            }
            self.describe(ROOT, &record);
            return Ok(());
        };
        let existing = self.find(parent, name);
        if directory {
            if let Some(entry) = existing {
                let node = self.entries[entry as usize].node;
                if self.is_directory(node) {
                    self.describe(node, &record);
                    return Ok(());
                }
            }
            record.size = self.nodes[parent as usize].size + 1;
            if record.size > DEPTH_MAX {
                return Err("left out: it lies too deep");
            }
            (record.place, record.extent) = (0, 0);
        } else if record.mode & 0o170000 == FileKind::Symlink as u32 {
            if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
                return Err("left out: a symbolic link whose target is none");
            }
            record.place = self.names.len() as u64;
            record.size = target.len() as u64;
            self.names.extend_from_slice(target);
        }
        let node = self.nodes.len() as u32;
        record.entry = self.put(parent, name, existing, node, record.mode)?;
        self.nodes.push(record);
        Ok(())
    }

    fn try_link(&mut self, path: &[u8], existing: &[u8]) -> Placed<()> {
        const NOTHING: &str = "left out: a hard link to a member that is not there";
        let Some((parent, name)) = self.locate_existing(existing)? else {
            return Err(NOTHING);
        };
        let entry = self.find(parent, name).ok_or(NOTHING)?;
        let node = self.entries[entry as usize].node;
        if self.is_directory(node) {
            return Err("left out: a hard link to a directory");
        }
        let Some((parent, name)) = self.locate(path)? else {
            return Err("left out: it has no name");
        };
        let replaced = self.find(parent, name);
        let mode = self.nodes[node as usize].mode;
        self.put(parent, name, replaced, node, mode).map(drop)
    }

    /// Makes `name` in `parent` name `node`, in place of `existing` when there is such an entry;
    /// returns the entry.
    fn put(
        &mut self,
        parent: u32,
        name: &[u8],
        existing: Option<u32>,
        node: u32,
        mode: u32,
    ) -> Placed<u32> {
        let kind = (mode >> 12 & 15) as u8;
        let Some(entry) = existing else {
            return Ok(self.insert(parent, name, node, kind));
        };
        let old = self.entries[entry as usize];
        if self.is_directory(old.node) && self.nodes[old.node as usize].extent > 0 {
            return Err("left out: a directory that is not empty has that name already");
        }
        if old.kind != kind {
            self.last = None;
        }
        let record = &mut self.entries[entry as usize];
        (record.node, record.kind) = (node, kind);
        Ok(entry)
    }

    /// A directory's attributes come from its latest description.
    fn describe(&mut self, node: u32, from: &NodeRecord) {
        let to = &mut self.nodes[node as usize];
        (to.mode, to.uid, to.gid) = (from.mode, from.uid, from.gid);
        (to.mtime, to.extra) = (from.mtime, from.extra);
    }

    fn is_directory(&self, node: u32) -> bool {
        self.nodes
            .get(node as usize)
            .is_some_and(NodeRecord::is_directory)
    }

    /// The directory and last component of a member's name, its parents made as needed; none for
    /// the root itself.
    fn locate<'a>(&mut self, path: &'a [u8]) -> Placed<Option<(u32, &'a [u8])>> {
        let Some((prefix, name)) = split(path)? else {
            return Ok(None);
        };
        if let Some((last, directory)) = &self.last
            && last == prefix
        {
            return Ok(Some((*directory, name)));
        }
        // Before anything is made on the way.
        for name in prefix.split(|&byte| byte == b'/') {
            if name == b".." {
                return Err(UPWARDS);
            }
            if name.len() > NAME_MAX {
                return Err(LONG);
            }
        }
        let directory = self.walk(ROOT, prefix, true, &mut LINKS_MAX.clone())?;
        match &mut self.last {
            Some((last, number)) => {
                last.clear();
                last.extend_from_slice(prefix);
                *number = directory;
            }
            None => self.last = Some((prefix.to_vec(), directory)),
        }
        Ok(Some((directory, name)))
    }

    /// As [`Tree::locate`], but nothing is made.
    fn locate_existing<'a>(&mut self, path: &'a [u8]) -> Placed<Option<(u32, &'a [u8])>> {
        let Some((prefix, name)) = split(path)? else {
            return Ok(None);
        };
        if let Some((last, directory)) = &self.last
            && last == prefix
        {
            return Ok(Some((*directory, name)));
        }
        let found = self.walk(ROOT, prefix, false, &mut LINKS_MAX.clone());
        Ok(found.ok().map(|directory| (directory, name)))
    }

    /// The directory that `path` leads to from `directory`. With `make`, missing ones are made:
    /// `path` is the directory part of a member's name, without `..`. Without, it is a link's
    /// target or only looked for.
    fn walk(
        &mut self,
        mut directory: u32,
        path: &[u8],
        make: bool,
        links: &mut u32,
    ) -> Placed<u32> {
        for name in path.split(|&byte| byte == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => {
                    let entry = self.nodes[directory as usize].entry;
                    let entry = self.entries.get(entry as usize).ok_or(OUTSIDE)?;
                    directory = entry.parent;
                    continue;
                }
                _ => {}
            }
            let Some(entry) = self.find(directory, name) else {
                if !make {
                    return Err("left out: a symbolic link on the way to it leads nowhere");
                }
                directory = self.make_directory(directory, name)?;
                continue;
            };
            let node = self.entries[entry as usize].node;
            let record = self.nodes[node as usize];
            match FileKind::of_mode(record.mode) {
                Some(FileKind::Directory) => directory = node,
                Some(FileKind::Symlink) => {
                    *links = links
                        .checked_sub(1)
                        .ok_or("left out: too many symbolic links on the way to it")?;
                    let at = record.place as usize;
                    let target = self.names[at..at + record.size as usize].to_vec();
                    if target.first() == Some(&b'/') {
                        return Err(OUTSIDE);
                    }
                    directory = self.walk(directory, &target, false, links)?;
                }
                _ => return Err("left out: a file has the name of its directory"),
            }
        }
        Ok(directory)
    }

    /// A directory that no member has described so far.
    fn make_directory(&mut self, parent: u32, name: &[u8]) -> Placed<u32> {
        if name.len() > NAME_MAX {
            return Err("left out: its name has a component of more than 255 bytes");
        }
        let mut record = self.implicit;
        record.size = self.nodes[parent as usize].size + 1;
        if record.size > DEPTH_MAX {
            return Err("left out: it lies too deep");
        }
        let node = self.nodes.len() as u32;
        record.entry = self.insert(parent, name, node, FileKind::Directory.directory_type());
        self.nodes.push(record);
        Ok(node)
    }

    fn find(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = format::entry_hash(self.seed, parent, name) as usize & mask;
        loop {
            let number = self.slots[slot].checked_sub(1)?;
            let entry = &self.entries[number as usize];
            if entry.parent == parent && self.name(entry) == name {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn name(&self, entry: &EntryRecord) -> &[u8] {
        &self.names[entry.name as usize..][..entry.length as usize]
    }

    /// A new entry; there is none of that name, and the name is at most 255 bytes long.
    fn insert(&mut self, parent: u32, name: &[u8], node: u32, kind: u8) -> u32 {
        if (self.entries.len() + 1) * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 2];
            for number in 0..self.entries.len() {
                let entry = &self.entries[number];
                let hash = format::entry_hash(self.seed, entry.parent, self.name(entry));
                self.take_slot(hash, number as u32);
            }
        }
        let number = self.entries.len() as u32;
        self.entries.push(EntryRecord {
            name: self.names.len() as u32,
            node,
            parent,
            length: name.len() as u8,
            kind,
        });
        self.names.extend_from_slice(name);
        self.nodes[parent as usize].extent += 1;
        self.take_slot(format::entry_hash(self.seed, parent, name), number);
        number
    }

    fn take_slot(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = number + 1;
    }
}

/// Directory part and last component of a member's name, without the slashes around and `.` in it;
/// none for the root.
fn split(path: &[u8]) -> Placed<Option<(&[u8], &[u8])>> {
    if path.contains(&0) {
        return Err("left out: its name has a NUL byte");
    }
    let mut rest = path;
    loop {
        let (prefix, name) = match rest.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&rest[..slash], &rest[slash + 1..]),
            None => (&rest[..0], rest),
        };
        match name {
            b"" | b"." if prefix.is_empty() => return Ok(None),
            b"" | b"." => rest = prefix,
            b".." => return Err(UPWARDS),
            _ if name.len() > NAME_MAX => return Err(LONG),
            _ => return Ok(Some((prefix, name))),
        }
    }
}
