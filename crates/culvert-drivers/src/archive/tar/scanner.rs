//! The scanner: takes an archive block by block, says what it can skip, and puts the members into a
//! tree.

use super::header::{self, BLOCK, Block, Header};
use super::pax::{Extended, Outcome};
use super::sparse::{self, LineMap};
use crate::archive::format::{NONE, NodeRecord, Storage};
use crate::archive::scan::{Scan, Want};
use crate::archive::tree::Tree;
use crate::archive::warning::printable;
use alloc::{borrow::Cow, format, string::String, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// Longest extended header or long name that is read; GNU tar has no limit, but nothing honest
/// comes near.
const PAYLOAD_MAX: u64 = 16 << 20;

/// What the blocks that follow a header hold.
enum ScanState {
    Header,
    /// The rest of an extended header of this type.
    Payload {
        kind: u8,
        left: u64,
        bytes: Vec<u8>,
    },
    /// More parts of an old GNU sparse file.
    OldSparse(SparseMember),
    /// The map before the data of a sparse file of format 1.0.
    LineMap(SparseMember, LineMap),
    /// Data; `padding` of it is only there to fill the last block.
    Data {
        left: u64,
        padding: u64,
    },
    Ended,
}

/// A sparse file whose map is not complete yet.
struct SparseMember {
    name: Vec<u8>,
    record: NodeRecord,
    /// Size of the file.
    size: u64,
    /// Bytes that still follow, without padding.
    stored: u64,
    parts: Vec<(u64, u64)>,
}

/// Turns the blocks of a tar archive into a tree.
pub struct Scanner<'t> {
    tree: &'t mut Tree,
    state: ScanState,
    /// Bytes taken or skipped.
    position: u64,
    global: Extended,
    next: Extended,
    /// Zero blocks in a row.
    zeroes: u32,
    /// Members that the archive has had so far, whatever became of them.
    members: u64,
    /// Name of the last member, for messages.
    last: Vec<u8>,
    /// Bytes that the last member states but, by its type, has not. Some writers store them
    /// nevertheless.
    unsure: u64,
    /// Passing over blocks that are no headers.
    lost: bool,
    tolerant: bool,
}

impl<'t> Scanner<'t> {
    /// A scanner that fills `tree`. A tolerant one makes warnings of damage where it can go on.
    pub fn new(tree: &'t mut Tree, tolerant: bool) -> Self {
        Self {
            tree,
            state: ScanState::Header,
            position: 0,
            global: Extended::default(),
            next: Extended::default(),
            zeroes: 0,
            members: 0,
            last: Vec::new(),
            unsure: 0,
            lost: false,
            tolerant,
        }
    }

    /// Takes the next block.
    fn block(&mut self, block: &Block) -> Result<()> {
        let at = self.position;
        self.position += BLOCK as u64;
        match core::mem::replace(&mut self.state, ScanState::Header) {
            ScanState::Header => self.header(block, at),
            ScanState::Payload {
                kind,
                left,
                mut bytes,
            } => {
                let part = left.min(BLOCK as u64);
                bytes.extend_from_slice(&block[..part as usize]);
                match left - part {
                    0 => self.extended(kind, bytes),
                    left => {
                        self.state = ScanState::Payload { kind, left, bytes };
                        Ok(())
                    }
                }
            }
            ScanState::OldSparse(mut member) => match header::more_sparse(block, &mut member.parts)
            {
                Some(true) => {
                    self.state = ScanState::OldSparse(member);
                    Ok(())
                }
                Some(false) => self.sparse(member),
                None => self.bad_map(&member),
            },
            ScanState::LineMap(mut member, mut map) => {
                member.stored = member.stored.saturating_sub(BLOCK as u64);
                match map.block(block) {
                    Some(true) => {
                        member.parts = map.parts;
                        self.sparse(member)
                    }
                    Some(false) if member.stored > 0 => {
                        self.state = ScanState::LineMap(member, map);
                        Ok(())
                    }
                    _ => self.bad_map(&member),
                }
            }
            // Blocks come only when wanted.
            state @ (ScanState::Data { .. } | ScanState::Ended) => {
                self.state = state;
                Ok(())
            }
        }
    }

    fn damage(&mut self, what: String) -> Result<()> {
        self.state = ScanState::Ended;
        self.tree.damaged(what, self.tolerant)
    }

    fn warn(&mut self, member: &[u8], text: impl Into<Cow<'static, str>>) {
        self.tree.warnings.add(member, text);
    }

