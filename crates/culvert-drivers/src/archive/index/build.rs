//! Making an index: find out what the file is, go through it once, seal the tree.

use crate::archive::bytes::{Bytes, FileBytes};
use crate::archive::codec::{self, Checkpoints, Format};
use crate::archive::format::{Header, Identity, Parts, SECTIONS};
use crate::archive::package::Package;
use crate::archive::scan::{self, Feeder, Scan};
use crate::archive::tree::Tree;
use crate::archive::{ar, cpio, hash, host, iso, tar, zip};
use alloc::{boxed::Box, format as text, sync::Arc, vec, vec::Vec};
use culvert::{Errno, Error, Result};

/// How far the making of an index is: bytes of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes gone through.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The formats that are read from start to end, which may be compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Serial {
    Tar,
    Cpio,
    Ar,
}

/// What an archive turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these, perhaps compressed.
    Serial(Serial, Option<Format>),
    /// A zip archive.
    Zip,
    /// An ISO 9660 image.
    Iso,
    /// A package, its payload perhaps compressed.
    Package(Package, Option<Format>),
}

/// Numbers of kinds in the header of an index: those before each kind of serial archive, and the
/// image's.
const CPIO: u8 = 0x10;
const AR: u8 = 0x20;
const ISO: u8 = 0x30;
const DEB: u8 = 0x40;
const RPM: u8 = 0x50;

impl Kind {
    /// As the header of an index has it.
    fn number(self) -> u8 {
        let first = match self {
            Self::Zip => return 1,
            Self::Iso => return ISO,
            Self::Serial(Serial::Tar, _) => 0,
            Self::Serial(Serial::Cpio, _) => CPIO,
            Self::Serial(Serial::Ar, _) => AR,
            Self::Package(Package::Deb, _) => DEB,
            Self::Package(Package::Rpm, _) => RPM,
        };
        match self {
            Self::Serial(_, Some(format)) | Self::Package(_, Some(format)) => {
                first + format as u8 + 2
            }
            _ => first,
        }
    }

    /// From the header of an index; `EIO` when it makes no sense.
    pub fn of(header: &Header) -> Result<Self> {
        let package = match header.kind & 0xf0 {
            DEB => Some(Package::Deb),
            RPM => Some(Package::Rpm),
            _ => None,
        };
        if let Some(package) = package {
            let format = match header.kind & 0x0f {
                0 => None,
                number => Some(
                    (number.checked_sub(2).and_then(Format::from_number))
                        .ok_or_else(|| super::broken("kind"))?,
                ),
            };
            return Ok(Self::Package(package, format));
        }
        let serial = match header.kind & 0xf0 {
            0 => Serial::Tar,
            CPIO => Serial::Cpio,
            AR => Serial::Ar,
            ISO if header.kind == ISO => return Ok(Self::Iso),
            _ => return Err(super::broken("kind")),
        };
        match header.kind & 0x0f {
            0 => Ok(Self::Serial(serial, None)),
            1 if serial == Serial::Tar => Ok(Self::Zip),
            1 => Err(super::broken("kind")),
            number => Format::from_number(number - 2)
                .map(|format| Self::Serial(serial, Some(format)))
                .ok_or_else(|| super::broken("kind")),
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Iso => "iso9660",
            Self::Package(package, _) => package.name(),
            Self::Serial(serial, format) => serial.name(format),
        }
    }
}

impl Serial {
    fn name(self, format: Option<Format>) -> &'static str {
        match (self, format) {
            (Self::Tar, None) => "tar",
            (Self::Tar, Some(Format::Gzip)) => "tar, gzip",
            (Self::Tar, Some(Format::Zstd)) => "tar, zstd",
            (Self::Tar, Some(Format::Xz)) => "tar, xz",
            (Self::Tar, Some(Format::Bzip2)) => "tar, bzip2",
            (Self::Tar, Some(Format::Lzip)) => "tar, lzip",
            (Self::Cpio, None) => "cpio",
            (Self::Cpio, Some(Format::Gzip)) => "cpio, gzip",
            (Self::Cpio, Some(Format::Zstd)) => "cpio, zstd",
            (Self::Cpio, Some(Format::Xz)) => "cpio, xz",
            (Self::Cpio, Some(Format::Bzip2)) => "cpio, bzip2",
            (Self::Cpio, Some(Format::Lzip)) => "cpio, lzip",
            (Self::Ar, None) => "ar",
            (Self::Ar, Some(Format::Gzip)) => "ar, gzip",
            (Self::Ar, Some(Format::Zstd)) => "ar, zstd",
            (Self::Ar, Some(Format::Xz)) => "ar, xz",
            (Self::Ar, Some(Format::Bzip2)) => "ar, bzip2",
            (Self::Ar, Some(Format::Lzip)) => "ar, lzip",
        }
    }

    /// What begins with `head`, of the formats that are known by it.
    fn detect(head: &[u8]) -> Result<Option<Self>> {
        if head.first_chunk().is_some_and(tar::detect) {
            return Ok(Some(Self::Tar));
        }
        if cpio::detect(head) {
            return Ok(Some(Self::Cpio));
        }
        Ok(ar::detect(head)?.then_some(Self::Ar))
    }

    /// Fills `tree` from `raw`, not compressed.
    pub fn scan(self, raw: &dyn Bytes, tree: &mut Tree, tolerant: bool) -> Result<()> {
        scan::scan(raw, &mut *self.scanner(tree, tolerant), &mut |_| {})
    }

    fn scanner<'t>(self, tree: &'t mut Tree, tolerant: bool) -> Box<dyn Scan + 't> {
        match self {
            Self::Tar => Box::new(tar::Scanner::new(tree, tolerant)),
            Self::Cpio => Box::new(cpio::Scanner::new(tree, tolerant)),
            Self::Ar => Box::new(ar::Scanner::new(tree, tolerant)),
        }
    }
}

