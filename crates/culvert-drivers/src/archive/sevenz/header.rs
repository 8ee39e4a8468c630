//! The header of a 7z archive.

use super::{MAGIC, Member};
use crate::archive::bytes::{Bytes, u32_at, u64_at};
use crate::archive::codec::{Folder, Method, crc32, unpack_folder};
use crate::archive::format::NodeRecord;
use crate::archive::tree::Tree;
use alloc::{format, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// Bytes before the packed data.
const START: u64 = 32;
/// Longest header, bytes.
const MOST: usize = 256 << 20;
/// Of a packed header at most so many bytes are read for each packed one, however short it is so
/// many: names of many files in the same directories are packed to a tenth or so. A header of
/// zeroes is packed to a seven-thousandth.
const RATIO: u64 = 64;
const SHORT: u64 = 16 << 20;
/// The same of what it counts: files, folders, streams. Each takes memory of its own, and a byte
/// at least where it is packed honestly: its checksum, time or name differs from the others'.
const COUNTED: u64 = 1;
const FEW: u64 = 1 << 18;
/// However long it is, at most so many: 1.0 GB was measured, with names that are all the same.
const LARGEST: usize = 1 << 22;
/// Headers that are packed themselves, in each other.
const NESTED: usize = 4;

/// What properties are, by number.
mod id {
    pub const END: u64 = 0;
    pub const HEADER: u64 = 1;
    pub const ARCHIVE_PROPERTIES: u64 = 2;
    pub const ADDITIONAL: u64 = 3;
    pub const STREAMS: u64 = 4;
    pub const FILES: u64 = 5;
    pub const PACK: u64 = 6;
    pub const UNPACK: u64 = 7;
    pub const SUBSTREAMS: u64 = 8;
    pub const SIZE: u64 = 9;
    pub const CRC: u64 = 10;
    pub const FOLDER: u64 = 11;
    pub const UNPACK_SIZES: u64 = 12;
    pub const COUNTS: u64 = 13;
    pub const EMPTY_STREAM: u64 = 14;
    pub const EMPTY_FILE: u64 = 15;
    pub const ANTI: u64 = 16;
    pub const NAMES: u64 = 17;
    pub const MTIME: u64 = 20;
    pub const ATTRIBUTES: u64 = 21;
    pub const ENCODED: u64 = 23;
}

/// The header, read.
pub struct Header {
    /// The folders.
    pub folders: Vec<Folder>,
    /// Sizes of the files in them, and checksums.
    streams: Vec<(u64, Option<u32>)>,
    /// The rest, which says what the files are called, and how many there may be.
    files: Vec<u8>,
    most: usize,
}

fn broken(what: &str) -> Error {
    Error::because(Errno::EIO, format!("the 7z archive is damaged: {what}"))
}

fn unknown(what: &str) -> Error {
    let why = format!("the 7z archive has {what}, which is not read");
    Error::because(Errno::EOPNOTSUPP, why)
}

fn too_many() -> Error {
    let why = format!("the 7z archive has more than {LARGEST} files: is it a bomb?");
    Error::because(Errno::EFBIG, why)
}

/// Bytes of a header, taken from the front, and how many of anything they may count.
struct Reader<'a>(&'a [u8], usize);

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).ok();
        let parts = count.and_then(|count| self.0.split_at_checked(count));
        let (taken, rest) = parts.ok_or_else(|| broken("its header is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<u32> {
        Ok(u32_at(self.take(4)?, 0))
    }

    /// A number: as many ones lead its first byte as bytes follow.
    fn number(&mut self) -> Result<u64> {
        let first = self.byte()?;
        let follow = first.leading_ones();
        let mut value = 0;
        for (at, byte) in self.take(follow.into())?.iter().enumerate() {
            value |= u64::from(*byte) << (8 * at);
        }
        if follow < 7 {
            let high = u64::from(first & (0x7f >> follow));
            value |= high << (8 * follow);
        }
        Ok(value)
    }

    /// How many of something there are, each of which takes a byte here at least.
    fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len().min(self.1) => match count <= LARGEST {
                true => Ok(count),
                false => Err(too_many()),
            },
            _ => Err(broken("it names more than its header has")),
        }
    }

    fn bits(&mut self, count: usize) -> Result<Vec<bool>> {
        let bytes = self.take(count.div_ceil(8) as u64)?;
        let bit = |at: usize| bytes[at / 8] & 0x80 >> (at % 8) != 0;
        Ok((0..count).map(bit).collect())
    }

    /// For each of `count` whether it is there.
    fn defined(&mut self, count: usize) -> Result<Vec<bool>> {
        match self.byte()? {
            0 => self.bits(count),
            _ => Ok(vec![true; count]),
        }
    }

    fn digests(&mut self, count: usize) -> Result<Vec<Option<u32>>> {
        let defined = self.defined(count)?;
        let each = defined.into_iter();
        each.map(|is_there| is_there.then(|| self.word()).transpose())
            .collect()
    }

    fn expect(&mut self, wanted: u64) -> Result<()> {
        match self.number()? == wanted {
            true => Ok(()),
            false => Err(broken("its header does not hold together")),
        }
    }

    fn inside(&mut self) -> Result<()> {
        match self.byte()? {
            0 => Ok(()),
            _ => Err(unknown("a header in parts")),
        }
    }
}

