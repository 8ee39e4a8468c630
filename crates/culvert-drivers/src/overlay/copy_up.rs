//! A copy of what a lower layer has, in the upper one. Nobody sees it before it is whole: who is
//! killed meanwhile leaves nothing, or something in the work directory, which the next mount
//! empties.

use super::marks::Mark;
use super::state::{Core, Part};
use crate::{DescriptorFile, archive::host, unhindered};
use alloc::{boxed::Box, format, vec::Vec};
use culvert::{
    Attributes, Caller, Entry, Errno, File, FileKind, FileSystem, Node, OpenFlags, Opened,
    RenameFlags, Result, SetAttributes, Whence,
};

/// How many bytes are copied at a time.
const PIECE: usize = 256 << 10;

/// What of a file is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// All.
    All,
    /// None: it is emptied next.
    Emptied,
    /// None, where the mount may leave them in the lower layer: only attributes are changed.
    Wanted,
}

/// A name that nobody has in the work directory.
pub fn temporary() -> Vec<u8> {
    format!("#{:x}", host::random()).into_bytes()
}

impl Core {
    /// The directory for what is made before it is shown.
    pub fn work(&self) -> Result<Node> {
        self.writable()?;
        self.work.ok_or(Errno::EROFS.into())
    }

    /// The file that `opened` in a layer is, where it is `part`.
    pub fn driven(&self, part: Part, opened: Opened) -> Result<Box<dyn File>> {
        Ok(match opened {
            Opened::Driven(file) => file,
            Opened::Backed(fd) => {
                let found = self.fs(part).attributes(&Caller::SYSTEM, part.node)?;
                let descriptor = unhindered(fd);
                let inode = found.inode;
                Box::new(DescriptorFile::new(
                    descriptor,
                    self.keeper,
                    part.node,
                    inode,
                ))
            }
        })
    }

    /// What `node` is in the upper layer, copied there if need be, and so are the directories above
    /// it. With the right to change.
    pub fn copy_up(&self, node: Node, bytes: Bytes) -> Result<Part> {
        let mut way = Vec::new();
        let mut here = node;
        loop {
            let (upper, gone, place) = self.known(here, |known| {
                (known.parts.upper, known.gone, known.place.clone())
            })?;
            if upper.is_some() {
                break;
            }
            let (dir, name) = place.filter(|_| !gone).ok_or(Errno::ENOENT)?;
            way.push((here, dir, name));
            here = dir;
        }
        for (node, dir, name) in way.into_iter().rev() {
            self.elevated(|| self.copy_one(node, (dir, &name), bytes))?;
        }
        let upper = self.known(node, |known| {
            (known.parts.upper, known.parts.lowers.last().copied())
        });
        let (upper, lower) = upper?;
        let part = upper.ok_or(Errno::ESTALE)?;
        if let Some(lower) = lower
            && bytes != Bytes::Wanted
            && self.nodes.with(node, |known| known.kind)? == FileKind::Regular
        {
            self.elevated(|| self.fetch_bytes(node, part, lower, bytes))?;
        }
        Ok(part)
    }

    /// Copies `node`, which is `name` in `dir`, a directory of the upper layer.
    fn copy_one(&self, node: Node, (dir, name): (Node, &[u8]), bytes: Bytes) -> Result<()> {
        let upper = self.upper()?;
        let (over, impure) = self
            .nodes
            .with(dir, |known| (known.parts.upper, known.impure))?;
        let over = over.ok_or(Errno::ESTALE)?;
        let from = self.nodes.with(node, |known| known.parts.top())??;
        let source = self.fs(from);
        let wanted = source.attributes(&Caller::SYSTEM, from.node)?;
        let before = upper.attributes(&Caller::SYSTEM, over.node)?;
        if !impure {
            self.set_mark(over.node, Mark::Impure, b"y")?;
            self.nodes.with(dir, |known| known.impure = true)?;
        }
        let without_bytes = bytes == Bytes::Wanted && self.settings.metacopy && wanted.size > 0;
        let made = match wanted.kind {
            FileKind::Regular => {
                // A lower file may have its bytes in one below.
                let lowest = self
                    .nodes
                    .with(node, |known| known.parts.lowers.last().copied())?;
                let wants = bytes != Bytes::Emptied && !without_bytes;
                let bytes = wants.then(|| lowest.unwrap_or(from));
                self.copy_file(
                    (from, &wanted),
                    node,
                    (over.node, name),
                    (bytes, without_bytes),
                )?
            }
            _ => self.copy_other((from, &wanted), node, (over.node, name))?,
        };
        let part = Part {
            layer: 0,
            node: made,
            attribute_whiteouts: false,
        };
        if let Err(error) = self.nodes.raised(node, part, !without_bytes) {
            upper.forget(made, 1);
            return Err(error);
        }
        // The directory shows what it showed before.
        let times = SetAttributes {
            atime: Some(before.atime),
            mtime: Some(before.mtime),
            ..SetAttributes::default()
        };
        let _ = upper.change_attributes(&Caller::SYSTEM, over.node, &times);
        Ok(())
    }

