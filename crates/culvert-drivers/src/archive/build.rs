//! Making an index: find out what the file is, go through it once, seal the tree.

use super::bytes::{Bytes, FileBytes};
use super::codec::{self, Checkpoints, Format};
use super::format::{Header, Identity, NodeRecord, Parts, SECTIONS};
use super::kind::{Kind, detect};
use super::package::Package;
use super::scan::{self, Feeder, Scan};
use super::serial::Serial;
use super::tree::Tree;
use super::{hash, host, iso, sevenz, tar, zip};
use alloc::{boxed::Box, format as text, sync::Arc, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// How far the making of an index is: bytes of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes gone through.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Bytes hashed at head and tail, and number and size of the samples in between.
const ENDS: u64 = 64 << 10;
const SAMPLES: u64 = 16;
const SAMPLE: u64 = 4 << 10;

/// What tells `archive` from others: size, time of the last change, and a hash over 64 KiB of head
/// and tail and 16 samples of 4 KiB evenly spread in between. Not over everything: that would cost
/// as much as making the index.
pub fn identify(archive: &FileBytes) -> Result<Identity> {
    identify_bytes(archive, archive.status()?.mtime)
}

/// As [`identify`], of bytes that were changed last at `mtime`.
pub fn identify_bytes(archive: &dyn Bytes, mtime: Timespec) -> Result<Identity> {
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
        mtime,
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
    let kind = detect(&*raw)?;
    build_as(raw, identity, kind, (tolerant, u64::MAX), progress)
}

/// The name of the file in the index of [`build_alone`].
pub const ALONE: &[u8] = b"data";

/// The index of a file that is compressed by itself: as of an archive with one file, [`ALONE`].
/// `EFBIG` where it has more than `most` plain bytes.
pub fn build_alone(
    raw: &dyn Bytes,
    identity: Identity,
    format: Format,
    most: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Parts> {
    let total = raw.len();
    let mut count = 0;
    let checkpoints = codec::build(
        format,
        raw,
        &codec::Options::default(),
        &mut |bytes| counted(&mut count, bytes, most),
        &mut |done| progress(Progress { done, total }),
    )?;
    let seed = host::random();
    let mut tree = Tree::new(identity.mtime, seed);
    let mode = FileKind::Regular as u32 | 0o444;
    let record = NodeRecord {
        size: checkpoints.plain_len(),
        ..NodeRecord::new(mode, identity.mtime)
    };
    tree.add(ALONE, record, b"")?;
    let header = Header {
        length: 0,
        body: 0,
        archive: identity,
        kind: Kind::Serial(Serial::Tar, Some(format)).number(),
        damaged: false,
        plain: checkpoints.plain_len(),
        content: 0,
        seed,
        sections: [(0, 0); SECTIONS],
    };
    Ok(tree.seal(header, checkpoints.encode()))
}

/// Counts plain bytes: `EFBIG` where there are more than `most`.
fn counted(count: &mut u64, bytes: &[u8], most: u64) -> Result<()> {
    *count += bytes.len() as u64;
    match *count <= most {
        true => Ok(()),
        false => Err(Error::because(
            Errno::EFBIG,
            text!("there are more than {most} bytes in it: is it a bomb?"),
        )),
    }
}

/// As [`build_from`], of what is a `kind`. `EFBIG` where more than `most` bytes would have to be
/// decompressed.
pub fn build_as(
    raw: Arc<dyn Bytes>,
    identity: Identity,
    mut kind: Kind,
    (tolerant, most): (bool, u64),
    progress: &mut dyn FnMut(Progress),
) -> Result<Parts> {
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
        Kind::SevenZip => Some(sevenz::scan(&*raw, &mut tree, most, &mut progress)?),
        Kind::Serial(serial, None) => {
            let mut scanner = serial.scanner(&mut tree, tolerant);
            scan::scan(&*raw, &mut *scanner, &mut progress)?;
            None
        }
        Kind::Package(package, _) => {
            let (format, checkpoints) =
                packaged(package, &raw, &mut tree, (tolerant, most), &mut progress)?;
            kind = Kind::Package(package, format);
            checkpoints
        }
        Kind::Serial(_, Some(format)) => {
            let (serial, checkpoints) =
                compressed(&*raw, format, &mut tree, (tolerant, most), &mut progress)?;
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
    (tolerant, most): (bool, u64),
    progress: &mut dyn FnMut(u64),
) -> Result<(Option<Format>, Option<Checkpoints>)> {
    package.describe(raw, tree, tolerant)?;
    let payload = package.payload(raw)?;
    let wanted = package.holds();
    let mut head = [0; tar::BLOCK];
    let length = payload.read_at(0, &mut head)?;
    let (found, format, checkpoints) = match codec::detect(&head[..length]) {
        Some(format) => {
            let (serial, table) = compressed(&payload, format, tree, (tolerant, most), progress)?;
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
    (tolerant, most): (bool, u64),
    progress: &mut dyn FnMut(u64),
) -> Result<(Serial, Checkpoints)> {
    let mut count = 0;
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
        &mut |bytes| {
            counted(&mut count, bytes, most)?;
            match &mut found {
                Some((_, scanner, feeder)) => feeder.feed(&mut **scanner, bytes),
                None => {
                    head.extend_from_slice(bytes);
                    if head.len() >= tar::BLOCK {
                        found = Some(begin(&core::mem::take(&mut head))?);
                    }
                    Ok(())
                }
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