/// The header of `raw`; `EFBIG` where it has more than `most` bytes, or many more than it is packed
/// in.
pub fn read(raw: &dyn Bytes, most: u64) -> Result<Header> {
    let mut start = [0; START as usize];
    raw.read_exact_at(0, &mut start)?;
    if !start.starts_with(MAGIC) || u32_at(&start, 8) != crc32(0, &start[12..]) {
        return Err(broken("its first bytes differ from their checksum"));
    }
    let (at, length) = (u64_at(&start, 12), u64_at(&start, 20));
    if length == 0 {
        return Ok(Header {
            folders: Vec::new(),
            streams: Vec::new(),
            files: Vec::new(),
            most: 0,
        });
    }
    let place = at.checked_add(START);
    let end = place.and_then(|place| place.checked_add(length));
    let fits = end.is_some_and(|end| end <= raw.len()) && length <= MOST as u64;
    let Some(place) = place.filter(|_| fits) else {
        return Err(broken("it is truncated, or its header makes no sense"));
    };
    let mut bytes = vec![0; length as usize];
    raw.read_exact_at(place, &mut bytes)?;
    if crc32(0, &bytes) != u32_at(&start, 28) {
        return Err(broken("its header differs from its checksum"));
    }
    let mut counted = bytes.len();
    for _ in 0..NESTED {
        let mut reader = Reader(&bytes, counted);
        match reader.number()? {
            id::HEADER => return plain(&mut reader, raw.len()),
            id::ENCODED => {
                let (folders, _) = streams(&mut reader, raw.len())?;
                let [folder] = &folders[..] else {
                    return Err(broken("its header lies in several folders"));
                };
                let packed = folder.place.1 - folder.place.0;
                let ratio = packed.saturating_mul(RATIO).max(SHORT);
                let most = ratio.min(most).min(MOST as u64) as usize;
                if folder.plain > most as u64 {
                    return Err(Error::because(
                        Errno::EFBIG,
                        format!(
                            "the 7z archive's header has more than {most} bytes: is it a bomb?"
                        ),
                    ));
                }
                bytes = unpack_folder(raw, folder, most)?;
                counted = packed.saturating_mul(COUNTED).max(FEW).min(most as u64) as usize;
            }
            _ => return Err(broken("its header is none")),
        }
    }
    Err(broken("its header is packed too often"))
}

