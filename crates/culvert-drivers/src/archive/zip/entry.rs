//! An entry of the central directory.

use super::extra::Extra;
use crate::archive::bytes::{u16_at, u32_at};
use alloc::{borrow::Cow, vec::Vec};
use culvert::{FileKind, Timespec};

/// Bytes of a local header without names.
pub const HEADER: usize = 30;
/// Bytes of an entry without names.
const ENTRY: usize = 46;

/// An entry, parsed.
pub struct Entry<'a> {
    /// Bytes it takes.
    pub length: usize,
    /// Name as stored.
    name: &'a [u8],
    /// Compression method.
    pub method: u16,
    /// CRC-32 of the content.
    pub crc: u32,
    /// Size of the content.
    pub size: u64,
    /// Size of the data.
    pub compressed: u64,
    /// Where the local header lies.
    pub header: u64,
    /// Number of the volume.
    pub disk: u32,
    /// What the extra fields say.
    pub extra: Extra<'a>,
    host: u8,
    flags: u16,
    attributes: u32,
    date: u16,
    time: u16,
}

impl<'a> Entry<'a> {
    /// The entry at the start of `bytes`; none when there is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let fixed = bytes.first_chunk::<ENTRY>()?;
        if !fixed.starts_with(b"PK\x01\x02") {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
        let length = ENTRY + name + extra + comment;
        let rest = bytes.get(ENTRY..length)?;
        let (name, rest) = rest.split_at(name);
        let raw_extra = &rest[..extra];
        let (compressed, size) = (u32_at(fixed, 20), u32_at(fixed, 24));
        let (header, disk) = (u32_at(fixed, 42), u16_at(fixed, 34));
        let extra = Extra::parse(raw_extra, name);
        let mut wide = Extra::zip64(raw_extra);
        let mut number = |narrow: u32| match narrow {
            u32::MAX => wide.long().unwrap_or(narrow.into()),
            _ => narrow.into(),
        };
        // In this order, and only those that do not fit (APPNOTE 4.5.3).
        let (size, compressed, header) = (number(size), number(compressed), number(header));
        let disk = match disk {
            u16::MAX => wide.word().unwrap_or(disk.into()),
            _ => disk.into(),
        };
        Some(Self {
            length,
            name,
            method: u16_at(fixed, 10),
            crc: u32_at(fixed, 16),
            size,
            compressed,
            header,
            disk,
            extra,
            host: fixed[5],
            flags: u16_at(fixed, 8),
            attributes: u32_at(fixed, 38),
            date: u16_at(fixed, 14),
            time: u16_at(fixed, 12),
        })
    }

    /// Whether the data is encrypted.
    pub fn encrypted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Made on a system without Unix attributes (APPNOTE 4.4.2: 0 is MS-DOS, 10 and 11 Windows).
    fn is_dos(&self) -> bool {
        matches!(self.host, 0 | 10 | 11 | 14)
    }

    /// The name: as bytes, whatever the encoding. That of the Unicode extra field where there is
    /// one; back slashes of programs that should not have written them are slashes.
    pub fn path(&self) -> Cow<'a, [u8]> {
        let name = self.extra.unicode_name.unwrap_or(self.name);
        if self.is_dos() && !name.contains(&b'/') && name.contains(&b'\\') {
            let slashes = name
                .iter()
                .map(|&byte| if byte == b'\\' { b'/' } else { byte });
            return Cow::Owned(slashes.collect::<Vec<u8>>());
        }
        Cow::Borrowed(name)
    }

    /// `st_mode`.
    pub fn mode(&self) -> u32 {
        let slash = self.path().last() == Some(&b'/');
        let unix = self.attributes >> 16;
        // Programs on DOS that know Unix modes say so by filling the upper half.
        if unix & 0o177777 != 0 && (!self.is_dos() || FileKind::of_mode(unix).is_some()) {
            let kind = match FileKind::of_mode(unix) {
                _ if slash => FileKind::Directory,
                Some(kind) => kind,
                None => FileKind::Regular,
            };
            return kind as u32 | unix & 0o7777;
        }
        if slash || (self.is_dos() && self.attributes & 0x10 != 0) {
            return FileKind::Directory as u32 | 0o755;
        }
        let read_only = self.is_dos() && self.attributes & 1 != 0;
        FileKind::Regular as u32 | if read_only { 0o444 } else { 0o644 }
    }

    /// Time of the last change: exact from the extra fields, else the DOS time, which has no zone
    /// and is taken for UTC.
    pub fn mtime(&self) -> Timespec {
        self.extra.mtime.unwrap_or_else(|| Timespec {
            seconds: dos_time(self.date, self.time),
            nanoseconds: 0,
        })
    }
}

/// Seconds since the epoch of a DOS date and time; fields out of range are taken at the nearest
/// sense.
fn dos_time(date: u16, time: u16) -> i64 {
    let year = 1980 + i64::from(date >> 9);
    let month = i64::from(date >> 5 & 15).clamp(1, 12);
    let day = i64::from(date & 31).max(1);
    let (hour, minute, second) = (time >> 11, time >> 5 & 63, (time & 31) * 2);
    // Days from 1970-01-01 in the proleptic Gregorian calendar, years starting in March so that the
    // leap day is the last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let days =
        365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * month + 2) / 5 + day
            - 1
            - 719_468;
    days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
}

#[cfg(test)]
mod tests {
    use super::dos_time;

    #[test]
    fn dos_times() {
        let date = |year: u16, month: u16, day: u16| (year - 1980) << 9 | month << 5 | day;
        assert_eq!(dos_time(date(1980, 1, 1), 0), 315_532_800);
        assert_eq!(dos_time(date(2000, 2, 29), 0), 951_782_400);
        assert_eq!(
            dos_time(date(2024, 12, 31), 23 << 11 | 59 << 5 | 29),
            1_735_689_598
        );
        assert_eq!(dos_time(0, 0), 315_532_800);
    }
}
