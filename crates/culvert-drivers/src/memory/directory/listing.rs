//! A directory is listed: its records, one block at a time.

use super::{UNITS, entries, records};
use crate::memory::{core::Core, layout::inode, map::block_of};
use culvert::{DirectoryEntry, DirectorySink, Errno, FileKind, Node, Result};

impl Core {
    /// Gives `sink` what is in `dir` from position `from` on (in units of 8 bytes of its records),
    /// until it refuses.
    pub fn list_names(&self, dir: Node, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        let mut buffer = self.room();
        let mut index = from / UNITS;
        loop {
            // A copy of one block at a time: the sink may look names up, and what comes and goes
            // meanwhile comes and goes.
            let more = self.steady(|| {
                let dir = self.directory(dir)?;
                if dir.get(inode::LINKS) as u32 == 0 {
                    // Removed: it does not list itself either (`iterate_dir`, fs/readdir.c).
                    return Err(Errno::ENOENT.into());
                }
                if index >= self.directory_blocks(&dir)? || entries(&dir) == 0 {
                    return Ok(false);
                }
                match self.pointer(dir.get(inode::ROOT), index)? {
                    0 => buffer.fill(0),
                    pointer => {
                        let block = self.image.bytes(block_of(pointer))?;
                        block.shared().copy_to(&mut buffer);
                    }
                }
                Ok(true)
            })?;
            if !more {
                return Ok(());
            }
            let mut position = index * UNITS;
            for (record, name) in records(&buffer) {
                let next = position + u64::from(record.length) / 8;
                if record.inode != 0 && position >= from {
                    let kind = FileKind::of_mode(u32::from(record.kind) << 12);
                    let entry = DirectoryEntry {
                        inode: record.inode.into(),
                        next,
                        kind: kind.unwrap_or(FileKind::Regular),
                        name,
                    };
                    if !sink(entry) {
                        return Ok(());
                    }
                }
                position = next;
            }
            index += 1;
        }
    }
}
