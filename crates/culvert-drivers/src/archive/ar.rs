//! ar archives (ar(5)): libraries of objects, and Debian's packages. Long names as GNU's ar and as
//! BSD's write them; symbol tables are not shown.

use super::format::{NONE, NodeRecord};
use super::scan::{MOST, Scan, Want};
use super::tree::Tree;
use super::warning::printable;
use alloc::{format, string::String, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// What an archive begins with.
const MAGIC: &[u8; 8] = b"!<arch>\n";
/// What one begins with whose members are files elsewhere.
const THIN: &[u8; 8] = b"!<thin>\n";
/// Where the first member's header lies.
pub const FIRST: u64 = MAGIC.len() as u64;
/// Bytes of a member's header.
pub const HEADER: usize = 60;
/// Longest name that is read, bytes.
const NAME_MOST: u64 = 4 << 10;
/// Largest table of names that is read, bytes.
const TABLE_MOST: u64 = 16 << 20;

/// A member that waits for its name.
#[derive(Clone, Copy)]
struct Member {
    record: NodeRecord,
    /// Bytes in the archive, without padding.
    size: u64,
}

enum State {
    Magic,
    Header,
    /// BSD's: the name is the first bytes of the data.
    Name(Member, usize),
    /// GNU's table of names.
    Table {
        left: u64,
        padding: u64,
    },
    /// Data; the last `padding` of it is none.
    Data {
        left: u64,
        padding: u64,
    },
    Ended,
}

/// Turns an ar archive into a tree.
pub struct Scanner<'t> {
    tree: &'t mut Tree,
    state: State,
    position: u64,
    names: Vec<u8>,
    last: Vec<u8>,
    tolerant: bool,
}

/// A number of digits, then spaces; an empty field is 0.
fn number(field: &[u8], base: u32) -> Option<u64> {
    let text = match field.trim_ascii() {
        // Of libraries that are always the same: not known.
        b"-1" => return Some(0),
        text => text,
    };
    let mut number = 0u64;
    for &byte in text {
        let digit = char::from(byte).to_digit(base)?;
        number = number.checked_mul(base.into())?.checked_add(digit.into())?;
    }
    Some(number)
}

/// The name and the size that the header of a member says, as far as short names are concerned.
pub fn member(header: &[u8; HEADER]) -> Option<(&[u8], u64)> {
    let name = header[..16].trim_ascii_end();
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let size = number(&header[48..58], 10)?;
    header.ends_with(b"`\n").then_some((name, size))
}

impl<'t> Scanner<'t> {
    /// A scanner that fills `tree`. A tolerant one makes a warning of damage, and ends there.
    pub fn new(tree: &'t mut Tree, tolerant: bool) -> Self {
        Self {
            tree,
            state: State::Magic,
            position: 0,
            names: Vec::new(),
            last: Vec::new(),
            tolerant,
        }
    }

    fn damage(&mut self, what: String) -> Result<()> {
        self.state = State::Ended;
        self.tree.damaged(what, self.tolerant)
    }

    /// Waits for `left` bytes of a member of `size`.
    fn data(&mut self, left: u64, size: u64) {
        let padding = size % 2;
        self.state = match left + padding {
            0 => State::Header,
            left => State::Data { left, padding },
        };
    }