/// What `raw` is, by its content. `EINVAL` when it is no archive that is known. A compressed file
/// is taken for a compressed tar until it is read.
pub fn detect(raw: &dyn Bytes) -> Result<Kind> {
    let mut head = [0; tar::BLOCK];
    let length = raw.read_at(0, &mut head)?;
    let head = &head[..length];
    if let Some(format) = codec::detect(head) {
        return Ok(Kind::Serial(Serial::Tar, Some(format)));
    }
    if let Some(package) = Package::detect(head) {
        return Ok(Kind::Package(package, None));
    }
    // The first sectors of an image are its system's: zeroes, as of an empty tar, or a boot loader.
    let is_empty = head.iter().all(|&byte| byte == 0);
    if let Some(serial) = Serial::detect(head)?.filter(|_| !is_empty) {
        return Ok(Kind::Serial(serial, None));
    }
    if iso::detect(raw)? {
        return Ok(Kind::Iso);
    }
    if is_empty && length == tar::BLOCK {
        return Ok(Kind::Serial(Serial::Tar, None));
    }
    if zip::detect(raw)? {
        return Ok(Kind::Zip);
    }
    if head.starts_with(b"PK\x03\x04") {
        return Err(Error::because(
            Errno::EIO,
            "a zip archive without its central directory: truncated?",
        ));
    }
    let known = [
        (&b"7z\xbc\xaf\x27\x1c"[..], "a 7-Zip archive"),
        (b"Rar!\x1a\x07", "a RAR archive"),
        (b"hsqs", "a squashfs image"),
        (b"\x04\x22\x4d\x18", "compressed with lz4"),
    ];
    let known = known.iter().find(|(magic, _)| head.starts_with(magic));
    Err(match (known, length) {
        (Some((_, name)), _) => {
            Error::because(Errno::EINVAL, text!("{name}, which is not supported"))
        }
        (None, 0) => Error::because(Errno::EINVAL, "an empty file, not an archive"),
        (None, _) => Error::because(
            Errno::EINVAL,
            "not an archive: neither tar, cpio nor ar (plain, gzip, zstd, xz, bzip2 or lzip), \
             nor zip, deb, rpm or ISO 9660",
        ),
    })
}

/// Bytes hashed at head and tail, and number and size of the samples in between.
const ENDS: u64 = 64 << 10;
const SAMPLES: u64 = 16;
const SAMPLE: u64 = 4 << 10;

/// What tells `archive` from others: size, time of the last change, and a hash over 64 KiB of head
/// and tail and 16 samples of 4 KiB evenly spread in between. Not over everything: that would cost
/// as much as making the index.
pub fn identify(archive: &FileBytes) -> Result<Identity> {
    let status = archive.status()?;
    let length = archive.len();
    let mut state = length;
    let mut buffer = vec![0; ENDS as usize];
    let mut take = |offset: u64, count: u64| -> Result<()> {
        let piece = &mut buffer[..count as usize];
        archive.read_exact_at(offset, piece)?;
        state = hash::of_name(state, &hash::of_content(piece).to_le_bytes());
        Ok(())
    };
    take(0, ENDS.min(length))?;
    if length > ENDS {
        let tail = ENDS.min(length - ENDS);
        take(length - tail, tail)?;
    }
    let middle = length.saturating_sub(2 * ENDS);
    if middle > 0 {
        for sample in 0..SAMPLES {
            let offset = ENDS + u128::from(middle).saturating_mul(sample.into()) as u64 / SAMPLES;
            take(offset, SAMPLE.min(length - offset))?;
        }
    }
    Ok(Identity {
        size: length,
        mtime: status.mtime,
        content: state,
    })
}