fn plain(reader: &mut Reader<'_>, length: u64) -> Result<Header> {
    let mut header = Header {
        folders: Vec::new(),
        streams: Vec::new(),
        files: Vec::new(),
        most: reader.1,
    };
    loop {
        match reader.number()? {
            id::END => return Ok(header),
            id::ARCHIVE_PROPERTIES => {
                while reader.number()? != id::END {
                    let size = reader.number()?;
                    reader.take(size)?;
                }
            }
            id::ADDITIONAL => return Err(unknown("additional streams")),
            id::STREAMS => (header.folders, header.streams) = streams(reader, length)?,
            id::FILES => {
                header.files = reader.0.to_vec();
                return Ok(header);
            }
            _ => return Err(broken("its header does not hold together")),
        }
    }
}

type Streams = (Vec<Folder>, Vec<(u64, Option<u32>)>);

/// Folders, and the files in them.
fn streams(reader: &mut Reader<'_>, length: u64) -> Result<Streams> {
    let (mut packed, mut folders, mut crcs) = (Vec::new(), Vec::new(), Vec::new());
    let mut files = None;
    loop {
        match reader.number()? {
            id::END => break,
            id::PACK => packed = pack(reader, length)?,
            id::UNPACK => (folders, crcs) = unpack(reader, &packed)?,
            id::SUBSTREAMS => files = Some(substreams(reader, &folders, &crcs)?),
            _ => return Err(broken("its streams do not hold together")),
        }
    }
    let files = files.unwrap_or_else(|| {
        let each = folders.iter().zip(&crcs);
        each.map(|(folder, crc): (&Folder, _)| (folder.plain, *crc))
            .collect()
    });
    Ok((folders, files))
}

/// Where the packed streams lie.
fn pack(reader: &mut Reader<'_>, length: u64) -> Result<Vec<(u64, u64)>> {
    let mut at = reader.number()?.checked_add(START);
    let count = reader.count()?;
    let mut places = Vec::new();
    loop {
        match reader.number()? {
            id::END => break,
            id::SIZE => {
                for _ in 0..count {
                    let size = reader.number()?;
                    let start = at.filter(|start| *start <= length);
                    at = start.and_then(|start| start.checked_add(size));
                    let place = start.zip(at.filter(|end| *end <= length));
                    places.push(place.ok_or_else(|| broken("it is truncated"))?);
                }
            }
            id::CRC => drop(reader.digests(count)?),
            _ => return Err(broken("its packed streams do not hold together")),
        }
    }
    Ok(places)
}

/// A coder: its method, its properties, and how many streams go in and come out.
struct Coder<'a> {
    method: &'a [u8],
    properties: &'a [u8],
    streams: (u64, u64),
}

type Unpacked = (Vec<Folder>, Vec<Option<u32>>);

fn unpack(reader: &mut Reader<'_>, packed: &[(u64, u64)]) -> Result<Unpacked> {
    reader.expect(id::FOLDER)?;
    let count = reader.count()?;
    reader.inside()?;
    let (mut folders, mut outs, mut next) = (Vec::new(), Vec::new(), packed.iter());
    for _ in 0..count {
        let (coders, last) = coders(reader)?;
        let folder = folder(&coders)?;
        let place = next.next().ok_or_else(|| broken("a folder has no bytes"))?;
        folders.push(Folder {
            place: *place,
            ..folder
        });
        outs.push((coders.len(), last));
    }
    reader.expect(id::UNPACK_SIZES)?;
    for (folder, (count, last)) in folders.iter_mut().zip(outs) {
        for at in 0..count {
            let size = reader.number()?;
            if at == last {
                folder.plain = size;
            }
        }
    }
    let mut crcs = vec![None; count];
    loop {
        match reader.number()? {
            id::END => return Ok((folders, crcs)),
            id::CRC => crcs = reader.digests(count)?,
            _ => return Err(broken("its folders do not hold together")),
        }
    }
}