    fn header(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let parsed = (|| {
            let mode = number(&bytes[40..48], 8)? as u32;
            let seconds = number(&bytes[16..28], 10)? as i64;
            let owner = |field: &[u8]| {
                let known = !field.trim_ascii().is_empty();
                Some(match known {
                    true => u32::try_from(number(field, 10)?).ok()?,
                    false => NONE,
                })
            };
            let mtime = Timespec {
                seconds,
                nanoseconds: 0,
            };
            let record = NodeRecord {
                uid: owner(&bytes[28..34])?,
                gid: owner(&bytes[34..40])?,
                ..NodeRecord::new(FileKind::Regular as u32 | mode & 0o7777, mtime)
            };
            let size = number(&bytes[48..58], 10)?;
            bytes.ends_with(b"`\n").then_some(Member { record, size })
        })();
        let Some(member) = parsed else {
            return self.damage(format!(
                "the ar archive is damaged: there is no member header at byte {at}"
            ));
        };
        let field = bytes[..16].trim_ascii_end();
        match field {
            // Symbols, and what other systems' linkers keep.
            b"/" | b"/SYM64/" | b"/<ECSYMBOLS>/" | b"/<XFGHASHMAP>/" => {
                self.data(member.size, member.size);
                return Ok(());
            }
            b"//" => {
                if member.size > TABLE_MOST {
                    return self.damage(format!("the table of names at byte {at} is too large"));
                }
                // There is one table.
                self.names.clear();
                let (left, padding) = (member.size, member.size % 2);
                self.state = match left {
                    0 => State::Header,
                    _ => State::Table { left, padding },
                };
                return Ok(());
            }
            _ => {}
        }
        if let Some(length) = field.strip_prefix(b"#1/") {
            return match number(length, 10).filter(|&length| length <= NAME_MOST.min(member.size)) {
                Some(length @ 1..) => {
                    self.state = State::Name(member, length as usize);
                    Ok(())
                }
                _ => self.damage(format!(
                    "the name of the member at byte {at} makes no sense"
                )),
            };
        }
        let name = match field.strip_prefix(b"/") {
            Some(place) => {
                let name = number(place, 10)
                    .and_then(|place| self.names.get(usize::try_from(place).ok()?..))
                    .map(|rest| &rest[..rest.len().min(NAME_MOST as usize + 1)])
                    .and_then(|rest| rest.split(|&byte| byte == b'\n').next())
                    .filter(|name| name.len() <= NAME_MOST as usize);
                match name {
                    Some(name) => name.strip_suffix(b"/").unwrap_or(name).to_vec(),
                    None => {
                        return self.damage(format!(
                            "the member at byte {at} has a name that is not there"
                        ));
                    }
                }
            }
            None => field.strip_suffix(b"/").unwrap_or(field).to_vec(),
        };
        self.member(member, &name, member.size)
    }

    /// A member of which `left` bytes follow.
    fn member(&mut self, member: Member, name: &[u8], left: u64) -> Result<()> {
        self.last = name.to_vec();
        if !name.starts_with(b"__.SYMDEF") {
            let mut record = member.record;
            (record.size, record.place) = (left, self.position);
            self.tree.add(name, record, b"")?;
        }
        self.data(left, member.size);
        Ok(())
    }
}

impl Scan for Scanner<'_> {
    fn want(&self) -> Want {
        match self.state {
            State::Magic => Want::Bytes(MAGIC.len()),
            State::Header => Want::Bytes(HEADER),
            State::Name(_, length) => Want::Bytes(length),
            State::Table { left, .. } => Want::Bytes(left.min(MOST as u64) as usize),
            State::Data { left, .. } => Want::Skip(left),
            State::Ended => Want::Nothing,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.position;
        self.position += bytes.len() as u64;
        match core::mem::replace(&mut self.state, State::Ended) {
            State::Magic if bytes == MAGIC => {
                self.state = State::Header;
                Ok(())
            }
            State::Magic => Err(Error::because(Errno::EINVAL, "not an ar archive")),
            State::Header => self.header(bytes, at),
            State::Name(member, length) => {
                let end = bytes.iter().rposition(|&byte| byte != 0);
                let name = &bytes[..end.map_or(0, |end| end + 1)];
                self.member(member, name, member.size - length as u64)
            }
            State::Table { left, padding } => {
                self.names.extend_from_slice(bytes);
                self.state = match (left - bytes.len() as u64, padding) {
                    (0, 0) => State::Header,
                    (0, left) => State::Data { left, padding },
                    (left, padding) => State::Table { left, padding },
                };
                Ok(())
            }
            state @ (State::Data { .. } | State::Ended) => {
                self.state = state;
                Ok(())
            }
        }
    }

    fn skipped(&mut self, count: u64) {
        self.position += count;
        if let State::Data { left, .. } = &mut self.state {
            *left -= count.min(*left);
            if *left == 0 {
                self.state = State::Header;
            }
        }
    }

    fn end(&mut self, left: u64) -> Result<()> {
        match self.state {
            State::Header if left == 0 => Ok(()),
            State::Ended => Ok(()),
            State::Data { left, padding } if left == padding => Ok(()),
            _ => self.damage(format!(
                "the archive is truncated: it ends at byte {} behind or inside member \"{}\"",
                self.position + left,
                printable(&self.last)
            )),
        }
    }
}

/// Whether a file that starts with `head` is an ar archive. `EINVAL` for a thin one.
pub fn detect(head: &[u8]) -> Result<bool> {
    if head.starts_with(THIN) {
        return Err(Error::because(
            Errno::EINVAL,
            "a thin ar archive: its members are files elsewhere",
        ));
    }
    Ok(head.starts_with(MAGIC))
}