    /// Copies a regular file, with the bytes of `bytes`.
    fn copy_file(
        &self,
        (from, wanted): (Part, &Attributes),
        node: Node,
        (over, name): (Node, &[u8]),
        (bytes, marked): (Option<Part>, bool),
    ) -> Result<Node> {
        let (upper, work) = (self.upper()?, self.work()?);
        let mut temporary_name = None;
        let made = upper.tmpfile(&Caller::SYSTEM, work, OpenFlags::READ_WRITE, 0o600);
        let (entry, opened) = match made {
            Err(error)
                if matches!(
                    error.errno(),
                    Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EISDIR | Errno::EINVAL
                ) =>
            {
                let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
                let name = temporary_name.insert(temporary());
                upper.create(&Caller::SYSTEM, work, name, flags, 0o600)?
            }
            made => made?,
        };
        let made = entry.attributes.node;
        let part = Part {
            layer: 0,
            node: made,
            attribute_whiteouts: false,
        };
        let work_on = || {
            let write = self.driven(part, opened)?;
            if let Some(bytes) = bytes {
                let opened = self
                    .fs(bytes)
                    .open(&Caller::SYSTEM, bytes.node, OpenFlags::READ)?;
                let read = self.driven(bytes, opened)?;
                copy_bytes(&*read, &*write, wanted.size)?;
            } else if marked {
                let size = SetAttributes {
                    size: Some(wanted.size),
                    ..SetAttributes::default()
                };
                write.set_attributes(&Caller::SYSTEM, &size)?;
                self.set_mark(made, Mark::Metacopy, b"")?;
            }
            // Before the mode, which may allow no `user.` one.
            self.set_mark(made, Mark::Origin, &self.origin_of(from, node))?;
            self.copy_attributes((from, wanted), made)?;
            if !self.settings.volatile {
                write.sync(false)?;
            }
            match &temporary_name {
                // It is kept by `write` until it has a name.
                None => {
                    let linked = upper.link(&Caller::SYSTEM, made, over, name)?;
                    upper.forget(linked.attributes.node, 1);
                    Ok(())
                }
                Some(temporary) => {
                    let flags = RenameFlags(RenameFlags::NO_REPLACE);
                    upper.rename(&Caller::SYSTEM, (work, temporary), (over, name), flags)
                }
            }
        };
        match work_on() {
            Ok(()) => Ok(made),
            Err(error) => {
                if let Some(temporary) = &temporary_name {
                    let _ = upper.unlink(&Caller::SYSTEM, work, temporary);
                }
                upper.forget(made, 1);
                Err(error)
            }
        }
    }

    /// Copies what is no regular file.
    fn copy_other(
        &self,
        (from, wanted): (Part, &Attributes),
        node: Node,
        (over, name): (Node, &[u8]),
    ) -> Result<Node> {
        let (upper, work) = (self.upper()?, self.work()?);
        let temporary = temporary();
        let system = &Caller::SYSTEM;
        let Entry { attributes } = match wanted.kind {
            FileKind::Directory => upper.mkdir(system, work, &temporary, 0o700)?,
            FileKind::Symlink => {
                let target = self.fs(from).readlink(system, from.node)?;
                upper.symlink(system, work, &temporary, &target)?
            }
            _ => upper.mknod(system, work, &temporary, wanted.mode(), wanted.rdev)?,
        };
        let made = attributes.node;
        let is_directory = wanted.kind == FileKind::Directory;
        let work_on = || {
            self.set_mark(made, Mark::Origin, &self.origin_of(from, node))?;
            self.copy_attributes((from, wanted), made)?;
            let flags = RenameFlags(RenameFlags::NO_REPLACE);
            upper.rename(system, (work, &temporary), (over, name), flags)
        };
        match work_on() {
            Ok(()) => Ok(made),
            Err(error) => {
                let _ = match is_directory {
                    true => upper.rmdir(system, work, &temporary),
                    false => upper.unlink(system, work, &temporary),
                };
                upper.forget(made, 1);
                Err(error)
            }
        }
    }