    fn header(&mut self, block: &Block, at: u64) -> Result<()> {
        if block == &[0; BLOCK] {
            self.zeroes += 1;
            return Ok(());
        }
        let Some(header) = Header::new(block) else {
            return self.no_header(at);
        };
        if self.lost {
            self.lost = false;
            self.warn(b"", format!("found the next member at byte {at}"));
        }
        if self.zeroes >= 2 && self.members > 0 {
            self.warn(
                b"",
                format!(
                    "the archive goes on behind its end mark at byte {at}: taken as archives \
                    put together"
                ),
            );
        }
        (self.zeroes, self.unsure) = (0, 0);
        let kind = header.kind();
        match kind {
            b'x' | b'X' | b'g' | b'L' | b'K' => {
                let size = match header.size() {
                    Some(size) if size <= PAYLOAD_MAX => size,
                    _ => {
                        return self.damage(format!(
                            "the extended header at byte {at} claims to be larger than {} MiB",
                            PAYLOAD_MAX >> 20
                        ));
                    }
                };
                if size > 0 {
                    self.state = ScanState::Payload {
                        kind,
                        left: size,
                        bytes: Vec::new(),
                    };
                }
                self.members += 1;
                Ok(())
            }
            _ => self.member(&header, at),
        }
    }

    /// A block that is neither header nor zero where one is due.
    fn no_header(&mut self, at: u64) -> Result<()> {
        if self.members == 0 {
            return Err(not_tar());
        }
        if self.zeroes >= 1 {
            // Rests of a tape or of a longer file; `tar` does not look at them.
            self.state = ScanState::Ended;
            return Ok(());
        }
        if self.unsure > 0 {
            // The data of a link or directory after all.
            let size = core::mem::take(&mut self.unsure);
            self.data(size, BLOCK as u64);
            return Ok(());
        }
        if !self.lost {
            self.lost = true;
            let what = format!("the archive is damaged: there is no member header at byte {at}");
            if !self.tolerant {
                return self.damage(what);
            }
            self.warn(b"", what);
        }
        Ok(())
    }

    /// A complete extended header.
    fn extended(&mut self, kind: u8, bytes: Vec<u8>) -> Result<()> {
        let until_nul = |mut bytes: Vec<u8>| {
            let end = bytes.iter().position(|&byte| byte == 0);
            bytes.truncate(end.unwrap_or(bytes.len()));
            Some(bytes)
        };
        let outcome = match kind {
            b'L' => {
                self.next.path = until_nul(bytes);
                Outcome::Good
            }
            b'K' => {
                self.next.linkpath = until_nul(bytes);
                Outcome::Good
            }
            b'g' => self.global.parse(&bytes),
            _ => self.next.parse(&bytes),
        };
        let at = self.position;
        match outcome {
            Outcome::Good => {}
            Outcome::Odd => self.warn(
                b"",
                format!(
                    "the extended header before byte {at} has an owner or time that makes no \
                    sense: ignored"
                ),
            ),
            Outcome::Malformed => {
                let what = format!("the extended header before byte {at} is malformed");
                // What follows can be read all the same, only perhaps under another name.
                if !self.tolerant {
                    return self.damage(what);
                }
                self.warn(b"", what);
            }
        }
        Ok(())
    }

    /// Waits for `size` bytes of data and its padding to pass, of which `already` have.
    fn data(&mut self, size: u64, already: u64) {
        let padding = size.wrapping_neg() % BLOCK as u64;
        let left = size.saturating_add(padding).saturating_sub(already);
        self.state = if left == 0 {
            ScanState::Header
        } else {
            ScanState::Data { left, padding }
        };
    }

