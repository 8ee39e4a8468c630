//! A directory as a zip archive (APPNOTE.TXT 6.3): deflated, with modes, owners and times as
//! Info-ZIP has them (`proginfo/extrafld.txt`), names in UTF-8 where they are, and zip64 where
//! numbers do not fit.

use culvert_drivers::archive::codec::crc32;
use miniz_oxide::{
    MZFlush, MZStatus,
    deflate::{core::CompressorOxide, core::create_comp_flags_from_zip_params, stream::deflate},
};
use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::ffi::OsStrExt,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

/// "deflate"; without compression.
const DEFLATED: u16 = 8;
const STORED: u16 = 0;
/// Numbers from here on are not held by 32 bits; of members, by 16.
const WIDE: u64 = u32::MAX as u64;
const MANY: u64 = u16::MAX as u64;
/// A file from here on gets a header with wide numbers: it may not compress.
const LARGE: u64 = 0xff00_0000;
/// Flag: the name is UTF-8.
const UTF8: u16 = 1 << 11;
/// Made on Unix, by the rules of version 3.0.
const MADE_BY: u16 = 3 << 8 | 30;
/// What zlib's own level 6 is.
const LEVEL: i32 = 6;
/// Seconds from NTFS's epoch to Unix's.
const NTFS: i64 = 11_644_473_600;

/// What a zip archive has no place for.
#[derive(Debug, Default)]
pub struct Lost {
    /// Files with extended attributes, with several names, or sockets.
    pub files: u64,
    /// The first of them.
    pub first: String,
}

impl Lost {
    fn add(&mut self, name: &[u8]) {
        if self.files == 0 {
            self.first = String::from_utf8_lossy(name).into_owned();
        }
        self.files += 1;
    }
}

/// A member of the central directory.
struct Member {
    name: Vec<u8>,
    method: u16,
    crc: u32,
    size: u64,
    packed: u64,
    at: u64,
    wide: bool,
}

struct Zip<'a> {
    out: BufWriter<&'a File>,
    at: u64,
    directory: Vec<u8>,
    members: u64,
    lost: Lost,
    buffers: (Vec<u8>, Vec<u8>),
}

fn refused(name: &[u8], why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", String::from_utf8_lossy(name)))
}

/// An error with the name of what it is about.
fn of(name: &[u8]) -> impl Fn(io::Error) -> io::Error {
    move |error| match error.raw_os_error() {
        Some(_) => refused(name, &crate::failure::reason(&error)),
        None => error,
    }
}

/// Writes what is in `directory` into `file`, which is empty.
pub fn write(directory: &Path, file: &File) -> io::Result<Lost> {
    let mut zip = Zip {
        out: BufWriter::with_capacity(256 << 10, file),
        at: 0,
        directory: Vec::new(),
        members: 0,
        lost: Lost::default(),
        buffers: (vec![0; 128 << 10], vec![0; 128 << 10]),
    };
    zip.tree(directory, b"")?;
    zip.end()?;
    zip.out.flush()?;
    Ok(zip.lost)
}