    /// Gives `made` in the upper layer the owner, the extended attributes, the mode and the times
    /// of `from`.
    fn copy_attributes(&self, (from, wanted): (Part, &Attributes), made: Node) -> Result<()> {
        let (source, target) = (self.fs(from), self.upper()?);
        let found = target.attributes(&Caller::SYSTEM, made)?;
        if (found.uid, found.gid) != (wanted.uid, wanted.gid) {
            let owner = SetAttributes {
                uid: Some(wanted.uid),
                gid: Some(wanted.gid),
                ..SetAttributes::default()
            };
            target.change_attributes(&Caller::SYSTEM, made, &owner)?;
        }
        // A new owner takes the file's capabilities.
        let lost = self.copy_xattrs(source, from.node, made)?;
        let permissions = lost.map_or(wanted.permissions, |acl| {
            without_acl(wanted.permissions, &acl)
        });
        let rest = SetAttributes {
            permissions: (wanted.kind != FileKind::Symlink).then_some(permissions),
            atime: Some(wanted.atime),
            mtime: Some(wanted.mtime),
            ..SetAttributes::default()
        };
        target.change_attributes(&Caller::SYSTEM, made, &rest)
    }

    /// Those that are no marks. What the upper layer cannot have is left out, as the kernel does:
    /// the access list, if it was.
    fn copy_xattrs(
        &self,
        source: &dyn FileSystem,
        from: Node,
        made: Node,
    ) -> Result<Option<Vec<u8>>> {
        let target = self.upper()?;
        let mut lost = None;
        let names = match source.list_xattr(&Caller::SYSTEM, from) {
            Err(error) if error.errno() != Errno::EOPNOTSUPP => return Err(error),
            names => names.unwrap_or_default(),
        };
        for name in names.split(|&byte| byte == 0) {
            if name.is_empty() || self.shown_xattr(name).is_none() {
                continue;
            }
            let value = match source.get_xattr(&Caller::SYSTEM, from, name) {
                Err(error) if error.errno() == Errno::ENODATA => continue,
                value => value?,
            };
            match target.set_xattr(&Caller::SYSTEM, made, name, &value, 0) {
                Err(error) if matches!(error.errno(), Errno::EOPNOTSUPP | Errno::EPERM) => {
                    if name == b"system.posix_acl_access" {
                        lost = Some(value);
                    }
                }
                done => done?,
            }
        }
        Ok(lost)
    }

    /// Gives `node`, which is `part` in the upper layer without its bytes, those of `lower`.
    fn fetch_bytes(&self, node: Node, part: Part, lower: Part, bytes: Bytes) -> Result<()> {
        let upper = self.upper()?;
        if self.has_mark(0, part.node, Mark::Metacopy)? {
            let before = upper.attributes(&Caller::SYSTEM, part.node)?;
            // A write takes them, but it is no program's.
            const RIGHTS: &[u8] = b"security.capability";
            let rights = upper.get_xattr(&Caller::SYSTEM, part.node, RIGHTS).ok();
            let opened = upper.open(&Caller::SYSTEM, part.node, OpenFlags::READ_WRITE)?;
            let write = self.driven(part, opened)?;
            if bytes == Bytes::All {
                let opened = self
                    .fs(lower)
                    .open(&Caller::SYSTEM, lower.node, OpenFlags::READ)?;
                let read = self.driven(lower, opened)?;
                copy_bytes(&*read, &*write, before.size)?;
            }
            let rest = SetAttributes {
                permissions: Some(before.permissions),
                atime: Some(before.atime),
                mtime: Some(before.mtime),
                ..SetAttributes::default()
            };
            write.set_attributes(&Caller::SYSTEM, &rest)?;
            if let Some(rights) = rights.filter(|_| bytes == Bytes::All) {
                match upper.set_xattr(&Caller::SYSTEM, part.node, RIGHTS, &rights, 0) {
                    Err(error) if error.errno() == Errno::EPERM => {}
                    done => done?,
                }
            }
            if !self.settings.volatile {
                write.sync(false)?;
            }
            // From here on the bytes are its own.
            self.remove_mark(part.node, Mark::Metacopy)?;
            self.remove_mark(part.node, Mark::Redirect)?;
        }
        self.nodes.with(node, |known| known.parts.lowers.clear())
    }
}