/// Goes through `archive` once and returns its index. `tolerant` passes over damage with a warning
/// where it can.
pub fn build(
    archive: &Arc<FileBytes>,
    tolerant: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Parts> {
    let before = archive.status()?;
    let identity = identify(archive)?;
    let image = build_from(archive.clone(), identity, tolerant, progress)?;
    if archive.status()? != before {
        return Err(Error::because(
            Errno::EBUSY,
            "the archive changed while it was read: is it still being written?",
        ));
    }
    Ok(image)
}

/// As [`build`], for any bytes.
pub fn build_from(
    raw: Arc<dyn Bytes>,
    identity: Identity,
    tolerant: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Parts> {
    let mut kind = detect(&*raw)?;
    let total = raw.len();
    let mut progress = |done| progress(Progress { done, total });
    let seed = host::random();
    let mut tree = Tree::new(identity.mtime, seed);
    let checkpoints = match kind {
        Kind::Zip => {
            zip::scan(&raw, &mut tree, &mut progress)?;
            None
        }
        Kind::Iso => {
            iso::scan(&*raw, &mut tree, &mut progress)?;
            None
        }
        Kind::Serial(serial, None) => {
            let mut scanner = serial.scanner(&mut tree, tolerant);
            scan::scan(&*raw, &mut *scanner, &mut progress)?;
            None
        }
        Kind::Package(package, _) => {
            let (format, checkpoints) =
                packaged(package, &raw, &mut tree, tolerant, &mut progress)?;
            kind = Kind::Package(package, format);
            checkpoints
        }
        Kind::Serial(_, Some(format)) => {
            let (serial, checkpoints) =
                compressed(&*raw, format, &mut tree, tolerant, &mut progress)?;
            kind = Kind::Serial(serial, Some(format));
            Some(checkpoints)
        }
    };
    progress(total);
    let header = Header {
        length: 0,
        body: 0,
        archive: identity,
        kind: kind.number(),
        damaged: tolerant,
        plain: checkpoints.as_ref().map_or(total, Checkpoints::plain_len),
        content: 0,
        seed,
        sections: [(0, 0); SECTIONS],
    };
    // They are freed before the rest is put together.
    let encoded = checkpoints.map_or(Vec::new(), |checkpoints| checkpoints.encode());
    Ok(tree.seal(header, encoded))
}

/// A package: its payload is an archive, and Debian's has one more.
fn packaged(
    package: Package,
    raw: &Arc<dyn Bytes>,
    tree: &mut Tree,
    tolerant: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Option<Format>, Option<Checkpoints>)> {
    package.describe(raw, tree, tolerant)?;
    let payload = package.payload(raw)?;
    let wanted = package.holds();
    let mut head = [0; tar::BLOCK];
    let length = payload.read_at(0, &mut head)?;
    let (found, format, checkpoints) = match codec::detect(&head[..length]) {
        Some(format) => {
            let (serial, table) = compressed(&payload, format, tree, tolerant, progress)?;
            (Some(serial), Some(format), Some(table))
        }
        None => {
            let serial = Serial::detect(&head[..length])?;
            if serial == Some(wanted) {
                let mut scanner = wanted.scanner(tree, tolerant);
                scan::scan(&payload, &mut *scanner, progress)?;
            }
            (serial, None, None)
        }
    };
    match found == Some(wanted) {
        true => Ok((format, checkpoints)),
        false => Err(Error::because(
            Errno::EOPNOTSUPP,
            text!(
                "the payload of the {} package is compressed by a method that is not known, or is \
                no archive",
                package.name()
            ),
        )),
    }
}

/// A compressed archive: what it is, is known by the first bytes inside.
fn compressed(
    raw: &dyn Bytes,
    format: Format,
    tree: &mut Tree,
    tolerant: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Serial, Checkpoints)> {
    let mut tree = Some(tree);
    let mut head = Vec::new();
    let mut found: Option<(Serial, Box<dyn Scan + '_>, Feeder)> = None;
    let mut begin = |head: &[u8]| {
        let serial = Serial::detect(head)?.unwrap_or(Serial::Tar);
        let mut scanner = serial.scanner(tree.take().ok_or(Errno::EIO)?, tolerant);
        let mut feeder = Feeder::default();
        feeder.feed(&mut *scanner, head)?;
        Ok::<_, Error>((serial, scanner, feeder))
    };
    let outcome = codec::build(
        format,
        raw,
        &codec::Options::default(),
        &mut |bytes| match &mut found {
            Some((_, scanner, feeder)) => feeder.feed(&mut **scanner, bytes),
            None => {
                head.extend_from_slice(bytes);
                if head.len() >= tar::BLOCK {
                    found = Some(begin(&core::mem::take(&mut head))?);
                }
                Ok(())
            }
        },
        progress,
    );
    let outcome = outcome.and_then(|checkpoints| {
        let (serial, mut scanner, feeder) = match found {
            Some(found) => found,
            None => begin(&head)?,
        };
        feeder.end(&mut *scanner)?;
        Ok((serial, checkpoints))
    });
    outcome.map_err(|error| match error.errno() {
        Errno::EINVAL => Error::because(
            Errno::EINVAL,
            text!(
                "compressed with {}, but there is no tar, cpio or ar archive inside",
                format.name()
            ),
        ),
        _ => error,
    })
}
