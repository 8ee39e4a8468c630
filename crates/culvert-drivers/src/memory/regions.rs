//! Where the bytes of a file lie: for programs that hand them to devices (RDMA), or that look at
//! them after the run.
//!
//! Programs ask by two requests of ioctl(2), which `culvert_memory.h` has as C functions; the
//! command asks by [`list_regions`].

use super::{
    core::{Core, Inode, split},
    layout::{BLOCK, UNWRITTEN, header, inode},
    map::{block_of, reach},
    prepare,
};
use crate::archive::host::{status, terminated};
use alloc::{format, vec::Vec};
use culvert::{Errno, FileSystem, Result};
use culvert_sys::fd::{AsFd, CWD};
use culvert_sys::{fs, own_descriptors};

/// `CULVERT_REGIONS`: `_IOWR('C', 0x80, struct culvert_regions)`.
const REGIONS: u32 = 0xca10_4380;
/// `CULVERT_REGION_FILE`: `_IOWR('C', 0x81, struct culvert_region_file)`.
const REGION_FILE: u32 = 0xd008_4381;
/// Regions of one answer.
const MOST: usize = 64;
/// Bytes of a region in it, and of what stands before the first.
const REGION: usize = 40;
const HEAD: usize = 16;

/// In which file bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// The shared file.
    Memory = 0,
    /// That to which it spills.
    Spill = 1,
    /// One of its own: the file is or was mapped.
    Own = 2,
}

/// Bytes of a file that lie behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where they begin in the file.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// Their address in this process; 0 where they are not mapped, or this is no program's.
    pub address: u64,
    /// In which file they lie.
    pub file: Files,
    /// Where in that.
    pub at: u64,
}

impl Core {
    /// Calls `each` with the regions from byte `start` on, as long as it wants more. Holes have
    /// none. The content is locked.
    pub fn regions(
        &self,
        of: &Inode<'_>,
        start: u64,
        each: &mut dyn FnMut(Region) -> bool,
    ) -> Result<()> {
        let size = of.get(inode::SIZE);
        if start >= size {
            return Ok(());
        }
        // A server's addresses are of no use to anybody.
        let address = |at: usize| match self.keeper.adopt {
            Some(_) => at as u64,
            None => 0,
        };
        if of.is_external() {
            each(Region {
                offset: start,
                length: size - start,
                address: 0,
                file: Files::Own,
                at: start,
            });
            return Ok(());
        }
        if of.is_inline() {
            let bytes = of.inline();
            let length = size.min(bytes.len() as u64).saturating_sub(start);
            let hole = of.get(inode::INTENT) != inode::WRITTEN && bytes.shared().is_zero();
            if length > 0 && !hole {
                let offset = of.at(inode::INLINE_AT) + start;
                let at = self.image.stretch(offset / BLOCK, 1);
                each(Region {
                    offset: start,
                    length,
                    address: address(bytes.start() as usize + start as usize),
                    file: if at.spilled {
                        Files::Spill
                    } else {
                        Files::Memory
                    },
                    at: at.offset + offset % BLOCK,
                });
            }
            return Ok(());
        }
        let root = of.get(inode::ROOT);
        let end = size.div_ceil(BLOCK).min(reach(split(root).1));
        let mut index = self.next_mapped(root, start / BLOCK, end)?;
        while index < end {
            let first = self.pointer(root, index)?;
            let mut blocks = 1;
            while index + blocks < end
                && self.pointer(root, index + blocks)? == first + blocks as u32
            {
                blocks += 1;
            }
            let span = self.image.span(block_of(first), blocks)?;
            blocks = span.len() as u64 / BLOCK;
            if first & UNWRITTEN == 0 {
                let from = (index * BLOCK).max(start);
                let within = from - index * BLOCK;
                let at = self.image.stretch(block_of(first), blocks);
                let region = Region {
                    offset: from,
                    length: ((index + blocks) * BLOCK).min(size) - from,
                    address: address(span.start() as usize + within as usize),
                    file: if at.spilled {
                        Files::Spill
                    } else {
                        Files::Memory
                    },
                    at: at.offset + within,
                };
                if !each(region) {
                    return Ok(());
                }
            }
            index = self.next_mapped(root, index + blocks, end)?;
        }
        Ok(())
    }

    /// The path of one of the files that bytes of `of` lie in.
    fn region_path(&self, of: &Inode<'_>, file: Files) -> Result<Vec<u8>> {
        let path = |fd: i32| {
            let link = format!("{}{fd}", own_descriptors::directory());
            fs::read_link(CWD, &terminated(link.as_bytes())?)
        };
        Ok(match file {
            Files::Memory => path(self.image.fd().raw())?,
            Files::Spill => path(self.image.spill().ok_or(Errno::ENOENT)?.raw())?,
            Files::Own if of.is_external() => {
                let file = self.open_external(of, culvert_sys::raw::general::O_RDONLY)?;
                path(file.as_fd().raw())?
            }
            Files::Own => return Err(Errno::ENOENT.into()),
        })
    }