/// The coders of a folder; of two the first one is the last to decode. And which of those in the
/// header that is, in whose order sizes come.
fn coders<'a>(reader: &mut Reader<'a>) -> Result<(Vec<Coder<'a>>, usize)> {
    let count = reader.count()?;
    if !(1..=32).contains(&count) {
        return Err(broken("a folder has no coders, or too many"));
    }
    let mut coders = Vec::new();
    for _ in 0..count {
        let flags = reader.byte()?;
        let method = reader.take(u64::from(flags & 0x0f))?;
        let streams = match flags & 0x10 {
            0 => (1, 1),
            _ => (reader.number()?, reader.number()?),
        };
        let properties = match flags & 0x20 {
            0 => &[][..],
            _ => {
                let size = reader.number()?;
                reader.take(size)?
            }
        };
        coders.push(Coder {
            method,
            properties,
            streams,
        });
    }
    if coders.iter().any(|coder| coder.streams != (1, 1)) {
        return Err(unknown("a method of several streams (BCJ2)"));
    }
    // Each pair says whose output goes in where.
    let pairs = (1..count).map(|_| Ok((reader.number()?, reader.number()?)));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    // One input is the folder's own; more than one would be listed here.
    match (count, &pairs[..]) {
        (1, []) => Ok((coders, 0)),
        (2, [(0, 1)]) => Ok((coders, 0)),
        (2, [(1, 0)]) => {
            coders.swap(0, 1);
            Ok((coders, 1))
        }
        _ => Err(unknown("a chain of more than two methods")),
    }
}

