//! cpio archives (cpio(5) of FreeBSD, "initramfs buffer format" of the kernel): the new ASCII
//! format, with and without checksums, the old one of POSIX, and the binary one of either byte
//! order. Checksums are not verified: members' data are not read for the index.

use super::format::{NodeRecord, device_number};
use super::scan::{Scan, Want};
use super::tree::{TARGET_MAX, Tree};
use super::warning::printable;
use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};
use culvert::{FileKind, Result, Timespec};

/// Longest name with its NUL that is read; programs use `PATH_MAX`.
const NAME_MOST: usize = 16 << 10;
/// The name of the entry behind the last member.
const TRAILER: &[u8] = b"TRAILER!!!";
/// Bytes by which the format is known.
const MAGIC: usize = 6;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Hexadecimal digits, padded to 4 bytes.
    New,
    /// Octal digits, not padded.
    Old,
    /// Words of 16 bits, padded to 2 bytes.
    Binary { big_endian: bool },
}

impl Form {
    fn of(head: &[u8]) -> Option<Self> {
        Some(match head {
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => Self::New,
            [b'0', b'7', b'0', b'7', b'0', b'7', ..] => Self::Old,
            [0xc7, 0x71, ..] => Self::Binary { big_endian: false },
            [0x71, 0xc7, ..] => Self::Binary { big_endian: true },
            _ => return None,
        })
    }

    fn header(self) -> usize {
        match self {
            Self::New => 110,
            Self::Old => 76,
            Self::Binary { .. } => 26,
        }
    }

    /// What follows `length` bytes that begin where padding counts from.
    fn padding(self, length: u64) -> u64 {
        match self {
            Self::New => length.wrapping_neg() % 4,
            Self::Old => 0,
            Self::Binary { .. } => length % 2,
        }
    }
}

/// A header's numbers.
#[derive(Clone, Copy, Debug)]
struct Header {
    form: Form,
    device: u64,
    inode: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u64,
    rdev: u64,
    mtime: u64,
    /// Of the name, with its NUL.
    name: usize,
    size: u64,
}

impl Header {
    /// None when a number is none.
    fn parse(form: Form, bytes: &[u8]) -> Option<Self> {
        let digits = |at: usize, count: usize, base: u32| {
            let mut number = 0u64;
            for &byte in bytes.get(at..at + count)? {
                number = number * u64::from(base) + u64::from(char::from(byte).to_digit(base)?);
            }
            Some(number)
        };
        match form {
            Form::New => {
                let field = |number: usize| digits(MAGIC + 8 * number, 8, 16);
                Some(Self {
                    form,
                    inode: field(0)?,
                    mode: field(1)? as u32,
                    uid: field(2)? as u32,
                    gid: field(3)? as u32,
                    links: field(4)?,
                    mtime: field(5)?,
                    size: field(6)?,
                    device: field(7)? << 32 | field(8)?,
                    rdev: device_number(field(9)?, field(10)?),
                    name: field(11)? as usize,
                })
            }
            Form::Old => {
                let field = |number: usize| digits(MAGIC + 6 * number, 6, 8);
                let rdev = field(6)?;
                Some(Self {
                    form,
                    device: field(0)?,
                    inode: field(1)?,
                    mode: field(2)? as u32,
                    uid: field(3)? as u32,
                    gid: field(4)? as u32,
                    links: field(5)?,
                    rdev: device_number(rdev >> 8, rdev & 0xff),
                    mtime: digits(48, 11, 8)?,
                    name: digits(59, 6, 8)? as usize,
                    size: digits(65, 11, 8)?,
                })
            }
            Form::Binary { big_endian } => {
                let word = |number: usize| {
                    let bytes = [bytes[2 * number], bytes[2 * number + 1]];
                    u64::from(match big_endian {
                        true => u16::from_be_bytes(bytes),
                        false => u16::from_le_bytes(bytes),
                    })
                };
                let rdev = word(7);
                Some(Self {
                    form,
                    device: word(1),
                    inode: word(2),
                    mode: word(3) as u32,
                    uid: word(4) as u32,
                    gid: word(5) as u32,
                    links: word(6),
                    rdev: device_number(rdev >> 8, rdev & 0xff),
                    mtime: word(8) << 16 | word(9),
                    name: word(10) as usize,
                    size: word(11) << 16 | word(12),
                })
            }
        }
    }

    fn name_padding(&self) -> usize {
        self.form.padding((self.form.header() + self.name) as u64) as usize
    }
}