impl Zip<'_> {
    /// Adds what is in `directory`, whose name in the archive is `prefix`, in the order of names.
    fn tree(&mut self, directory: &Path, prefix: &[u8]) -> io::Result<()> {
        let entries = fs::read_dir(directory).map_err(of(prefix))?;
        let mut names = entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(of(prefix))?;
        names.sort();
        for name in names {
            let path = directory.join(&name);
            let mut full = [prefix, name.as_bytes()].concat();
            let found = fs::symlink_metadata(&path).map_err(of(&full))?;
            let kind = found.file_type();
            if kind.is_socket() {
                // As tar(1) does.
                self.lost.add(&full);
                continue;
            }
            if loses(&path, &found) {
                self.lost.add(&full);
            }
            if kind.is_dir() {
                full.push(b'/');
                self.small(full.clone(), &found, b"")?;
                self.tree(&path, &full)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(of(&full))?;
                self.small(full, &found, target.as_os_str().as_bytes())?;
            } else if kind.is_file() {
                self.file(&path, full, &found)?;
            } else {
                return Err(refused(&full, "a zip archive holds no devices and FIFOs"));
            }
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// A member whose content is known, as it is.
    fn small(&mut self, name: Vec<u8>, found: &Metadata, content: &[u8]) -> io::Result<()> {
        let member = Member {
            name,
            method: STORED,
            crc: crc32(0, content),
            size: content.len() as u64,
            packed: content.len() as u64,
            at: self.at,
            wide: false,
        };
        let header = local(&member, found)?;
        self.put(&header)?;
        self.put(content)?;
        self.list(&member, found)
    }

    /// The content of a file; its header is written once more when that has been read.
    fn file(&mut self, path: &Path, name: Vec<u8>, found: &Metadata) -> io::Result<()> {
        let mut open = OpenOptions::new();
        open.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let mut source = open.read(true).open(path).map_err(of(&name))?;
        let mut member = Member {
            name,
            method: if found.len() > 0 { DEFLATED } else { STORED },
            crc: 0,
            size: 0,
            packed: 0,
            at: self.at,
            wide: found.len() >= LARGE,
        };
        let header = local(&member, found)?;
        self.put(&header)?;
        if member.method == DEFLATED {
            self.deflate(&mut source, &mut member)?;
        }
        if !member.wide && member.size.max(member.packed) >= WIDE {
            return Err(refused(&member.name, "it grew while it was read"));
        }
        let end = self.at;
        let header = local(&member, found)?;
        self.out.seek(SeekFrom::Start(member.at))?;
        self.out.write_all(&header)?;
        self.out.seek(SeekFrom::Start(end))?;
        self.list(&member, found)
    }

    fn deflate(&mut self, source: &mut File, member: &mut Member) -> io::Result<()> {
        let flags = create_comp_flags_from_zip_params(LEVEL, 0, 0);
        let mut packer = CompressorOxide::new(flags);
        let (mut plain, mut packed) = std::mem::take(&mut self.buffers);
        loop {
            let count = source.read(&mut plain).map_err(of(&member.name))?;
            let mut rest = &plain[..count];
            member.crc = crc32(member.crc, rest);
            member.size += count as u64;
            let flush = match count {
                0 => MZFlush::Finish,
                _ => MZFlush::None,
            };
            let ended = loop {
                let step = deflate(&mut packer, rest, &mut packed, flush);
                rest = &rest[step.bytes_consumed..];
                self.put(&packed[..step.bytes_written])?;
                member.packed += step.bytes_written as u64;
                match step.status {
                    Ok(MZStatus::StreamEnd) => break true,
                    Ok(_) if rest.is_empty() && flush == MZFlush::None => break false,
                    Ok(_) => {}
                    Err(_) => return Err(refused(&member.name, "deflating failed")),
                }
            };
            if ended {
                break;
            }
        }
        self.buffers = (plain, packed);
        Ok(())
    }

    /// Adds the member to the central directory.
    fn list(&mut self, member: &Member, found: &Metadata) -> io::Result<()> {
        let mut wide = Vec::new();
        let mut narrow = |number: u64| match number < WIDE {
            true => number as u32,
            false => {
                wide.extend_from_slice(&number.to_le_bytes());
                u32::MAX
            }
        };
        // In this order (APPNOTE 4.5.3).
        let (size, packed, at) = (
            narrow(member.size),
            narrow(member.packed),
            narrow(member.at),
        );
        let mut extra = Vec::new();
        if !wide.is_empty() {
            field(&mut extra, 1, &[&wide]);
        }
        unix(&mut extra, found);
        let directory = &mut self.directory;
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&MADE_BY.to_le_bytes());
        directory.extend_from_slice(&fixed(member, found));
        directory.extend_from_slice(&packed.to_le_bytes());
        directory.extend_from_slice(&size.to_le_bytes());
        directory.extend_from_slice(&(member.name.len() as u16).to_le_bytes());
        directory.extend_from_slice(&(extra.len() as u16).to_le_bytes());
        // No comment, the first disk, no inner attributes.
        directory.extend_from_slice(&[0; 6]);
        let dos = if found.is_dir() { 0x10 } else { 0 };
        directory.extend_from_slice(&(found.mode() << 16 | dos).to_le_bytes());
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(&member.name);
        directory.extend_from_slice(&extra);
        self.members += 1;
        Ok(())
    }

    /// The central directory, and what leads to it (APPNOTE 4.3.14 to 4.3.16).
    fn end(&mut self) -> io::Result<()> {
        let (start, members) = (self.at, self.members);
        let directory = std::mem::take(&mut self.directory);
        let length = directory.len() as u64;
        self.put(&directory)?;
        let mut end = Vec::new();
        if members >= MANY || start >= WIDE || length >= WIDE {
            let here = self.at;
            end.extend_from_slice(b"PK\x06\x06");
            end.extend_from_slice(&44u64.to_le_bytes());
            end.extend_from_slice(&MADE_BY.to_le_bytes());
            end.extend_from_slice(&45u16.to_le_bytes());
            end.extend_from_slice(&[0; 8]);
            for number in [members, members, length, start] {
                end.extend_from_slice(&number.to_le_bytes());
            }
            end.extend_from_slice(b"PK\x06\x07\0\0\0\0");
            end.extend_from_slice(&here.to_le_bytes());
            end.extend_from_slice(&1u32.to_le_bytes());
        }
        end.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        let count = (members.min(MANY) as u16).to_le_bytes();
        end.extend_from_slice(&[count, count].concat());
        end.extend_from_slice(&(length.min(WIDE) as u32).to_le_bytes());
        end.extend_from_slice(&(start.min(WIDE) as u32).to_le_bytes());
        end.extend_from_slice(&[0; 2]);
        self.put(&end)
    }
}

