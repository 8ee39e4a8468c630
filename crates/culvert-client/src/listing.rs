//! READDIR and READDIRPLUS.

use crate::{
    connection::Who,
    core::{Core, opcode},
    words::CHANGE,
};
use alloc::vec::Vec;
use culvert::{DirectoryEntry, DirectorySink, Errno, Error, FileKind, Result};
use culvert_wire::{
    DirectoryEntries, DirectoryEntriesPlus, InitFlags, Malformed, Operation, WireEntry,
    structures::{EntryOut, FsyncIn, OpenIn, ReadIn, ReleaseIn},
};

/// Bytes that are asked for at once: as much as a getdents64(2) of libc takes.
const MOST: usize = 32768;

/// What is asked of a directory that is open.
#[derive(Clone, Copy)]
pub struct OpenedAt {
    pub node: u64,
    /// None: the server keeps nothing for open directories (ENOSYS to OPENDIR).
    pub fh: Option<u64>,
}

/// Where a listing has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The position.
    pub at: u64,
    /// Changes of the directory, before the server said so.
    pub changes: u64,
}

impl Core {
    /// OPENDIR.
    pub fn open_listing(&self, who: Who, node: u64, flags: u32) -> Result<OpenedAt> {
        self.nodes.directory(node)?;
        if self.connection.lacks(opcode::OPENDIR) {
            return Ok(OpenedAt { node, fh: None });
        }
        const O_DIRECTORY: u32 = 0o200000;
        let open = OpenIn {
            flags: flags & !0o1700 | O_DIRECTORY,
            open_flags: 0,
        };
        let answer = self
            .connection
            .opened(who, node, &Operation::Opendir { open });
        let opened = self.connection.unless_lacking(opcode::OPENDIR, answer)?;
        let fh = opened.map(|open| open.fh);
        Ok(OpenedAt { node, fh })
    }

    /// RELEASEDIR.
    pub fn close_listing(&self, who: Who, at: OpenedAt) {
        if let Some(fh) = at.fh {
            let release = ReleaseIn {
                fh,
                ..ReleaseIn::default()
            };
            if !self
                .connection
                .close(who, at.node, &Operation::Releasedir { release })
            {
                self.nodes.keep(at.node);
            }
        }
    }

    /// FSYNCDIR.
    pub fn sync_listing(&self, who: Who, at: OpenedAt, data_only: bool) -> Result<()> {
        if self.connection.lacks(opcode::FSYNCDIR) {
            return Ok(());
        }
        let fsync = FsyncIn {
            fh: at.fh.unwrap_or(0),
            fsync_flags: if data_only { FsyncIn::DATA_ONLY } else { 0 },
            padding: 0,
        };
        let done = self
            .connection
            .done(who, at.node, &Operation::Fsyncdir { fsync });
        self.connection
            .unless_lacking(opcode::FSYNCDIR, done)
            .map(|_| ())
    }