    /// A member's header: what its type says, with what extended headers said of it before.
    fn member(&mut self, header: &Header<'_>, at: u64) -> Result<()> {
        self.members += 1;
        let mut extended = core::mem::take(&mut self.next).over(&self.global);
        let name = match extended.sparse.name.take().or_else(|| extended.path.take()) {
            Some(name) => name,
            None => header.name(),
        };
        self.last.clone_from(&name);
        let size = extended.size.or_else(|| header.size());
        let Some(size) = size.filter(|&size| size <= i64::MAX as u64) else {
            return self.damage(format!(
                "the size of member \"{}\" at byte {at} makes no sense",
                printable(&name)
            ));
        };
        let kind = match header.kind() {
            b'1' => {
                let target = extended.linkpath.as_deref().unwrap_or(header.target());
                self.tree.link(&name, target)?;
                self.unsure = size;
                return Ok(());
            }
            b'2' => FileKind::Symlink,
            b'3' => FileKind::CharacterDevice,
            b'4' => FileKind::BlockDevice,
            b'5' | b'D' => FileKind::Directory,
            b'6' => FileKind::Fifo,
            b'V' => {
                // The label of a volume: no file.
                self.data(size, 0);
                return Ok(());
            }
            b'M' | b'N' | b'A' => {
                self.warn(
                    &name,
                    "left out: part of a multi-volume archive, or of a kind that no \
                    program writes any more",
                );
                self.data(size, 0);
                return Ok(());
            }
            b'0' | 0 | b'7' | b'S' if name.last() == Some(&b'/') => FileKind::Directory,
            b'0' | 0 | b'7' | b'S' => FileKind::Regular,
            other => {
                let what = char::from(other);
                let what = format!("its type {what:?} is unknown: taken as a regular file");
                self.warn(&name, what);
                FileKind::Regular
            }
        };
        let mut record = self.record(header, &extended, kind);
        match kind {
            FileKind::Regular if header.kind() == b'S' || extended.sparse.is_present() => {
                self.sparse_header(header, extended, name, record, size)
            }
            FileKind::Regular => {
                (record.size, record.place) = (size, self.position);
                self.tree.add(&name, record, b"")?;
                self.data(size, 0);
                Ok(())
            }
            _ => {
                if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
                    record.place = header.rdev();
                }
                let target = extended.linkpath.as_deref().unwrap_or(header.target());
                self.tree.add(&name, record, target)?;
                if header.kind() == b'5' || !matches!(kind, FileKind::Directory) {
                    self.unsure = size;
                } else {
                    // A dump directory's listing, or what an old tar wrote behind a name with a
                    // slash.
                    self.data(size, 0);
                }
                Ok(())
            }
        }
    }

    /// Owner, mode, time and extended attributes of a member.
    fn record(&mut self, header: &Header<'_>, extended: &Extended, kind: FileKind) -> NodeRecord {
        let owner = |extended: Option<u64>, header: Option<u32>| match extended {
            Some(number) => u32::try_from(number).unwrap_or(NONE),
            None => header.unwrap_or(NONE),
        };
        let mtime = extended.mtime.unwrap_or(Timespec {
            seconds: header.mtime(),
            nanoseconds: 0,
        });
        NodeRecord {
            uid: owner(extended.uid, header.uid()),
            gid: owner(extended.gid, header.gid()),
            extra: self.tree.keep_xattrs(&extended.xattrs),
            ..NodeRecord::new(kind as u32 | header.permissions(), mtime)
        }
    }

    /// A sparse file of `size` bytes in the archive, whose map its headers have, or what follows.
    fn sparse_header(
        &mut self,
        header: &Header<'_>,
        mut extended: Extended,
        name: Vec<u8>,
        record: NodeRecord,
        size: u64,
    ) -> Result<()> {
        let mut member = SparseMember {
            name,
            record,
            size,
            stored: size,
            parts: core::mem::take(&mut extended.sparse.parts),
        };
        if header.kind() == b'S' {
            match header.old_sparse(&mut member.parts) {
                Some((more, size)) => {
                    // pax headers of newer GNU tars state the size once more.
                    member.size = size;
                    if more {
                        self.state = ScanState::OldSparse(member);
                        return Ok(());
                    }
                }
                None => return self.bad_map(&member),
            }
        } else {
            member.size = extended.sparse.size.unwrap_or(size);
            if extended.sparse.map_in_data() {
                self.state = ScanState::LineMap(member, LineMap::default());
                return Ok(());
            }
        }
        self.sparse(member)
    }

    /// A sparse file whose map is complete.
    fn sparse(&mut self, mut member: SparseMember) -> Result<()> {
        if member.size > i64::MAX as u64
            || !sparse::check(&mut member.parts, member.size, member.stored)
        {
            return self.bad_map(&member);
        }
        let mut record = member.record;
        record.size = member.size;
        record.place = self.position;
        record.storage = Storage::Sparse;
        record.extent = self.tree.keep_map(&member.parts);
        self.tree.add(&member.name, record, b"")?;
        self.data(member.stored, 0);
        Ok(())
    }

    fn bad_map(&mut self, member: &SparseMember) -> Result<()> {
        self.warn(
            &member.name,
            "left out: the map of this sparse file makes no sense",
        );
        self.data(member.stored, 0);
        Ok(())
    }
}

impl Scan for Scanner<'_> {
    fn want(&self) -> Want {
        match self.state {
            ScanState::Data { left, .. } => Want::Skip(left),
            ScanState::Ended => Want::Nothing,
            _ => Want::Bytes(BLOCK),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        bytes
            .first_chunk::<BLOCK>()
            .map_or(Ok(()), |block| self.block(block))
    }

    fn skipped(&mut self, count: u64) {
        self.position += count;
        if let ScanState::Data { left, .. } = &mut self.state {
            *left -= count.min(*left);
            if *left == 0 {
                self.state = ScanState::Header;
            }
        }
    }

    fn end(&mut self, _: u64) -> Result<()> {
        match self.state {
            ScanState::Header | ScanState::Ended => {
                if self.members == 0 && self.zeroes < 2 {
                    return Err(not_tar());
                }
                Ok(())
            }
            // Some writers leave the padding of the last member out; a part of it means that the
            // rest was cut off.
            ScanState::Data { left, padding } if left == padding => Ok(()),
            _ => self.damage(format!(
                "the archive is truncated: it ends at byte {} inside member \"{}\"",
                self.position,
                printable(&self.last)
            )),
        }
    }
}

fn not_tar() -> Error {
    Error::because(Errno::EINVAL, "not a tar archive")
}
