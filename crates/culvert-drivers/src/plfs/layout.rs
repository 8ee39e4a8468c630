//! The bytes and names of a PLFS 2.5 container.
//!
//! ```text
//! NAME/                                  the container: a directory with an access file
//!   .plfsaccess113918400                 owner, mode and times of the file
//!   version-tag.T-dat.D-chk.N            who made it
//!   meta/open.HOST.PID                   somebody writes
//!   meta/END.BYTES.SECONDS.MICROS.HOST   what a writer left when it closed
//!   xattrs/NAME                          an extended attribute, its value as content
//!   hostdir.N/dropping.data.T.HOST.PID   what one process wrote, in the order of its writes
//!   hostdir.N/dropping.index.T.HOST.PID  a record for each write
//!   hostdir.N -> LENGTH/back/end         a metalink: the directory lies on another back end
//!   global.index                         all records, resolved
//! ```

use alloc::{format, string::String, vec::Vec};

/// The file that makes a directory a container.
pub const ACCESS: &[u8] = b".plfsaccess113918400";
/// The directory of what is known without the indexes.
pub const META: &[u8] = b"meta";
/// Where containers before 2.0 kept the names of who has the file open.
pub const OPEN_HOSTS: &[u8] = b"openhosts";
/// The directory of extended attributes.
pub const XATTRS: &[u8] = b"xattrs";
/// Begins the name of what a writer keeps in [`META`] while it writes.
pub const OPEN: &[u8] = b"open.";
/// Begins the name of a directory of droppings.
pub const HOSTDIR: &[u8] = b"hostdir.";
/// Begins the name of a data dropping.
pub const DATA: &[u8] = b"dropping.data.";
/// Begins the name of an index dropping.
pub const INDEX: &[u8] = b"dropping.index.";
/// The index of all droppings, resolved.
pub const GLOBAL: &[u8] = b"global.index";
/// Begins the name of the version file.
pub const VERSION: &[u8] = b"version";
/// What our version files say before the check sum of the back ends: the version of the format.
pub const VERSION_TAG: &str = "version-tag.2.5.0-dat.1.0-chk.";
/// Directories of droppings in a container, unless it is said otherwise.
pub const HOSTDIRS: u64 = 32;
/// Most of them.
pub const MOST_HOSTDIRS: u64 = 1024;
/// Mode of droppings, before the umask.
pub const DROPPING_MODE: u32 = 0o644;

/// The mode of index droppings of a file of `mode` that others than its owner may write: they may
/// cut it.
pub const fn shared_mode(mode: u32) -> u32 {
    DROPPING_MODE | mode & 0o022
}

/// The hash that chooses directories and back ends. Bytes count as signed.
pub fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0u64, |sum, &byte| {
        (byte as i8 as u64).wrapping_add(sum.wrapping_mul(65599))
    })
}

/// Which of `count` canonical back ends the last name of a path chooses. PLFS keeps its hash in an
/// `int` for that (`resolvepath_finish`); where that is negative, so is the number, and what it
/// finds there in memory are the same back ends, counted from the last.
pub fn canonical(name: &[u8], count: usize) -> usize {
    i64::from(hash(name) as i32).rem_euclid(count as i64) as usize
}

/// The mode of a container's directories, for a file of this `mode`: whoever may read or write the
/// file must be able to search them.
pub const fn directory_mode(mode: u32) -> u32 {
    let mut all = mode & 0o777 | 0o700;
    if mode & 0o060 != 0 {
        all |= 0o010;
    }
    if mode & 0o006 != 0 {
        all |= 0o001;
    }
    all
}

/// One write: which bytes of the file are where in the data dropping of process `id`. Of two for
/// the same bytes the one with the later `end` counts. A record without length only says how far
/// the file reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Offset in the file.
    pub logical: u64,
    /// Offset in the data dropping.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// Seconds since the epoch, when the write began.
    pub begin: f64,
    /// The same, when it ended.
    pub end: f64,
    /// The writer, as in the name of its data dropping.
    pub id: u32,
}

impl Record {
    /// Bytes in an index dropping.
    pub const SIZE: usize = 48;

    /// As it stands in an index dropping, little-endian as on all machines that Culvert runs on.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        self.encode_of(0)
    }

    /// As it stands in a `global.index`, where the chunk's number and the writer's are two.
    pub fn encode_global(&self, chunk: u32) -> [u8; Self::SIZE] {
        let original = Self { id: chunk, ..*self };
        original.encode_of(self.id)
    }

    fn encode_of(&self, original: u32) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.logical.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.physical.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.begin.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.end.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.id.to_le_bytes());
        bytes[44..].copy_from_slice(&original.to_le_bytes());
        bytes
    }

    /// None for what no write can have left: ranges beyond the largest file, a time that is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| <[u8; 8]>::try_from(bytes.get(at..at + 8)?).ok();
        let record = Self {
            logical: u64::from_le_bytes(word(0)?),
            physical: u64::from_le_bytes(word(8)?),
            length: u64::from_le_bytes(word(16)?),
            begin: f64::from_le_bytes(word(24)?),
            end: f64::from_le_bytes(word(32)?),
            id: u32::from_le_bytes(bytes.get(40..44)?.try_into().ok()?),
        };
        let fits = |start: u64| {
            let end = start.checked_add(record.length);
            end.is_some_and(|end| end <= i64::MAX as u64)
        };
        let right = fits(record.logical) && fits(record.physical) && record.end.is_finite();
        right.then_some(record)
    }

    /// The first offset behind it.
    pub const fn reach(&self) -> u64 {
        self.logical + self.length
    }
}