/// The folder that `coders` make, without its place and size.
fn folder(coders: &[Coder<'_>]) -> Result<Folder> {
    let none = Folder {
        place: (0, 0),
        plain: 0,
        method: Method::Copy,
        dictionary: 0,
        properties: 0,
        filter: (0, 0),
    };
    let (main, filter) = match coders {
        [main] => (main, None),
        [filter, main] => (main, Some(filter)),
        _ => return Err(unknown("a chain of more than two methods")),
    };
    let mut folder = match (main.method, main.properties) {
        ([0], _) => none,
        ([3, 1, 1], [properties, a, b, c, d, ..]) => Folder {
            method: Method::Lzma,
            properties: *properties,
            dictionary: u32::from_le_bytes([*a, *b, *c, *d]),
            ..none
        },
        ([0x21], [size, ..]) => Folder {
            method: Method::Lzma2,
            dictionary: match size {
                0..=39 => (2 | u32::from(size & 1)) << (size / 2 + 11),
                40 => u32::MAX,
                _ => return Err(broken("a dictionary makes no sense")),
            },
            ..none
        },
        ([4, 2, 2], _) => Folder {
            method: Method::Bzip2,
            ..none
        },
        ([4, 0xf7, 0x11, 1], _) => Folder {
            method: Method::Zstd,
            ..none
        },
        ([6, 0xf1, 7, 1], _) => {
            return Err(Error::because(
                Errno::EACCES,
                "the 7z archive is encrypted; no password is asked for",
            ));
        }
        (method, _) => return Err(unknown(&named(method))),
    };
    if let Some(filter) = filter {
        let property = filter.properties.first_chunk::<4>();
        let offset = property.map_or(0, |bytes| u32::from_le_bytes(*bytes));
        folder.filter = match (filter.method, filter.properties) {
            ([3], [distance, ..]) => (3, u32::from(*distance) + 1),
            ([3, 3, 1, 3] | [4], _) => (4, offset),
            ([3, 3, 2, 5] | [5], _) => (5, offset),
            ([3, 3, 4, 1] | [6], _) => (6, offset),
            ([3, 3, 5, 1] | [7], _) => (7, offset),
            ([3, 3, 7, 1] | [8], _) => (8, offset),
            ([3, 3, 8, 5] | [9], _) => (9, offset),
            ([0xa], _) => (0xa, offset),
            ([0xb], _) => (0xb, offset),
            ([6, 0xf1, 7, 1], _) => {
                return Err(Error::because(
                    Errno::EACCES,
                    "the 7z archive is encrypted; no password is asked for",
                ));
            }
            (method, _) => return Err(unknown(&named(method))),
        };
        if folder.method != Method::Lzma2 {
            return Err(unknown("a filter before another method than LZMA2"));
        }
    }
    Ok(folder)
}

fn named(method: &[u8]) -> alloc::string::String {
    match method {
        [3, 4, 1] => "PPMd".into(),
        [4, 1, 8] => "deflate".into(),
        [4, 1, 9] => "deflate64".into(),
        [3, 3, 1, 0x1b] => "BCJ2".into(),
        method => format!("the method {method:x?}"),
    }
}

/// Sizes and checksums of the files in `folders`.
fn substreams(
    reader: &mut Reader<'_>,
    folders: &[Folder],
    crcs: &[Option<u32>],
) -> Result<Vec<(u64, Option<u32>)>> {
    let mut counts = vec![1; folders.len()];
    let mut next = reader.number()?;
    if next == id::COUNTS {
        for count in &mut counts {
            *count = reader.number()?;
        }
        next = reader.number()?;
    }
    // All but the last of each folder have their sizes here.
    let total = counts
        .iter()
        .fold(0u64, |sum, &count| sum.saturating_add(count));
    let most = reader.0.len().min(reader.1) as u64;
    if total.min(most) > LARGEST as u64 {
        return Err(too_many());
    }
    if total > most + folders.len() as u64 {
        return Err(broken("it names more files than its header has"));
    }
    let mut files = Vec::new();
    for ((folder, crc), &count) in folders.iter().zip(crcs).zip(&counts) {
        let mut left = folder.plain;
        for at in 0..count {
            let size = match at + 1 == count {
                true => left,
                false if next == id::SIZE => reader.number()?,
                false => return Err(broken("sizes are missing")),
            };
            left = left
                .checked_sub(size)
                .ok_or_else(|| broken("files are longer than their folder"))?;
            files.push((size, crc.filter(|_| count == 1)));
        }
        if count == 0 && folder.plain > 0 {
            return Err(broken("a folder has no files"));
        }
    }
    if next == id::SIZE {
        next = reader.number()?;
    }
    loop {
        match next {
            id::END => return Ok(files),
            id::CRC => {
                let missing = files.iter_mut().filter(|(_, crc)| crc.is_none());
                let missing: Vec<_> = missing.collect();
                let digests = reader.digests(missing.len())?;
                for ((_, crc), digest) in missing.into_iter().zip(digests) {
                    *crc = digest;
                }
            }
            _ => return Err(broken("its files do not hold together")),
        }
        next = reader.number()?;
    }
}

/// What the header says of files.
#[derive(Default)]
struct Said {
    empty: Vec<bool>,
    no_directory: Vec<bool>,
    anti: bool,
    names: Vec<Vec<u8>>,
    times: Vec<Option<u64>>,
    attributes: Vec<Option<u32>>,
}

fn said(header: &Header) -> Result<Said> {
    let mut said = Said::default();
    let mut reader = Reader(&header.files, header.most);
    if header.files.is_empty() {
        return Ok(said);
    }
    let count = reader.count()?;
    loop {
        let kind = reader.number()?;
        if kind == id::END {
            break;
        }
        let size = reader.number()?;
        let mut own = Reader(reader.take(size)?, reader.1);
        match kind {
            id::EMPTY_STREAM => said.empty = own.bits(count)?,
            id::EMPTY_FILE => {
                let empty = said.empty.iter().filter(|empty| **empty).count();
                said.no_directory = own.bits(empty)?;
            }
            id::ANTI => said.anti = true,
            id::NAMES => {
                own.inside()?;
                said.names = names(own.0, count)?;
            }
            id::MTIME => {
                let defined = own.defined(count)?;
                own.inside()?;
                let each = defined.into_iter();
                let time = |own: &mut Reader<'_>| Ok::<_, Error>(u64_at(own.take(8)?, 0));
                said.times = each
                    .map(|is_there| is_there.then(|| time(&mut own)).transpose())
                    .collect::<Result<_>>()?;
            }
            id::ATTRIBUTES => {
                let defined = own.defined(count)?;
                own.inside()?;
                let each = defined.into_iter();
                said.attributes = each
                    .map(|is_there| is_there.then(|| own.word()).transpose())
                    .collect::<Result<_>>()?;
            }
            _ => {}
        }
    }
    if said.names.len() != count {
        return Err(broken("names are missing"));
    }
    Ok(said)
}

/// Names are UTF-16, each with a zero behind it; what is none becomes a replacement character.
fn names(bytes: &[u8], count: usize) -> Result<Vec<Vec<u8>>> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut names = Vec::new();
    for name in pairs.split(|&unit| unit == [0; 2]).take(count) {
        let units = name.iter().map(|&unit| u16::from_le_bytes(unit));
        let letters = char::decode_utf16(units);
        let text = letters.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER));
        let text: alloc::string::String = text.collect();
        names.push(text.into_bytes());
    }
    Ok(names)
}

