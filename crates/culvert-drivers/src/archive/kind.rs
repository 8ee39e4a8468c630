//! What an archive is, by its content.

use super::bytes::Bytes;
use super::codec::{self, Format};
use super::format::Header;
use super::index::broken;
use super::package::Package;
use super::serial::Serial;
use super::{iso, sevenz, tar, zip};
use alloc::format as text;
use culvert::{Errno, Error, Result};

/// What an archive turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these, perhaps compressed.
    Serial(Serial, Option<Format>),
    /// A zip archive.
    Zip,
    /// An ISO 9660 image.
    Iso,
    /// A 7z archive.
    SevenZip,
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
const SEVEN_ZIP: u8 = 0x60;

impl Kind {
    /// As the header of an index has it.
    pub fn number(self) -> u8 {
        let first = match self {
            Self::Zip => return 1,
            Self::Iso => return ISO,
            Self::SevenZip => return SEVEN_ZIP,
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
                        .ok_or_else(|| broken("kind"))?,
                ),
            };
            return Ok(Self::Package(package, format));
        }
        let serial = match header.kind & 0xf0 {
            0 => Serial::Tar,
            CPIO => Serial::Cpio,
            AR => Serial::Ar,
            ISO if header.kind == ISO => return Ok(Self::Iso),
            SEVEN_ZIP if header.kind == SEVEN_ZIP => return Ok(Self::SevenZip),
            _ => return Err(broken("kind")),
        };
        match header.kind & 0x0f {
            0 => Ok(Self::Serial(serial, None)),
            1 if serial == Serial::Tar => Ok(Self::Zip),
            1 => Err(broken("kind")),
            number => Format::from_number(number - 2)
                .map(|format| Self::Serial(serial, Some(format)))
                .ok_or_else(|| broken("kind")),
        }
    }

    /// Whether `raw` is this, what is inside a compressed one left open.
    pub fn is(self, raw: &dyn Bytes) -> Result<bool> {
        let mut head = [0; tar::BLOCK];
        let length = raw.read_at(0, &mut head)?;
        let head = &head[..length];
        Ok(match self {
            Self::Zip => zip::detect(raw)?,
            Self::Iso => iso::detect(raw)?,
            Self::SevenZip => head.starts_with(sevenz::MAGIC),
            Self::Package(package, _) => Package::detect(head) == Some(package),
            Self::Serial(serial, None) => Serial::detect(head)? == Some(serial),
            Self::Serial(_, format) => codec::detect(head) == format,
        })
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Iso => "iso9660",
            Self::SevenZip => "7z",
            Self::Package(package, _) => package.name(),
            Self::Serial(serial, format) => serial.name(format),
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
    if head.starts_with(sevenz::MAGIC) {
        return Ok(Kind::SevenZip);
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
        (&b"Rar!\x1a\x07"[..], "a RAR archive"),
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
            "not an archive: neither tar, cpio nor ar (plain, gzip, zstd, xz, bzip2, lzip, lzma or \
             compress), nor zip, 7z, deb, rpm or ISO 9660",
        ),
    })
}
