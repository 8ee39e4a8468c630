//! Extended attributes: all of a file in one run of blocks, written anew at each change.
//!
//! ```text
//! u32 bytes in use behind this, then for each:
//!     u8 length of the name, u32 length of the value, name, value
//! ```

use super::{
    blocks::Run,
    core::{Core, Inode},
    image::damaged,
    layout::{BLOCK, flag, inode},
    transaction::Transaction,
};
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Result};

/// Largest value (xattr(7)).
const LARGEST_VALUE: usize = 64 << 10;
/// Most that all attributes of a file take.
const LARGEST: usize = 1 << 20;
/// Longest list of names (xattr(7)).
const LONGEST_LIST: usize = 64 << 10;

const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// The attributes in `bytes`: name, value.
fn each(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (name, value) = (*rest.first()?, rest.get(1..5)?);
        let value = u32::from_le_bytes(value.try_into().ok()?) as usize;
        let (name, more) = rest.get(5..)?.split_at_checked(name.into())?;
        let (value, more) = more.split_at_checked(value)?;
        rest = more;
        Some((name, value))
    })
}

fn append(to: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    to.push(name.len() as u8);
    to.extend_from_slice(&(value.len() as u32).to_le_bytes());
    to.extend_from_slice(name);
    to.extend_from_slice(value);
}

/// Whether attributes of this name are kept: `system.` ones are access control lists, which this
/// driver has not. A prefix alone is no name (`xattr_resolve_name`, fs/xattr.c).
fn kept(name: &[u8]) -> Result<()> {
    let known = [&b"user."[..], b"security.", b"trusted."];
    match known.iter().find(|prefix| name.starts_with(prefix)) {
        // `xattr_resolve_name`, fs/xattr.c; the length is that of XATTR_NAME_MAX.
        Some(prefix) if name.len() == prefix.len() => Err(Errno::EINVAL.into()),
        Some(_) if name.len() > 255 => Err(Errno::ERANGE.into()),
        Some(_) => Ok(()),
        None => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Core {
    /// All attributes of an inode, as they are kept. With the lock held.
    fn xattrs(&self, of: &Inode<'_>) -> Result<Vec<u8>> {
        let run = Run::of(of.get(inode::XATTRS));
        if run.start == 0 {
            return Ok(Vec::new());
        }
        if run.count as usize > LARGEST / BLOCK as usize + 1 {
            return Err(damaged("extended attributes that are too long"));
        }
        let mut bytes = Vec::with_capacity((run.count * BLOCK) as usize);
        for block in run.start..run.start + run.count {
            let start = bytes.len();
            bytes.resize(start + BLOCK as usize, 0);
            self.image
                .bytes(block)?
                .shared()
                .copy_to(&mut bytes[start..]);
        }
        let length = bytes.get(..4).and_then(|length| length.try_into().ok());
        let length = u32::from_le_bytes(length.unwrap_or_default()) as usize;
        bytes.truncate(length.saturating_add(4));
        bytes.drain(..4.min(bytes.len()));
        Ok(bytes)
    }

    /// getxattr(2)
    pub fn get_xattr(&self, of: &Inode<'_>, name: &[u8]) -> Result<Vec<u8>> {
        kept(name)?;
        if of.get(inode::XATTRS) == 0 {
            return Err(Errno::ENODATA.into());
        }
        let _lock = self.lock()?;
        self.read_xattr(of, name)?.ok_or(Errno::ENODATA.into())
    }

    /// The value of attribute `name`, with the lock held.
    pub fn read_xattr(&self, of: &Inode<'_>, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let all = self.xattrs(of)?;
        let found = each(&all).find(|(known, _)| *known == name);
        Ok(found.map(|(_, value)| value.to_vec()))
    }

    /// listxattr(2)
    pub fn list_xattr(&self, of: &Inode<'_>) -> Result<Vec<u8>> {
        if of.get(inode::XATTRS) == 0 {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let all = self.xattrs(of)?;
        let mut names = Vec::new();
        for (name, _) in each(&all) {
            names.extend_from_slice(name);
            names.push(0);
        }
        Ok(names)
    }
}

impl Transaction<'_> {
    /// setxattr(2); without a value removexattr(2).
    pub fn set_xattr(
        &mut self,
        of: &Inode<'_>,
        name: &[u8],
        value: Option<&[u8]>,
        flags: u32,
    ) -> Result<()> {
        kept(name)?;
        // What is kept of an inode that is free takes nothing more, but for a directory, natively
        // too: who is in it, on a kernel mount, has not opened it. The number's next owner frees
        // that.
        let kind = FileKind::of_mode(of.mode());
        let takes = |kind: &FileKind| *kind == FileKind::Directory || !of.has(flag::FREE);
        let kind = kind.filter(takes).ok_or(Errno::ESTALE)?;
        let stored = matches!(kind, FileKind::Regular | FileKind::Directory);
        if !stored && name.starts_with(b"user.") {
            return Err(Errno::EPERM.into());
        }
        let old = self.core.xattrs(of)?;
        let exists = each(&old).any(|(known, _)| known == name);
        match (exists, value) {
            (true, Some(_)) if flags & CREATE != 0 => return Err(Errno::EEXIST.into()),
            (false, Some(_)) if flags & REPLACE != 0 => return Err(Errno::ENODATA.into()),
            (false, None) => return Err(Errno::ENODATA.into()),
            _ => {}
        }
        let mut new = Vec::with_capacity(old.len() + 300);
        for (known, kept) in each(&old).filter(|(known, _)| *known != name) {
            append(&mut new, known, kept);
        }
        if let Some(value) = value {
            if value.len() > LARGEST_VALUE {
                return Err(Errno::E2BIG.into());
            }
            append(&mut new, name, value);
        }
        let names: usize = each(&new).map(|(name, _)| name.len() + 1).sum();
        if new.len() > LARGEST || names > LONGEST_LIST {
            return Err(Errno::ENOSPC.into());
        }
        self.store_xattrs(of, &new)?;
        self.touch(of, false)
    }

    fn store_xattrs(&mut self, of: &Inode<'_>, bytes: &[u8]) -> Result<()> {
        let mut word = 0;
        if !bytes.is_empty() {
            let wanted = (bytes.len() as u64 + 4).div_ceil(BLOCK);
            let run = self.allocate_whole(wanted)?;
            let mut rest = &[&(bytes.len() as u32).to_le_bytes(), bytes].concat()[..];
            for block in run.start..run.start + run.count {
                let (now, later) = rest.split_at(rest.len().min(BLOCK as usize));
                self.core.image.bytes(block)?.copy_from(now);
                rest = later;
            }
            word = run.start | run.count << 32;
        }
        self.free_xattrs(of)?;
        self.set_word(of, inode::XATTRS, word)
    }

    /// `count` blocks one behind the other; `ENOSPC` when there are not.
    fn allocate_whole(&mut self, count: u64) -> Result<Run> {
        let mut short = Vec::new();
        let found = loop {
            let run = self.allocate(count)?;
            if run.count == count {
                break run;
            }
            short.push(run);
            if short.len() > 64 {
                return Err(Errno::ENOSPC.into());
            }
        };
        for run in short {
            self.free(run)?;
        }
        Ok(found)
    }

    /// Gives the blocks of the extended attributes back.
    pub fn free_xattrs(&mut self, of: &Inode<'_>) -> Result<()> {
        let run = Run::of(of.get(inode::XATTRS));
        if run.start != 0 {
            self.free(run)?;
            self.set_word(of, inode::XATTRS, 0)?;
        }
        Ok(())
    }
}