/// Whether something of the file has no place: extended attributes but SELinux's label, names.
fn loses(path: &Path, found: &Metadata) -> bool {
    let mut names = vec![0; 64 << 10];
    let count = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut all = names[..count].split_inclusive(|&byte| byte == 0);
    (found.is_file() && found.nlink() > 1) || all.any(|name| name != b"security.selinux\0")
}

/// What both headers of a member have in common.
fn fixed(member: &Member, found: &Metadata) -> Vec<u8> {
    let is_wide = member.wide || member.at >= WIDE;
    let needed: u16 = if is_wide { 45 } else { 20 };
    let is_utf8 = !member.name.is_ascii() && OsStr::from_bytes(&member.name).to_str().is_some();
    let flags = if is_utf8 { UTF8 } else { 0 };
    let (date, time) = dos_time(found.mtime());
    let mut bytes = Vec::new();
    for number in [needed, flags, member.method, time, date] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&member.crc.to_le_bytes());
    bytes
}

/// The header in front of a member's data.
fn local(member: &Member, found: &Metadata) -> io::Result<Vec<u8>> {
    let length = u16::try_from(member.name.len());
    let length =
        length.map_err(|_| refused(&member.name[..99], "its name is too long for a zip"))?;
    let mut extra = Vec::new();
    let (mut size, mut packed) = (member.size as u32, member.packed as u32);
    if member.wide {
        let numbers = [member.size.to_le_bytes(), member.packed.to_le_bytes()];
        field(&mut extra, 1, &[&numbers[0], &numbers[1]]);
        (size, packed) = (u32::MAX, u32::MAX);
    }
    unix(&mut extra, found);
    let mut header = b"PK\x03\x04".to_vec();
    header.extend_from_slice(&fixed(member, found));
    header.extend_from_slice(&packed.to_le_bytes());
    header.extend_from_slice(&size.to_le_bytes());
    header.extend_from_slice(&length.to_le_bytes());
    header.extend_from_slice(&(extra.len() as u16).to_le_bytes());
    header.extend_from_slice(&member.name);
    header.extend_from_slice(&extra);
    Ok(header)
}

fn field(extra: &mut Vec<u8>, id: u16, parts: &[&[u8]]) {
    let bytes = parts.concat();
    extra.extend_from_slice(&id.to_le_bytes());
    extra.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    extra.extend_from_slice(&bytes);
}

/// "UT", the time of the last change, or NTFS's where that does not fit; "ux", owner and group.
fn unix(extra: &mut Vec<u8>, found: &Metadata) {
    match i32::try_from(found.mtime()) {
        Ok(seconds) => field(extra, 0x5455, &[&[1], &seconds.to_le_bytes()]),
        Err(_) => {
            let ticks = (found.mtime().saturating_add(NTFS)).saturating_mul(10_000_000);
            let time = &ticks.max(0).to_le_bytes()[..];
            field(
                extra,
                0x000a,
                &[&[0, 0, 0, 0, 1, 0, 24, 0], time, time, time],
            );
        }
    }
    let (uid, gid) = (found.uid().to_le_bytes(), found.gid().to_le_bytes());
    field(extra, 0x7875, &[&[1, 4], &uid, &[4], &gid]);
}

/// Date and time as DOS had them, from 1980 to 2107, in UTC.
fn dos_time(seconds: i64) -> (u16, u16) {
    const FIRST: i64 = 315_532_800;
    const LAST: i64 = 4_354_819_198;
    let seconds = seconds.clamp(FIRST, LAST);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from 1970-01-01 in the Gregorian calendar, in years that start in March.
    let day = days + 719_468;
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + day.div_euclid(146_097) * 400 + i64::from(month <= 2);
    let date = (year - 1980) << 9 | month << 5 | day_of_month;
    let time = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
    (date as u16, time as u16)
}

#[cfg(test)]
mod tests {
    use super::dos_time;

    #[test]
    fn dos_times() {
        let date = |year: u16, month: u16, day: u16| (year - 1980) << 9 | month << 5 | day;
        assert_eq!(dos_time(0), (date(1980, 1, 1), 0));
        assert_eq!(dos_time(951_782_400), (date(2000, 2, 29), 0));
        let last = (date(2024, 12, 31), 23 << 11 | 59 << 5 | 29);
        assert_eq!(dos_time(1_735_689_598), last);
        assert_eq!(dos_time(i64::MAX), (date(2107, 12, 31), last.1));
    }
}