/// Whose a dropping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppingName<'a> {
    /// `SECONDS.MICROS`, when it was made.
    pub time: &'a [u8],
    /// The host, which may have dots.
    pub host: &'a [u8],
    /// The process.
    pub pid: u32,
}

/// The parts of `name`, which begins with `prefix` ([`INDEX`] or [`DATA`]).
pub fn dropping<'a>(prefix: &[u8], name: &'a [u8]) -> Option<DroppingName<'a>> {
    let rest = name.strip_prefix(prefix)?;
    let mut dots = (0..rest.len()).filter(|&at| rest[at] == b'.');
    let (_, second) = (dots.next()?, dots.next()?);
    let last = dots.next_back()?;
    Some(DroppingName {
        time: &rest[..second],
        host: &rest[second + 1..last],
        pid: number(&rest[last + 1..])?.try_into().ok()?,
    })
}

/// The name of the data dropping of writer `id` beside the index dropping `index`.
pub fn data_name(index: &DroppingName<'_>, id: u32) -> Vec<u8> {
    let id = format!("{id}");
    [DATA, index.time, b".", index.host, b".", id.as_bytes()].concat()
}

/// What a name in [`META`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// How far the file reached.
    pub end: u64,
    /// Bytes written.
    pub bytes: u64,
    /// When, seconds since the epoch.
    pub seconds: u64,
    /// And microseconds.
    pub micros: u64,
    /// By which host.
    pub host: &'a [u8],
}

impl<'a> Meta<'a> {
    /// None for another name.
    pub fn parse(name: &'a [u8]) -> Option<Self> {
        let mut parts = name.splitn(5, |&byte| byte == b'.');
        let mut next = || number(parts.next()?);
        let (end, bytes, seconds, micros) = (next()?, next()?, next()?, next()?);
        let host = parts.next()?;
        (end <= i64::MAX as u64).then_some(Self {
            end,
            bytes,
            seconds,
            micros,
            host,
        })
    }

    /// The name.
    pub fn name(&self) -> Vec<u8> {
        let Self {
            end,
            bytes,
            seconds,
            micros,
            ..
        } = self;
        let start = format!("{end}.{bytes}.{seconds}.{micros}.");
        [start.as_bytes(), self.host].concat()
    }
}

/// The text of a metalink: how many bytes of its own path to leave out, and what stands there
/// instead.
pub fn metalink(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length = number(&text[..digits])?;
    let back = &text[digits..];
    (!back.is_empty() && length < 4096).then_some((length as usize, back))
}

/// A decimal number, digits only.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// `SECONDS.MICROS`.
pub fn time_text(seconds: i64, nanoseconds: u32) -> String {
    format!("{seconds}.{:06}", nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_48_bytes_that_come_back() {
        let record = Record {
            logical: 1 << 40,
            physical: 4096,
            length: 47008,
            begin: 1e9,
            end: 1e9 + 0.5,
            id: 4711,
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        assert_eq!(bytes[44..], [0; 4]);
        assert_eq!(
            record.encode_global(3)[40..48],
            [3, 0, 0, 0, 0x67, 0x12, 0, 0]
        );
        for damage in [
            Record {
                logical: u64::MAX,
                ..record
            },
            Record {
                physical: i64::MAX as u64,
                ..record
            },
            Record {
                length: u64::MAX,
                ..record
            },
            Record {
                end: f64::NAN,
                ..record
            },
        ] {
            assert_eq!(Record::decode(&damage.encode()), None);
        }
        assert_eq!(Record::decode(&bytes[..43]), None);
    }

    #[test]
    fn names_say_who_wrote() {
        let name = b"dropping.index.1700000000.123456.node.example.org.17";
        let parts = dropping(INDEX, name).unwrap();
        assert_eq!(parts.time, b"1700000000.123456");
        assert_eq!((parts.host, parts.pid), (&b"node.example.org"[..], 17));
        assert_eq!(
            data_name(&parts, 4),
            b"dropping.data.1700000000.123456.node.example.org.4"
        );
        for wrong in [
            "dropping.index.1.2.17",
            "dropping.index.",
            "dropping.index.1.2.h.x",
            "meta",
        ] {
            assert_eq!(dropping(INDEX, wrong.as_bytes()), None, "{wrong}");
        }
        let meta = Meta::parse(b"4096.512.1700000000.5.a.b").unwrap();
        assert_eq!((meta.end, meta.bytes, meta.host), (4096, 512, &b"a.b"[..]));
        assert_eq!(meta.name(), b"4096.512.1700000000.5.a.b");
        assert_eq!(Meta::parse(b"open.h.1"), None);
        assert_eq!(metalink(b"23/pana/store"), Some((23, &b"/pana/store"[..])));
        assert_eq!(metalink(b"/pana/store"), None);
        assert_eq!(metalink(b"99999999999999999999999/x"), None);
    }

    #[test]
    fn bytes_count_as_signed_in_the_hash() {
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"ab"), 97 * 65599 + 98);
        assert_eq!(hash(b"\xff"), u64::MAX);
    }

    /// Where PLFS 2.5 itself has put files of these names, on three back ends.
    #[test]
    fn containers_are_where_plfs_looks_for_them() {
        let names = ["strided4", "both", "one", "two", "x", "longer-name.h5"];
        let found = names.map(|name| canonical(name.as_bytes(), 3));
        assert_eq!(found, [1, 1, 1, 2, 0, 1]);
    }

    #[test]
    fn who_may_read_may_search() {
        assert_eq!(directory_mode(0o640), 0o750);
        assert_eq!(directory_mode(0o606), 0o707);
        assert_eq!(directory_mode(0o000), 0o700);
    }
}
