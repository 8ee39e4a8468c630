//! Upwards: the parent of a directory, and paths from the root.

use super::{
    core::{Core, split},
    image::damaged,
    layout::{self, flag, inode},
};
use alloc::vec::Vec;
use culvert::{Errno, Node, Result};

/// Longest path that is given, in bytes: directories that hold each other would go on for ever.
const LONGEST: usize = 1 << 20;

impl Core {
    /// The parent of directory `dir`: `ENOENT` when both were removed.
    pub fn parent_of(&self, dir: Node) -> Result<Node> {
        self.steady(|| {
            let dir = self.directory(dir)?;
            let (links, parent) = split(dir.get(inode::LINKS));
            let parent = self.inode(parent)?;
            // The `..` of a removed directory stays what it was, unless that was removed, too, and
            // is another one now.
            let lost = parent.has(flag::FREE) || parent.get(inode::BTIME) > dir.get(inode::CTIME);
            if links == 0 && (lost || !parent.is_directory()) {
                return Err(Errno::ENOENT.into());
            }
            Ok(parent.node())
        })
    }

    /// A path of `node` below the root: `ENOENT` when it has none.
    pub fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let _lock = self.lock()?;
        let (mut at, mut names, mut length) = (self.node(node)?, Vec::new(), 0);
        while at.number != layout::ROOT {
            let (links, parent) = split(at.get(inode::LINKS));
            if links == 0 {
                return Err(Errno::ENOENT.into());
            }
            let parent = self.inode(parent)?;
            let name = match self.name_of(&parent, at.number)? {
                Some(name) => (parent, name),
                None => self.any_name(at.number)?.ok_or(Errno::ENOENT)?,
            };
            length += name.1.len() + 1;
            if length > LONGEST {
                return Err(damaged("directories that hold each other"));
            }
            names.push(name.1);
            at = name.0;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }
}
