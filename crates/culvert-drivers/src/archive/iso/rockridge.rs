//! What a record says of its file in Rock Ridge (RRIP 1.12), by the fields of SUSP.

use super::both;
use super::record::{seconds, short_time};
use crate::archive::bytes::Bytes;
use crate::archive::format::device_number;
use crate::archive::tree::TARGET_MAX;
use alloc::{vec, vec::Vec};
use culvert::{Result, Timespec};

/// Most areas that a record goes on in.
const AREAS: usize = 32;
/// Largest such area, bytes: a block, as in the kernel.
const AREA_MOST: u32 = 2 << 10;
/// Longest name that is put together, bytes.
const NAME_MOST: usize = 1024;

/// See the module.
#[derive(Default)]
pub struct Unix {
    /// `st_mode`.
    pub mode: Option<u32>,
    pub links: u32,
    /// That of the file, the same for all its names; 0 where RRIP 1.12 is not followed.
    pub serial: u32,
    pub owner: Option<(u32, u32)>,
    pub modified: Option<Timespec>,
    pub name: Vec<u8>,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// `st_rdev`.
    pub device: u64,
    /// The block of the directory that belongs in this place.
    pub child: Option<u32>,
    /// It belongs in another place.
    pub relocated: bool,
    /// By zisofs.
    pub compressed: bool,
}

/// How many bytes of each area are others', where the root's own `area` says that there is SUSP.
pub fn skip(area: &[u8]) -> Option<usize> {
    match area {
        [b'S', b'P', _, 1, 0xbe, 0xef, skip, ..] => Some(usize::from(*skip)),
        // A CD-ROM XA keeps 14 bytes before.
        _ => match area.get(14..)? {
            [b'S', b'P', _, 1, 0xbe, 0xef, ..] => Some(14),
            _ => None,
        },
    }
}

/// A symbolic link's target as it comes, component by component.
#[derive(Default)]
struct Target {
    /// The last component goes on.
    open: bool,
}

impl Target {
    fn add(&mut self, to: &mut Vec<u8>, mut fields: &[u8]) {
        while let [flags, length, rest @ ..] = fields {
            let Some((text, rest)) = rest.split_at_checked(usize::from(*length)) else {
                return;
            };
            fields = rest;
            if to.len() > TARGET_MAX {
                return;
            }
            if !self.open && !to.is_empty() && to.last() != Some(&b'/') {
                to.push(b'/');
            }
            match flags & 0x0e {
                0x02 => to.push(b'.'),
                0x04 => to.extend_from_slice(b".."),
                0x08 => {
                    to.clear();
                    to.push(b'/');
                }
                _ => to.extend_from_slice(text),
            }
            self.open = flags & 1 != 0;
        }
    }
}

impl Unix {
    /// What the fields in `area` say, and those in the areas that it goes on in. What is damaged is
    /// not there.
    pub fn parse(raw: &dyn Bytes, block: u64, area: &[u8]) -> Result<Self> {
        let mut unix = Self::default();
        let mut target = Target::default();
        let mut next = unix.fields(area, &mut target);
        for _ in 0..AREAS {
            let Some((at, offset, length)) = next else {
                break;
            };
            if length > AREA_MOST {
                break;
            }
            let mut bytes = vec![0; length as usize];
            let place = u64::from(at) * block + u64::from(offset);
            let there = raw.read_at(place, &mut bytes)?;
            next = unix.fields(&bytes[..there], &mut target);
        }
        Ok(unix)
    }

    /// Takes the fields of one area; where it goes on.
    fn fields(&mut self, mut area: &[u8], target: &mut Target) -> Option<(u32, u32, u32)> {
        let mut next = None;
        while let [a, b, length, _, ..] = area {
            let length = usize::from(*length);
            let Some((field, rest)) = area.split_at_checked(length).filter(|_| length >= 4) else {
                break;
            };
            area = rest;
            match (&[*a, *b], field) {
                (b"ST", _) => break,
                (b"CE", _) => {
                    if let (Some(at), Some(offset), Some(length)) =
                        (both(field, 4), both(field, 12), both(field, 20))
                    {
                        next = Some((at, offset, length));
                    }
                }
                (b"PX", _) => {
                    self.mode = both(field, 4);
                    self.links = both(field, 12).unwrap_or(1);
                    self.owner = both(field, 20).zip(both(field, 28));
                    self.serial = both(field, 36).unwrap_or(0);
                }
                (b"PN", _) => {
                    if let (Some(high), Some(low)) = (both(field, 4), both(field, 12)) {
                        // Some writers put all of it into the lower one.
                        self.device = match high {
                            0 => device_number(u64::from(low >> 8), u64::from(low & 0xff)),
                            _ => device_number(high.into(), low.into()),
                        };
                    }
                }
                (b"NM", [_, _, _, _, flags, name @ ..])
                    if flags & 6 == 0 && self.name.len() < NAME_MOST =>
                {
                    self.name.extend_from_slice(name);
                }
                (b"SL", [_, _, _, _, _, components @ ..]) => {
                    target.add(&mut self.target, components)
                }
                (b"TF", [_, _, _, _, flags, times @ ..]) => self.time(*flags, times),
                (b"CL", _) => self.child = both(field, 4),
                (b"RE", _) => self.relocated = true,
                (b"ZF", _) => self.compressed = true,
                _ => {}
            }
        }
        next
    }

    /// The time of the last change of content: behind that of creation, where that is there.
    fn time(&mut self, flags: u8, times: &[u8]) {
        let before = usize::from(flags & 1);
        if flags & 2 == 0 {
            return;
        }
        self.modified = match flags & 0x80 {
            0 => times
                .get(before * 7..)
                .and_then(|bytes| bytes.first_chunk())
                .map(short_time),
            _ => times
                .get(before * 17..)
                .and_then(|bytes| long_time(bytes.first_chunk()?)),
        };
    }
}

/// Digits: year, month, day, hour, minute, second, hundredths; then quarters of an hour.
fn long_time(bytes: &[u8; 17]) -> Option<Timespec> {
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0i64, |number, &digit| {
            let digit = char::from(digit).to_digit(10)?;
            Some(number * 10 + i64::from(digit))
        })
    };
    Some(seconds(
        (number(0, 4)?, number(4, 6)?, number(6, 8)?),
        (number(8, 10)?, number(10, 12)?, number(12, 14)?),
        i64::from(bytes[16] as i8),
        number(14, 16)? as u32 * 10_000_000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(fields: &[&[u8]]) -> Vec<u8> {
        let (mut target, mut to) = (Target::default(), Vec::new());
        for field in fields {
            target.add(&mut to, field);
        }
        to
    }

    #[test]
    fn targets_are_put_together() {
        assert_eq!(target(&[b"\x08\0\0\x03usr\0\x03bin"]), b"/usr/bin");
        assert_eq!(target(&[b"\x04\0\x02\0\0\x01x"]), b".././x");
        assert_eq!(target(&[b"\x01\x02ab", b"\0\x02cd\0\x01e"]), b"abcd/e");
        assert_eq!(target(&[b"\0\xffshort"]), b"");
    }

    #[test]
    fn long_times() {
        assert_eq!(
            long_time(b"2000022912345678\x04"),
            Some(Timespec {
                seconds: 951_827_696 - 3600,
                nanoseconds: 780_000_000
            })
        );
        assert_eq!(long_time(b"2000-22912345678\x04"), None);
    }
}
