//! 7z archives (7zFormat.txt of the LZMA SDK).
//!
//! The plain bytes of all folders behind each other are one stream, in which the files lie one
//! after the other.

mod header;

use super::bytes::Bytes;
use super::codec::{self, Checkpoints, crc32};
use super::format::NodeRecord;
use super::tree::{TARGET_MAX, Tree};
use alloc::{vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result};

/// What an archive begins with.
pub const MAGIC: &[u8] = b"7z\xbc\xaf\x27\x1c";

/// A file as the header has it.
struct Member {
    name: Vec<u8>,
    record: NodeRecord,
    /// Of its bytes.
    crc: Option<u32>,
}

/// What is collected while the bytes go by.
struct Passing<'a> {
    members: &'a mut [Member],
    /// The one whose bytes come next, and how many of them have come.
    at: (usize, u64),
    crc: u32,
    targets: Vec<Vec<u8>>,
}

impl Passing<'_> {
    fn take(&mut self, mut piece: &[u8]) -> Result<()> {
        while let Some(member) = self.members.get(self.at.0) {
            let left = member.record.size - self.at.1;
            let (own, rest) = piece.split_at((piece.len() as u64).min(left) as usize);
            self.crc = crc32(self.crc, own);
            if is_link(member) && self.targets[self.at.0].len() <= TARGET_MAX {
                self.targets[self.at.0].extend_from_slice(own);
            }
            self.at.1 += own.len() as u64;
            if self.at.1 < member.record.size {
                return Ok(());
            }
            if member.crc.is_some_and(|stated| stated != self.crc) {
                return Err(Error::because(
                    Errno::EIO,
                    "the 7z archive is damaged: a checksum differs",
                ));
            }
            (self.at, self.crc, piece) = ((self.at.0 + 1, 0), 0, rest);
            if piece.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn is_link(member: &Member) -> bool {
    member.record.mode & 0o170000 == FileKind::Symlink as u32
}

/// Puts the files of `raw` into `tree`; `EFBIG` where they have more than `most` bytes.
pub fn scan(
    raw: &dyn Bytes,
    tree: &mut Tree,
    most: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let header = header::read(raw, most)?;
    let total = header.folders.iter().map(|folder| folder.plain);
    let total = total.fold(0, u64::saturating_add);
    if total > most {
        return Err(Error::because(
            Errno::EFBIG,
            alloc::format!("there are more than {most} bytes in it: is it a bomb?"),
        ));
    }
    let mut members = header::members(&header, tree)?;
    let mut passing = Passing {
        targets: vec![Vec::new(); members.len()],
        members: &mut members,
        at: (0, 0),
        crc: 0,
    };
    let options = codec::Options::default();
    let sink = &mut |piece: &[u8]| passing.take(piece);
    let checkpoints = codec::build_folders(raw, &header.folders, &options, sink, progress)?;
    let targets = passing.targets;
    for (member, target) in members.into_iter().zip(targets) {
        match is_link(&member) {
            true if target.is_empty() || target.len() > TARGET_MAX => {
                tree.warnings
                    .add(&member.name, "left out: its target makes no sense");
            }
            true => tree.add(&member.name, member.record, &target)?,
            false => tree.add(&member.name, member.record, b"")?,
        }
    }
    Ok(checkpoints)
}