    /// Answers the two requests of ioctl(2); the content is locked.
    pub fn ask_regions(&self, of: &Inode<'_>, request: u32, answer: &mut [u8]) -> Result<usize> {
        match request {
            REGIONS => {
                let start = answer.first_chunk().ok_or(Errno::EINVAL)?;
                let start = u64::from_le_bytes(*start);
                let room = answer
                    .get_mut(..HEAD + MOST * REGION)
                    .ok_or(Errno::EINVAL)?;
                let (head, room) = room.split_at_mut(HEAD);
                let (mut count, mut next) = (0, of.get(inode::SIZE));
                self.regions(of, start, &mut |region| {
                    let Some(place) = room.get_mut(count * REGION..(count + 1) * REGION) else {
                        next = region.offset;
                        return false;
                    };
                    let file = region.file as u64;
                    let words = [
                        region.offset,
                        region.length,
                        region.address,
                        region.at,
                        file,
                    ];
                    for (place, word) in place.chunks_exact_mut(8).zip(words) {
                        place.copy_from_slice(&word.to_le_bytes());
                    }
                    count += 1;
                    true
                })?;
                head[..8].copy_from_slice(&next.to_le_bytes());
                head[8..].copy_from_slice(&(count as u64).to_le_bytes());
                Ok(0)
            }
            REGION_FILE => {
                let (head, room) = answer.split_at_mut_checked(8).ok_or(Errno::EINVAL)?;
                let file = match head {
                    [0, 0, 0, 0, ..] => Files::Memory,
                    [1, 0, 0, 0, ..] => Files::Spill,
                    [2, 0, 0, 0, ..] => Files::Own,
                    _ => return Err(Errno::EINVAL.into()),
                };
                let path = self.region_path(of, file)?;
                let length = path.len() as u32;
                // With a NUL behind it.
                let place = room.get_mut(..=path.len()).ok_or(Errno::ENAMETOOLONG)?;
                place[..path.len()].copy_from_slice(&path);
                place[path.len()] = 0;
                head[4..].copy_from_slice(&length.to_le_bytes());
                Ok(0)
            }
            _ => Err(Errno::ENOTTY.into()),
        }
    }
}

/// What [`list_regions`] finds.
#[derive(Debug)]
pub struct Listed {
    /// The regions, each with the path of its file.
    pub regions: Vec<(Region, Vec<u8>)>,
    /// Bytes of the shared file, and of that to which it spills.
    pub sizes: [u64; 2],
    /// Their paths.
    pub paths: [Option<Vec<u8>>; 2],
    /// Bytes in use, and the limit.
    pub used: [u64; 2],
}

/// Where the bytes of the file at `path` lie in the file system of the shared file `image`; no
/// path: only what the file system consists of.
pub fn list_regions(image: &[u8], path: Option<&[u8]>) -> Result<Listed> {
    let core = prepare::joined(image)?;
    let root = core.inode(super::layout::ROOT)?;
    let mut listed = Listed {
        regions: Vec::new(),
        sizes: [status(core.image.fd())?.size, 0],
        paths: [Some(core.region_path(&root, Files::Memory)?), None],
        used: [core.used_blocks()?, core.header(header::LIMIT)?].map(|blocks| blocks * BLOCK),
    };
    if let Some(spill) = core.image.spill() {
        listed.sizes[1] = status(spill)?.size;
        listed.paths[1] = Some(core.region_path(&root, Files::Spill)?);
    }
    let Some(path) = path else { return Ok(listed) };
    let fs = prepare::read_only(core);
    let mut node = fs.root();
    let names = path.split(|&byte| byte == b'/');
    for name in names.filter(|name| !matches!(*name, b"" | b".")) {
        node = fs
            .lookup(&culvert::Caller::SYSTEM, node, name)?
            .attributes
            .node;
    }
    let core = &fs.core;
    let of = core.node(node)?;
    if of.mode() & 0o170000 != 0o100000 {
        return Err(match of.is_directory() {
            true => Errno::EISDIR,
            false => Errno::EINVAL,
        }
        .into());
    }
    let _held = core.lock_shared(&of, &|| false)?;
    let mut regions = Vec::new();
    core.regions(&of, 0, &mut |region| {
        regions.push(region);
        true
    })?;
    for region in regions {
        let path = core.region_path(&of, region.file)?;
        listed.regions.push((region, path));
    }
    Ok(listed)
}
