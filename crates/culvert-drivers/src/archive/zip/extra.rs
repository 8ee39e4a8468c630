//! Extra fields of the central directory (APPNOTE.TXT 4.5; Info-ZIP's `proginfo/extrafld.txt` for
//! those of Unix).

use crate::archive::bytes::{u16_at, u32_at, u64_at};
use crate::archive::codec::crc32;
use culvert::Timespec;

/// What the extra fields say that is used here.
#[derive(Default)]
pub struct Extra<'a> {
    /// Time of the last change: Unix or NTFS.
    pub mtime: Option<Timespec>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// The name in UTF-8, where the plain one is not.
    pub unicode_name: Option<&'a [u8]>,
}

/// Numbers that did not fit the entry, one after the other.
pub struct Wide<'a>(&'a [u8]);

impl Wide<'_> {
    /// The next of 64 bits.
    pub fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// The next of 32 bits.
    pub fn word(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }
}

/// Identifier and content of each field.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(usize::from(u16_at(head, 2)))?;
        bytes = rest;
        Some((u16_at(head, 0), field))
    })
}

impl<'a> Extra<'a> {
    /// The zip64 field.
    pub fn zip64(bytes: &'a [u8]) -> Wide<'a> {
        Wide(
            fields(bytes)
                .find(|(id, _)| *id == 1)
                .map_or(&[], |(_, field)| field),
        )
    }

    /// The fields in `bytes` of the entry called `name`.
    pub fn parse(bytes: &'a [u8], name: &[u8]) -> Self {
        let mut extra = Self::default();
        let mut ntfs = None;
        for (id, field) in fields(bytes) {
            let seconds = |at: usize| {
                (field.len() >= at + 4).then(|| Timespec {
                    seconds: i64::from(u32_at(field, at) as i32),
                    nanoseconds: 0,
                })
            };
            match id {
                // "UT": which times follow, then the time of the last change.
                0x5455 if field.first().is_some_and(|flags| flags & 1 != 0) => {
                    extra.mtime = seconds(1).or(extra.mtime);
                }
                // Old "UX" and PKWARE's Unix field: access, change, owner, group.
                0x5855 | 0x000d => {
                    extra.mtime = extra.mtime.or(seconds(4));
                    if field.len() >= 12 && extra.uid.is_none() {
                        extra.uid = Some(u16_at(field, 8).into());
                        extra.gid = Some(u16_at(field, 10).into());
                    }
                }
                // "ux": version, then owner and group with their lengths.
                0x7875 => {
                    if let Some((uid, gid)) = owners(field) {
                        (extra.uid, extra.gid) = (Some(uid), Some(gid));
                    }
                }
                0x000a => ntfs = ntfs_time(field).or(ntfs),
                // Unicode path: valid while the plain name is the one it was made for.
                0x7075
                    if field.len() > 5 && field[0] == 1 && u32_at(field, 1) == crc32(0, name) =>
                {
                    extra.unicode_name = Some(&field[5..]);
                }
                _ => {}
            }
        }
        extra.mtime = extra.mtime.or(ntfs);
        extra
    }
}

fn owners(field: &[u8]) -> Option<(u32, u32)> {
    fn number(rest: &[u8]) -> Option<(u32, &[u8])> {
        let (&length, rest) = rest.split_first()?;
        let (bytes, rest) = rest.split_at_checked(length.into())?;
        let mut number = 0u64;
        for &byte in bytes.iter().rev() {
            number = number.checked_mul(256)? | u64::from(byte);
        }
        Some((u32::try_from(number).ok()?, rest))
    }
    let (&1, rest) = field.split_first()? else {
        return None;
    };
    let (uid, rest) = number(rest)?;
    let (gid, _) = number(rest)?;
    Some((uid, gid))
}

/// Tag 1 of the NTFS field: times in units of 100 ns since 1601.
fn ntfs_time(field: &[u8]) -> Option<Timespec> {
    const EPOCH: i64 = 11_644_473_600;
    const PER_SECOND: u64 = 10_000_000;
    let (_, times) = fields(field.get(4..)?).find(|(tag, _)| *tag == 1)?;
    let time = (times.len() >= 8).then(|| u64_at(times, 0))?;
    Some(Timespec {
        seconds: i64::try_from(time / PER_SECOND).ok()? - EPOCH,
        nanoseconds: (time % PER_SECOND) as u32 * 100,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_fields() {
        let bytes =
            b"UT\x05\x00\x01\xff\xff\xff\xffux\x0b\x00\x01\x04\xe8\x03\x00\x00\x04\x64\x00\x00\x00";
        let extra = Extra::parse(bytes, b"");
        assert_eq!(extra.mtime.map(|time| time.seconds), Some(-1));
        assert_eq!((extra.uid, extra.gid), (Some(1000), Some(100)));
    }

    #[test]
    fn ntfs_times_and_fields_cut_anywhere() {
        let mut bytes = std::vec![0x0a, 0, 32, 0, 0, 0, 0, 0, 1, 0, 24, 0];
        bytes.extend_from_slice(&((11_644_473_600u64 + 5) * 10_000_000 + 3).to_le_bytes());
        bytes.extend_from_slice(&[0; 16]);
        let time = Extra::parse(&bytes, b"").mtime.unwrap();
        assert_eq!((time.seconds, time.nanoseconds), (5, 300));
        for end in 0..bytes.len() {
            assert!(Extra::parse(&bytes[..end], b"").mtime.is_none());
        }
    }
}