/// Bits of Windows's attributes: read-only, a directory; and that the upper half is a Unix mode.
const READ_ONLY: u32 = 1;
const DIRECTORY: u32 = 0x10;
const UNIX: u32 = 0x8000;

/// The files of the archive: those that have bytes first, in the order of these.
pub fn members(header: &Header, tree: &mut Tree) -> Result<Vec<Member>> {
    let said = said(header)?;
    if said.anti {
        tree.warnings.add(b"", "items to be removed are left out");
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut streams = header.streams.iter();
    let mut no_directory = said.no_directory.iter();
    let mut place = 0u64;
    for (at, name) in said.names.into_iter().enumerate() {
        let attributes = said.attributes.get(at).copied().flatten().unwrap_or(0);
        let is_empty = said.empty.get(at).copied().unwrap_or(false);
        let is_directory = is_empty && !no_directory.next().copied().unwrap_or(false)
            || attributes & DIRECTORY != 0;
        let kind = match is_directory {
            true => FileKind::Directory,
            false => FileKind::Regular,
        };
        let usual = match (is_directory, attributes & READ_ONLY) {
            (true, _) => 0o755,
            (false, 0) => 0o644,
            (false, _) => 0o444,
        };
        let mode = match attributes >> 16 {
            mode if attributes & UNIX != 0 && is_kept(mode) => mode,
            _ => kind as u32 | usual,
        };
        let mtime = said
            .times
            .get(at)
            .copied()
            .flatten()
            .map_or(Timespec::default(), time);
        let mut record = NodeRecord::new(mode, mtime);
        if is_empty {
            without.push(Member {
                name,
                record,
                crc: None,
            });
            continue;
        }
        let &(size, crc) = streams
            .next()
            .ok_or_else(|| broken("bytes of files are missing"))?;
        (record.size, record.place) = (size, place);
        place = place.saturating_add(size);
        with.push(Member { name, record, crc });
    }
    with.append(&mut without);
    Ok(with)
}

/// Whether 7z keeps what has such a mode.
fn is_kept(mode: u32) -> bool {
    let kind = FileKind::of_mode(mode);
    kind.is_some_and(|kind| {
        matches!(
            kind,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        )
    })
}

/// From 100 ns since 1601.
fn time(ticks: u64) -> Timespec {
    const EPOCH: i64 = 11_644_473_600;
    Timespec {
        seconds: (ticks / 10_000_000) as i64 - EPOCH,
        nanoseconds: (ticks % 10_000_000) as u32 * 100,
    }
}