/// What follows.
enum State {
    /// A header, of which these bytes are there.
    Header(Vec<u8>),
    /// Its name.
    Name(Header),
    /// The target of this symbolic link.
    Target(Header, Vec<u8>),
    /// Data, and what pads them.
    Data(u64),
    /// Zeroes behind the last member, or one more archive.
    Trailer,
    Ended,
}

/// Names of a file with several, and whether one of them had its data.
struct Links {
    names: Vec<Vec<u8>>,
    filled: bool,
}

/// Turns a cpio archive into a tree.
pub struct Scanner<'t> {
    tree: &'t mut Tree,
    state: State,
    position: u64,
    /// By device and inode. The new format has the data of such a file with its last name only.
    links: BTreeMap<(u64, u64), Links>,
    last: Vec<u8>,
    tolerant: bool,
}

impl<'t> Scanner<'t> {
    /// A scanner that fills `tree`. A tolerant one makes a warning of damage, and ends there.
    pub fn new(tree: &'t mut Tree, tolerant: bool) -> Self {
        Self {
            tree,
            state: State::Header(Vec::new()),
            position: 0,
            links: BTreeMap::new(),
            last: Vec::new(),
            tolerant,
        }
    }

    fn damage(&mut self, what: String) -> Result<()> {
        self.state = State::Ended;
        self.tree.damaged(what, self.tolerant)
    }

    fn data(&mut self, form: Form, size: u64) {
        self.state = match size.saturating_add(form.padding(size)) {
            0 => State::Header(Vec::new()),
            left => State::Data(left),
        };
    }

    /// More of a header: all of it, once its form is known.
    fn header(&mut self, held: Vec<u8>, at: u64) -> Result<()> {
        let Some(form) = Form::of(&held) else {
            return self.damage(format!(
                "the cpio archive is damaged: there is no member header at byte {at}"
            ));
        };
        if held.len() < form.header() {
            self.state = State::Header(held);
            return Ok(());
        }
        let Some(header) = Header::parse(form, &held) else {
            return self.damage(format!("the member header at byte {at} has no numbers"));
        };
        if header.name == 0 || header.name > NAME_MOST || header.size > i64::MAX as u64 {
            return self.damage(format!("the member header at byte {at} makes no sense"));
        }
        self.state = State::Name(header);
        Ok(())
    }

    fn member(&mut self, header: Header, name: &[u8]) -> Result<()> {
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if name == TRAILER {
            // Numbers of inodes mean nothing in the next archive.
            self.links.clear();
            self.state = State::Trailer;
            return Ok(());
        }
        self.last = name.to_vec();
        let record = NodeRecord {
            uid: header.uid,
            gid: header.gid,
            ..NodeRecord::new(
                header.mode & 0o177777,
                Timespec {
                    seconds: header.mtime as i64,
                    nanoseconds: 0,
                },
            )
        };
        match FileKind::of_mode(header.mode & 0o170000) {
            None => self
                .tree
                .warnings
                .add(name, "left out: no system has files of its type"),
            Some(FileKind::Symlink) if header.size > TARGET_MAX as u64 => self
                .tree
                .warnings
                .add(name, "left out: its target is too long"),
            Some(FileKind::Symlink) if header.size > 0 => {
                self.state = State::Target(header, name.to_vec());
                return Ok(());
            }
            Some(FileKind::Symlink) => self.tree.warnings.add(name, "left out: it has no target"),
            Some(FileKind::Regular) => {
                let mut record = record;
                (record.size, record.place) = (header.size, self.position);
                match header.links > 1 {
                    true => self.linked(&header, name, record)?,
                    false => self.tree.add(name, record, b"")?,
                }
            }
            Some(FileKind::CharacterDevice | FileKind::BlockDevice) => {
                // HP-UX has the device where others have the size.
                let place = match header.size {
                    0 => header.rdev,
                    device => device,
                };
                self.tree.add(name, NodeRecord { place, ..record }, b"")?;
                self.data(header.form, 0);
                return Ok(());
            }
            Some(_) => self.tree.add(name, record, b"")?,
        }
        self.data(header.form, header.size);
        Ok(())
    }