/// The `permissions` of a file without the access list `acl` (acl(5)): its group has what the list
/// gives the group, where the bits of a file that has one say the mask.
fn without_acl(permissions: u32, acl: &[u8]) -> u32 {
    const VERSION: usize = 4;
    const ENTRY: usize = 8;
    const GROUP: u16 = 4;
    const MASK: u16 = 0x10;
    let entries = acl.get(VERSION..).unwrap_or_default().chunks_exact(ENTRY);
    let of = |tag: u16| {
        let mut all = entries.clone();
        let entry = all.find(|entry| entry[..2] == tag.to_le_bytes());
        entry.map_or(7, |entry| u32::from(entry[2]) & 7)
    };
    permissions & (!0o070 | (of(GROUP) & of(MASK)) << 3)
}

/// The first `size` bytes of `read` into `write`, which is empty; by the kernel where it can, with
/// the holes left out.
fn copy_bytes(read: &dyn File, write: &dyn File, size: u64) -> Result<()> {
    let mut at = 0;
    let mut by_kernel = true;
    while at < size {
        let start = match read.seek(at, Whence::Data) {
            Ok(start) => start.max(at),
            Err(error) if error.errno() == Errno::ENXIO => break,
            Err(_) => at,
        };
        let end = match read.seek(start, Whence::Hole) {
            Ok(end) if end > start => end.min(size),
            _ => size,
        };
        at = start;
        while at < end {
            let copied = match by_kernel {
                true => read.copy_range(at, write, at, end - at),
                false => Ok(0),
            };
            match copied {
                Ok(count) if count > 0 => at += count,
                // Nothing was copied, or it cannot be so.
                _ => {
                    by_kernel = false;
                    match copy_piece(read, write, at, end - at)? {
                        0 => return set_size(write, size),
                        count => at += count,
                    }
                }
            }
        }
    }
    set_size(write, size)
}

/// Some of the bytes at `at`, `most` at most: how many there were.
fn copy_piece(read: &dyn File, write: &dyn File, at: u64, most: u64) -> Result<u64> {
    let mut buffer = alloc::vec![0; PIECE.min(usize::try_from(most).unwrap_or(PIECE))];
    let count = read.read_at(at, &mut &mut buffer[..])?;
    let mut done = 0;
    let is_hole = buffer[..count].iter().all(|&byte| byte == 0);
    while done < count && !is_hole {
        match write.write_at(at + done as u64, &mut &buffer[done..count])? {
            0 => return Err(Errno::EIO.into()),
            written => done += written,
        }
    }
    Ok(count as u64)
}

fn set_size(write: &dyn File, size: u64) -> Result<()> {
    let size = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    write.set_attributes(&Caller::SYSTEM, &size).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn without_its_access_list_a_group_has_no_more_rights() {
        let entry = |tag: u16, rights: u16| {
            let [tag, rights] = [tag, rights].map(u16::to_le_bytes);
            [&tag[..], &rights, &[0xff; 4]].concat()
        };
        let list = |entries: &[Vec<u8>]| [vec![2, 0, 0, 0], entries.concat()].concat();
        let (group, mask, user) = (entry(4, 4), entry(0x10, 6), entry(2, 6));
        assert_eq!(
            without_acl(0o664, &list(&[user, group.clone(), mask])),
            0o644
        );
        assert_eq!(
            without_acl(0o660, &list(&[entry(4, 0), entry(0x10, 6)])),
            0o600
        );
        assert_eq!(without_acl(0o640, &list(&[group])), 0o640);
        assert_eq!(without_acl(0o640, b""), 0o640);
    }
}
