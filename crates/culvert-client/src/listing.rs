//! READDIR and READDIRPLUS.

use crate::{
    connection::Who,
    core::{Core, opcode},
    pages::{Key, PAGE, mixed},
    words::{CHANGE, PAGES_ASKED, PAGES_FOUND},
};
use alloc::{boxed::Box, vec::Vec};
use culvert::{DirectoryEntry, DirectorySink, Errno, Error, FileKind, Result};
use culvert_sys::plain::Packed;
use culvert_wire::{
    DirectoryEntries, DirectoryEntriesPlus, InitFlags, Malformed, Operation, WireEntry,
    structures::{EntryOut, FsyncIn, OpenIn, OpenOut, ReadIn, ReleaseIn},
};

/// Bytes that are asked for at once: as much as a getdents64(2) of libc takes.
const MOST: usize = 32768;

/// After how many answers in a row without a name for the caller the cache is not used any more,
/// which could go in a ring and knows no signal, and after how many it is an error.
const IDLE: [u32; 2] = [16, 4096];

/// What is asked of a directory that is open.
#[derive(Clone, Copy)]
pub struct OpenedAt {
    pub node: u64,
    /// None: the server keeps nothing for open directories (ENOSYS to OPENDIR).
    pub fh: Option<u64>,
    /// Its names may be cached (`FOPEN_CACHE_DIR`).
    pub caches: bool,
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
            return Ok(OpenedAt {
                node,
                fh: None,
                caches: true,
            });
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
        if opened.is_some_and(|open| open.open_flags & OpenOut::KEEP_CACHE == 0) {
            self.words().content(node).changed();
        }
        Ok(OpenedAt {
            node,
            fh: opened.map(|open| open.fh),
            caches: opened.is_none_or(|open| open.open_flags & OpenOut::CACHE_DIR != 0),
        })
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
                self.nodes.keep(self.words(), at.node);
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
        let [alone, most] = IDLE;
        let mut idle = 0;
        loop {
            let changes = self.words().of_node(at.node) / CHANGE;
            let belief = match at.caches && idle < alone {
                true => self.listing_belief(who, at.node, from)?,
                false => None,
            };
            let cached = belief.and_then(|belief| self.cached_listing(at.node, belief));
            let moment = self.before(at.node, b"", None);
            let is_cached = cached.is_some();
            let (plus, bytes) = match cached {
                Some(bytes) => (false, bytes),
                None => self.ask_listing(who, at, from)?,
            };
            let names = match plus {
                true => self.plus(at.node, &bytes, &moment)?,
                false => plain(&bytes)?,
            };
            if let Some(belief) = belief.filter(|_| !is_cached) {
                self.cache_listing(at.node, belief, &names);
            }
            if bytes.is_empty() {
                let ended = Ended { at: from, changes };
                return Ok(Some(ended).filter(|_| from != start));
            }
            // The kernel would ask for the same again and again (`parse_dirfile`,
            // fs/fuse/readdir.c).
            let last = names.last().ok_or_else(bad)?;
            if last.next == from || idle == most {
                return Err(bad());
            }
            from = last.next;
            idle += 1;
            let mut counted = |entry: DirectoryEntry<'_>| {
                idle = 0;
                sink(entry)
            };
            for name in names {
                if !self.offer(who, at.node, name, &mut counted)? {
                    return Ok(None);
                }
            }
        }
    }

    /// READDIR, or READDIRPLUS, which is said.
    fn ask_listing(&self, who: Who, at: OpenedAt, from: u64) -> Result<(bool, Vec<u8>)> {
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
        let most = read.size as usize;
        let bytes = self.connection.data(who, at.node, &operation, most)?;
        if !bytes.is_empty() {
            self.words().node_read(at.node);
        }
        Ok((plus, bytes))
    }

    /// What the names of `dir` from position `from` on are believed by, when they are cached
    /// (`fuse_readdir_cached`, fs/fuse/readdir.c): at its start its attributes are asked for, where
    /// they are old.
    fn listing_belief(&self, who: Who, dir: u64, from: u64) -> Result<Option<u64>> {
        if self.pages().is_empty() {
            return Ok(None);
        }
        let words = self.words();
        let auto = self.connection.agreed.has(InitFlags::AUTO_INVAL_DATA);
        let known = self.nodes.mostly_known(words, self.moment(), dir);
        if auto && from == 0 && !matches!(known, Some((_, true))) {
            self.attributes(who, dir)?;
        }
        let Some((known, _)) = self.nodes.mostly_known(words, self.moment(), dir) else {
            return Ok(None);
        };
        let mtime = known.mtime;
        let belief = self.belief(dir, &known);
        Ok(belief.map(|belief| {
            mixed(&[
                belief,
                words.of_node(dir) / CHANGE,
                mtime.seconds as u64,
                u64::from(mtime.nanoseconds),
                from,
            ])
        }))
    }

    /// READDIR's answer as it was cached: its length, then its bytes, in as many pages as it needs.
    fn cached_listing(&self, node: u64, belief: u64) -> Option<Vec<u8>> {
        let (pages, words) = (self.pages(), self.words());
        let mut page = Box::new([0; PAGE / 8]);
        let (mut bytes, mut wanted) = (Vec::new(), 8);
        let mut count = 0;
        while bytes.len() < wanted {
            let length = pages.get(listing_key(node, belief, count), &mut page)?;
            bytes.extend_from_slice(page.bytes().get(..length)?);
            let said = u64::from_ne_bytes(*bytes.first_chunk()?);
            wanted = usize::try_from(said).ok()?.checked_add(8)?;
            count += 1;
            if length == 0 || wanted > 2 * MOST {
                return None;
            }
        }
        words.count(PAGES_FOUND, count);
        bytes.truncate(wanted);
        bytes.drain(..8);
        Some(bytes)
    }

    /// Caches `names` as READDIR would have said them.
    fn cache_listing(&self, node: u64, belief: u64, names: &[Listed<'_>]) {
        let mut bytes = [0; 8].to_vec();
        for name in names {
            let kind = name.kind.map_or(0, |kind| kind as u32 >> 12);
            let length = name.name.len() as u32;
            bytes.extend_from_slice(&name.inode.to_ne_bytes());
            bytes.extend_from_slice(&name.next.to_ne_bytes());
            bytes.extend_from_slice(&length.to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(name.name);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        if bytes.len() > MOST + 8 {
            return;
        }
        let length = bytes.len() as u64 - 8;
        if let Some(place) = bytes.first_chunk_mut() {
            *place = length.to_ne_bytes();
        }
        let pages = self.pages();
        let mut count = 0;
        for bytes in bytes.chunks(PAGE) {
            pages.put(listing_key(node, belief, count), bytes);
            count += 1;
        }
        self.words().count(PAGES_ASKED, count);
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

/// Where page `count` of the names with `belief` lies: behind all pages that a file can have.
fn listing_key(node: u64, belief: u64, count: u64) -> Key {
    Key {
        node,
        index: 1 << 63 | belief >> 8 << 4 | count,
        belief,
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
