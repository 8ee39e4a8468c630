//! Making an index: find out what the file is, go through it once, seal the tree.

use crate::archive::bytes::{Bytes, FileBytes};
use crate::archive::codec::{self, Checkpoints, Format};
use crate::archive::format::{Header, Identity, Parts, SECTIONS};
use crate::archive::tree::Tree;
use crate::archive::{hash, host, tar, zip};
use alloc::{format as text, sync::Arc, vec, vec::Vec};
use culvert::{Errno, Error, Result};

/// How far the making of an index is: bytes of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes gone through.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What an archive turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tar archive, perhaps compressed.
    Tar(Option<Format>),
    /// A zip archive.
    Zip,
}

impl Kind {
    /// As the header of an index has it.
    fn number(self) -> u8 {
        match self {
            Self::Tar(None) => 0,
            Self::Zip => 1,
            Self::Tar(Some(format)) => format as u8 + 2,
        }
    }

    /// From the header of an index; `EIO` when it makes no sense.
    pub fn of(header: &Header) -> Result<Self> {
        match header.kind {
            0 => Ok(Self::Tar(None)),
            1 => Ok(Self::Zip),
            number => Format::from_number(number - 2)
                .map(|format| Self::Tar(Some(format)))
                .ok_or_else(|| super::broken("kind")),
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Tar(None) => "tar",
            Self::Tar(Some(Format::Gzip)) => "tar, gzip",
            Self::Tar(Some(Format::Zstd)) => "tar, zstd",
            Self::Tar(Some(Format::Xz)) => "tar, xz",
            Self::Tar(Some(Format::Bzip2)) => "tar, bzip2",
        }
    }
}

/// What `raw` is, by its content. `EINVAL` when it is no archive that is known. A compressed file
/// is taken for a compressed tar until it is read.
pub fn detect(raw: &dyn Bytes) -> Result<Kind> {
    let mut head = [0; tar::BLOCK];
    let length = raw.read_at(0, &mut head)?;
    if let Some(format) = codec::detect(&head[..length]) {
        return Ok(Kind::Tar(Some(format)));
    }
    if length == tar::BLOCK && tar::detect(&head) {
        return Ok(Kind::Tar(None));
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
        (b"070701", "a cpio archive"),
        (b"!<arch>\n", "an ar archive"),
        (b"hsqs", "a squashfs image"),
        (b"\x04\x22\x4d\x18", "compressed with lz4"),
        (b"LZIP", "compressed with lzip"),
    ];
    let known = known.iter().find(|(magic, _)| head.starts_with(magic));
    Err(match (known, length) {
        (Some((_, name)), _) => {
            Error::because(Errno::EINVAL, text!("{name}, which is not supported"))
        }
        (None, 0) => Error::because(Errno::EINVAL, "an empty file, not an archive"),
        (None, _) => Error::because(
            Errno::EINVAL,
            "not an archive: neither tar (plain, gzip, zstd, xz or bzip2) nor zip",
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
    let kind = detect(&*raw)?;
    let total = raw.len();
    let mut progress = |done| progress(Progress { done, total });
    let seed = host::random();
    let mut tree = Tree::new(identity.mtime, seed);
    let checkpoints = match kind {
        Kind::Zip => {
            zip::scan(&raw, &mut tree, &mut progress)?;
            None
        }
        Kind::Tar(None) => {
            let mut scanner = tar::Scanner::new(&mut tree, tolerant);
            tar::scan(&*raw, &mut scanner, &mut progress)?;
            None
        }
        Kind::Tar(Some(format)) => Some(compressed(
            &*raw,
            format,
            &mut tree,
            tolerant,
            &mut progress,
        )?),
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

fn compressed(
    raw: &dyn Bytes,
    format: Format,
    tree: &mut Tree,
    tolerant: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut scanner = tar::Scanner::new(tree, tolerant);
    let mut feeder = tar::Feeder::default();
    let outcome = codec::build(
        format,
        raw,
        &codec::Options::default(),
        &mut |bytes| feeder.feed(&mut scanner, bytes),
        progress,
    );
    let name = format.name();
    let outcome = outcome.and_then(|checkpoints| scanner.end().map(|()| checkpoints));
    outcome.map_err(|error| match error.errno() {
        Errno::EINVAL => Error::because(
            Errno::EINVAL,
            text!("compressed with {name}, but there is no tar archive inside"),
        ),
        _ => error,
    })
}