    /// A file with several names.
    fn linked(&mut self, header: &Header, name: &[u8], record: NodeRecord) -> Result<()> {
        let filled = record.size > 0;
        let Some(links) = self.links.get_mut(&(header.device, header.inode)) else {
            let names = vec![name.to_vec()];
            let links = Links { names, filled };
            self.links.insert((header.device, header.inode), links);
            return self.tree.add(name, record, b"");
        };
        if !filled || links.filled {
            if !links.filled {
                links.names.push(name.to_vec());
            }
            return match links.names.first() {
                Some(first) => self.tree.link(name, first),
                None => self.tree.add(name, record, b""),
            };
        }
        // The data come with this one: it is the file that those before are.
        links.filled = true;
        let before = core::mem::replace(&mut links.names, vec![name.to_vec()]);
        self.tree.add(name, record, b"")?;
        before
            .iter()
            .try_for_each(|earlier| self.tree.link(earlier, name))
    }

    fn symlink(&mut self, header: Header, name: &[u8], bytes: &[u8]) -> Result<()> {
        let mtime = Timespec {
            seconds: header.mtime as i64,
            nanoseconds: 0,
        };
        let record = NodeRecord {
            uid: header.uid,
            gid: header.gid,
            ..NodeRecord::new(header.mode & 0o177777, mtime)
        };
        let target = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        self.tree.add(name, record, target)?;
        self.state = match header.form.padding(header.size) {
            0 => State::Header(Vec::new()),
            left => State::Data(left),
        };
        Ok(())
    }
}

impl Scan for Scanner<'_> {
    fn want(&self) -> Want {
        match &self.state {
            State::Header(held) => {
                let all = match Form::of(held) {
                    Some(form) if held.len() >= MAGIC => form.header(),
                    _ => MAGIC,
                };
                Want::Bytes(all.saturating_sub(held.len()).max(1))
            }
            State::Name(header) => Want::Bytes(header.name + header.name_padding()),
            State::Target(header, _) => Want::Bytes(header.size as usize),
            State::Data(left) => Want::Skip(*left),
            State::Trailer => Want::Bytes(4 - (self.position % 4) as usize),
            State::Ended => Want::Nothing,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.position += bytes.len() as u64;
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Header(mut held) => {
                held.extend_from_slice(bytes);
                let at = self.position - held.len() as u64;
                match held.len() < MAGIC {
                    true => self.state = State::Header(held),
                    false => return self.header(held, at),
                }
                Ok(())
            }
            State::Name(header) => self.member(header, &bytes[..header.name.min(bytes.len())]),
            State::Target(header, name) => self.symlink(header, &name, bytes),
            State::Trailer if bytes.iter().all(|&byte| byte == 0) => {
                self.state = State::Trailer;
                Ok(())
            }
            // As the kernel reads an initramfs: one archive behind the other.
            State::Trailer if Form::of(bytes).is_some() || b"0707".starts_with(bytes) => {
                self.state = State::Header(bytes.to_vec());
                Ok(())
            }
            State::Trailer => {
                let at = self.position - bytes.len() as u64;
                self.tree.warnings.add(
                    b"",
                    format!(
                        "what follows the archive at byte {at} is not shown: it is no cpio archive"
                    ),
                );
                Ok(())
            }
            state @ (State::Data(_) | State::Ended) => {
                self.state = state;
                Ok(())
            }
        }
    }

    fn skipped(&mut self, count: u64) {
        self.position += count;
        if let State::Data(left) = &mut self.state {
            *left -= count.min(*left);
            if *left == 0 {
                self.state = State::Header(Vec::new());
            }
        }
    }

    fn end(&mut self, _: u64) -> Result<()> {
        match self.state {
            State::Trailer | State::Ended => Ok(()),
            _ => self.damage(format!(
                "the archive is truncated: it ends at byte {} behind or inside member \"{}\"",
                self.position,
                printable(&self.last)
            )),
        }
    }
}

/// Whether a file that starts with `head` is a cpio archive.
pub fn detect(head: &[u8]) -> bool {
    match Form::of(head) {
        // Two bytes alone say little.
        Some(form @ Form::Binary { .. }) => head
            .get(..form.header())
            .and_then(|bytes| Header::parse(form, bytes))
            .is_some_and(|header| {
                FileKind::of_mode(header.mode & 0o170000).is_some()
                    && (1..=NAME_MOST).contains(&header.name)
                    && head
                        .get(form.header() + header.name - 1)
                        .is_none_or(|&end| end == 0)
            }),
        Some(form) => head
            .get(..form.header())
            .is_some_and(|bytes| Header::parse(form, bytes).is_some()),
        None => false,
    }
}