    /// Gives `sink` the names from position `from` on; where they have ended behind one of them.
    pub fn list(
        &self,
        who: Who,
        at: OpenedAt,
        mut from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<Option<Ended>> {
        let start = from;
        loop {
            let plus = self.takes_plus(at.node, from);
            let read = ReadIn {
                fh: at.fh.unwrap_or(0),
                offset: from,
                size: MOST.min(self.connection.agreed.max_read) as u32,
                ..ReadIn::default()
            };
            let operation = match plus {
                true => Operation::Readdirplus { read },
                false => Operation::Readdir { read },
            };
            let moment = self.before(at.node, b"", None);
            let changes = self.words().of_node(at.node) / CHANGE;
            let most = read.size as usize;
            let bytes = self.connection.data(who, at.node, &operation, most)?;
            if bytes.is_empty() {
                let ended = Ended { at: from, changes };
                return Ok(Some(ended).filter(|_| from != start));
            }
            let names = match plus {
                true => self.plus(at.node, &bytes, &moment)?,
                false => plain(&bytes)?,
            };
            self.words().node_read(at.node);
            // The kernel would ask for the same again and again (`parse_dirfile`,
            // fs/fuse/readdir.c).
            let last = names.last().ok_or_else(bad)?;
            if last.next == from {
                return Err(bad());
            }
            from = last.next;
            for name in names {
                if !self.offer(who, at.node, name, sink)? {
                    return Ok(None);
                }
            }
        }
    }

    /// `fuse_use_readdirplus`, fs/fuse/readdir.c.
    fn takes_plus(&self, node: u64, from: u64) -> bool {
        let agreed = &self.connection.agreed;
        let auto = agreed.has(InitFlags::READDIRPLUS_AUTO);
        let advised = self.nodes.takes_plus(node);
        agreed.has(InitFlags::DO_READDIRPLUS) && (!auto || advised || from == 0)
    }

    fn offer(
        &self,
        who: Who,
        dir: u64,
        listed: Listed<'_>,
        sink: &mut DirectorySink<'_>,
    ) -> Result<bool> {
        let name = listed.name;
        // The front end adds them.
        if matches!(name, b"." | b"..") {
            return Ok(true);
        }
        if listed.next == 0 || listed.next > i64::MAX as u64 || name.len() > 255 {
            return Err(bad());
        }
        let kind = match listed.kind {
            Some(kind) => kind,
            // The server does not say what it is (`DT_UNKNOWN`).
            None => match self.find(who, dir, name) {
                Ok(found) => {
                    self.forget(found.node.0, 1);
                    found.kind
                }
                // It is gone.
                Err(_) => return Ok(true),
            },
        };
        Ok(sink(DirectoryEntry {
            inode: listed.inode,
            next: listed.next,
            kind,
            name,
        }))
    }

    /// The names in READDIRPLUS's answer, whose entries are taken up (`fuse_direntplus_link`,
    /// fs/fuse/readdir.c).
    fn plus<'a>(
        &self,
        dir: u64,
        bytes: &'a [u8],
        before: &crate::nodes::Before,
    ) -> Result<Vec<Listed<'a>>> {
        let (mut names, mut wrong) = (Vec::new(), None);
        for entry in DirectoryEntriesPlus(bytes) {
            let (found, entry): (EntryOut, WireEntry<'_>) = match entry {
                Ok(entry) => entry,
                Err(Malformed::TooShort) => break,
                Err(_) => {
                    wrong = Some(bad());
                    break;
                }
            };
            let mut listed = Listed::from(entry);
            // Servers count no lookups of "." and "..", and the kernel forgets none.
            let is_dot = matches!(entry.name, b"." | b"..");
            if found.nodeid != 0 && !is_dot {
                let words = self.words();
                let moment = crate::nodes::Before {
                    name: words.name(dir, entry.name).now(),
                    ..*before
                };
                // Names that have changed since are not believed: `all` says so.
                let steady = before.all == words.of_all();
                let entry_out = EntryOut {
                    entry_valid: if steady { found.entry_valid } else { 0 },
                    entry_valid_nsec: if steady { found.entry_valid_nsec } else { 0 },
                    ..found
                };
                match self.take_up(&moment, (dir, entry.name), &entry_out, false) {
                    Ok(attributes) => listed.kind = Some(attributes.kind),
                    Err(error) => wrong = wrong.or(Some(error)),
                }
            }
            names.push(listed);
        }
        match wrong {
            Some(error) => Err(error),
            None => Ok(names),
        }
    }
}

/// A name of a listing.
struct Listed<'a> {
    inode: u64,
    next: u64,
    kind: Option<FileKind>,
    name: &'a [u8],
}

impl<'a> From<WireEntry<'a>> for Listed<'a> {
    fn from(entry: WireEntry<'a>) -> Self {
        Self {
            inode: entry.inode,
            next: entry.next,
            kind: FileKind::of_mode(entry.kind.wrapping_shl(12)),
            name: entry.name,
        }
    }
}

/// The names in READDIR's answer. What does not fit at its end is not there yet.
fn plain(bytes: &[u8]) -> Result<Vec<Listed<'_>>> {
    let mut names = Vec::new();
    for entry in DirectoryEntries(bytes) {
        match entry {
            Ok(entry) => names.push(Listed::from(entry)),
            Err(Malformed::TooShort) => break,
            Err(_) => return Err(bad()),
        }
    }
    Ok(names)
}

fn bad() -> Error {
    Error::because(Errno::EIO, "the server's listing of a directory is none")
}
