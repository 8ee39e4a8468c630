//! Open directories.

use super::{DONE, Outcome};
use crate::{
    capabilities::CACHE_DIR,
    handover::{Open, Reopen},
    opened::OpenDirectory,
    session::{Context, Session},
};
use culvert::{Caller, DirectoryEntry, Errno, FileKind, Node, OpenFlags, OpenedDirectory, Result};
use culvert_wire::{
    Answer, Data, DirectoryWriter, InitFlags, WireEntry,
    structures::{EntryOut, FsyncIn, OpenIn, OpenOut, ReadIn},
};

/// How many positions `.` and `..` take, which are added here, in front of the driver's.
const DOTS: u64 = 2;
/// The largest position: telldir(3) gives it to programs as a signed number.
const LAST: u64 = i64::MAX as u64;

/// The driver's position as the kernel has it. The largest one is kept: file systems mark the end
/// by it (ext4).
const fn shifted(position: u64) -> u64 {
    match position {
        LAST => LAST,
        position => position.saturating_add(DOTS),
    }
}

/// The driver's position of the kernel's.
const fn unshifted(offset: u64) -> u64 {
    match offset {
        LAST => LAST,
        offset => offset.saturating_sub(DOTS),
    }
}

impl Session {
    pub(super) fn opendir(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        open: &OpenIn,
    ) -> Outcome<'static> {
        let caller = self.caller(context, None)?;
        let opened = self
            .filesystem
            .open_directory(&caller, dir, OpenFlags(open.flags))?;
        let driven = match opened {
            // No more of these requests: what is open needs nothing of us.
            OpenedDirectory::Stateless | OpenedDirectory::Backed(_)
                if self.protocol.flags.contains(InitFlags::NO_OPENDIR_SUPPORT) =>
            {
                return Err(Errno::ENOSYS.into());
            }
            OpenedDirectory::Stateless | OpenedDirectory::Backed(_) => None,
            OpenedDirectory::Driven(directory) => Some(directory),
        };
        let open_flags = match self.settings.without(CACHE_DIR) || self.validity.entry == 0 {
            true => 0,
            false => OpenOut::CACHE_DIR | self.kept_listing(dir),
        };
        let fh = self.directories.insert(OpenDirectory { driven });
        let noted = Open {
            kind: Reopen::Driven,
            node: dir.0,
            flags: open.flags,
            fd: -1,
            identity: [0; 2],
            backing: -1,
            request: context.unique(),
        };
        self.settings.handover.directories.set(fh, &noted);
        Ok(Answer::Opened {
            open: OpenOut {
                fh,
                open_flags,
                backing_id: 0,
            },
        })
    }

    /// Whether the kernel may keep the listing of `dir` that it has: it looks itself for changes
    /// made through the mount.
    fn kept_listing(&self, dir: Node) -> u32 {
        let (found, valid) = (
            self.filesystem.attributes(&Caller::SYSTEM, dir),
            self.validity_of(dir),
        );
        match found.is_ok_and(|found| self.cache_retention.open_directory(dir, &found, valid)) {
            true => OpenOut::KEEP_CACHE,
            false => 0,
        }
    }

    /// Adds `.` and `..` by `add` as far as `offset` asks for them; whether they fitted. Their
    /// inode numbers are the node's and its parent's.
    fn dots(
        &self,
        dir: Node,
        offset: u64,
        mut add: impl FnMut(&WireEntry<'_>) -> bool,
    ) -> Result<bool> {
        let kind = u32::from(FileKind::Directory.directory_type());
        for (at, name) in [&b"."[..], b".."].into_iter().enumerate() {
            if offset > at as u64 {
                continue;
            }
            let inode = match at {
                0 => self.filesystem.attributes(&Caller::SYSTEM, dir)?.inode,
                // Of a directory that was removed there is none.
                _ => match self.filesystem.parent(dir) {
                    Ok(parent) => self
                        .filesystem
                        .attributes(&Caller::SYSTEM, parent)
                        .map_or(0, |a| a.inode),
                    Err(_) => 0,
                },
            };
            let entry = WireEntry {
                inode: inode.max(1),
                next: at as u64 + 1,
                kind,
                name,
            };
            if !add(&entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn readdir<'o>(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        read: &ReadIn,
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        // What may be listed was decided when it was opened.
        if self.acts {
            context.identity.server()?;
        }
        let caller = self.caller(context, None)?;
        let size = out.len().min(read.size as usize);
        let mut writer = DirectoryWriter::new(&mut out[..size]);
        if self.dots(dir, read.offset, |entry| writer.add(entry))? {
            let mut sink = |entry: DirectoryEntry<'_>| writer.add(&wire(&entry));
            let from = unshifted(read.offset);
            match self.directories.get(read.fh).as_deref() {
                Some(OpenDirectory {
                    driven: Some(directory),
                }) => directory.read(from, &mut sink),
                _ => self
                    .filesystem
                    .read_directory(&caller, dir, from, &mut sink),
            }?;
        }
        let length = writer.length();
        Ok(Answer::Data {
            data: Data(&out[..length]),
        })
    }

    pub(super) fn readdirplus<'o>(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        read: &ReadIn,
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        let caller = match self.acts {
            // As above; who may use the names the kernel checks at each.
            true => {
                context.identity.server()?;
                Caller::SYSTEM
            }
            false => self.caller(context, None)?,
        };
        let size = out.len().min(read.size as usize);
        let mut writer = DirectoryWriter::new(&mut out[..size]);
        // Node 0: the kernel is told no more than the name.
        let nothing = EntryOut::default();
        if self.dots(dir, read.offset, |entry| writer.add_plus(&nothing, entry))? {
            let from = unshifted(read.offset);
            match self.directories.get(read.fh).as_deref() {
                Some(OpenDirectory {
                    driven: Some(directory),
                }) => {
                    let mut sink = |entry: DirectoryEntry<'_>| {
                        self.look_up_and_add(&caller, dir, &entry, &mut writer)
                    };
                    directory.read(from, &mut sink)
                }
                _ => {
                    let mut sink = |entry: DirectoryEntry<'_>, found: Option<culvert::Entry>| {
                        let found = found.map_or(nothing, |found| self.entry_out(&found));
                        writer.add_plus(&found, &wire(&entry))
                    };
                    self.filesystem
                        .read_directory_plus(&caller, dir, from, &mut sink)
                }
            }?;
        }
        let length = writer.length();
        Ok(Answer::Data {
            data: Data(&out[..length]),
        })
    }

    /// Adds a name with what a lookup of it says; one that did not fit gives its reference back.
    fn look_up_and_add(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        entry: &DirectoryEntry<'_>,
        writer: &mut DirectoryWriter<'_>,
    ) -> bool {
        let found = self.filesystem.lookup(caller, dir, entry.name).ok();
        let told = found.map_or_else(EntryOut::default, |found| self.entry_out(&found));
        let fitted = writer.add_plus(&told, &wire(entry));
        if let Some(found) = found.filter(|_| !fitted) {
            self.filesystem.forget(found.attributes.node, 1);
        }
        fitted
    }

    pub(super) fn fsyncdir(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        fsync: &FsyncIn,
    ) -> Outcome<'static> {
        if self.acts {
            context.identity.server()?;
        }
        let data_only = fsync.fsync_flags & FsyncIn::DATA_ONLY != 0;
        match self.directories.get(fsync.fh).as_deref() {
            Some(OpenDirectory {
                driven: Some(directory),
            }) => directory.sync(data_only),
            _ => self.filesystem.sync_directory(dir, data_only),
        }?;
        DONE
    }
}

fn wire<'a>(entry: &DirectoryEntry<'a>) -> WireEntry<'a> {
    WireEntry {
        // readdir(3) takes 0 for "no entry".
        inode: entry.inode.max(1),
        next: shifted(entry.next),
        kind: u32::from(entry.kind.directory_type()),
        name: entry.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back() {
        for position in [0, 1, 2, 77, LAST - 3, LAST] {
            assert_eq!(unshifted(shifted(position)), position);
        }
        // The two in front lead to the driver's start.
        assert_eq!([0, 1, 2].map(unshifted), [0, 0, 0]);
        assert!(shifted(u64::MAX - 9) >= LAST);
    }
}
