//! ISO 9660 images (ECMA-119), with Rock Ridge (RRIP 1.12, SUSP 1.12) or Joliet names, by the
//! kernel's rules: Rock Ridge before Joliet before plain names, which are shown in lower case and
//! without their versions.

pub(super) mod record;
mod rockridge;

use super::bytes::{Bytes, u16_at, u32_at};
use super::format::{NodeRecord, Storage};
use super::tree::Tree;
use alloc::{collections::BTreeMap, collections::BTreeSet, format, string::String, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result};
use record::Record;
use rockridge::Unix;

/// Where volume descriptors begin, and how long each is.
const DESCRIPTORS: u64 = 16 * SECTOR;
const SECTOR: u64 = 2048;
/// Most volume descriptors that are looked at.
const DESCRIPTORS_MOST: u64 = 64;
/// Largest directory that is read, bytes.
const DIRECTORY_MOST: u64 = 256 << 20;
/// Deepest directory that is looked into.
const DEEPEST: usize = 1024;
/// Longest name and path, bytes (`NAME_MAX`, `PATH_MAX`): what is longer nobody could open.
const NAME_MOST: usize = 255;
const PATH_MOST: usize = 4096;
/// Where a descriptor has the record of the root.
const ROOT: usize = 156;

/// Whether `raw` has a volume descriptor of ISO 9660.
pub fn detect(raw: &dyn Bytes) -> Result<bool> {
    let mut head = [0; 6];
    let there = raw.read_at(DESCRIPTORS, &mut head)?;
    Ok(there == head.len() && head[1..] == *b"CD001")
}

/// How names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// Rock Ridge; this many bytes of each system use area are others'.
    Rock(usize),
    Joliet,
    Plain,
}

/// A directory that is to be read.
struct Directory {
    path: Vec<u8>,
    place: u64,
    length: u64,
    depth: usize,
}

/// An image that is read.
struct Volume<'a> {
    raw: &'a dyn Bytes,
    /// Bytes of a logical block.
    block: u64,
    names: Names,
    /// By place, size and serial number (0: there is none), the first name of each regular file of
    /// several links.
    linked: BTreeMap<(u64, u64, u32), Vec<u8>>,
}

fn damaged(what: &'static str) -> Error {
    Error::because(Errno::EIO, format!("the ISO 9660 image is damaged: {what}"))
}

/// Puts the files of `raw` into `tree`.
pub fn scan(raw: &dyn Bytes, tree: &mut Tree, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let (mut primary, mut joliet) = (None, None);
    for number in 0..DESCRIPTORS_MOST {
        let mut sector = [0; SECTOR as usize];
        raw.read_exact_at(DESCRIPTORS + number * SECTOR, &mut sector)?;
        if sector[1..6] != *b"CD001" {
            return Err(damaged("the descriptors have no end"));
        }
        match sector[0] {
            1 if primary.is_none() => primary = Some(sector),
            // UCS-2, levels 1 to 3.
            2 if matches!(sector[88..91], [b'%', b'/', b'@' | b'C' | b'E']) => {
                joliet = Some(sector);
            }
            255 => break,
            _ => {}
        }
    }
    let primary = primary.ok_or_else(|| damaged("there is no primary descriptor"))?;
    let mut volume = Volume::new(raw, &primary)?;
    let mut root = Record::parse(&primary[ROOT..]).ok_or_else(|| damaged("the root"))?;
    volume.names = volume.kind(&root)?;
    if volume.names == Names::Plain
        && let Some(joliet) = &joliet
    {
        volume = Volume::new(raw, joliet)?;
        volume.names = Names::Joliet;
        root = Record::parse(&joliet[ROOT..]).ok_or_else(|| damaged("the Joliet root"))?;
    }
    let mut seen = BTreeSet::new();
    let mut left = vec![Directory {
        path: Vec::new(),
        place: volume.place(&root),
        length: root.size,
        depth: 0,
    }];
    // In an honest image each byte belongs to one directory.
    let mut unread = raw.len();
    while let Some(directory) = left.pop() {
        if !seen.insert(directory.place) {
            tree.warnings.add(
                &directory.path,
                "not shown a second time: a directory in a circle",
            );
            continue;
        }
        unread = unread
            .checked_sub(directory.length.min(raw.len()))
            .ok_or_else(|| damaged("its directories overlap"))?;
        progress(directory.place);
        volume.directory(&directory, tree, &mut left)?;
    }
    Ok(())
}

impl<'a> Volume<'a> {
    fn new(raw: &'a dyn Bytes, descriptor: &[u8]) -> Result<Self> {
        let block = u64::from(u16_at(descriptor, 128));
        if !matches!(block, 512 | 1024 | 2048) {
            return Err(damaged("its blocks have no size"));
        }
        Ok(Self {
            raw,
            block,
            names: Names::Plain,
            linked: BTreeMap::new(),
        })
    }

    /// Where the data of `record` begin.
    fn place(&self, record: &Record<'_>) -> u64 {
        (u64::from(record.block) + u64::from(record.attributes)) * self.block
    }

    /// Whether the root's own record says that there is Rock Ridge.
    fn kind(&self, root: &Record<'_>) -> Result<Names> {
        let mut bytes = vec![0; SECTOR as usize];
        let place = self.place(root);
        let there = self.raw.read_at(place, &mut bytes)?;
        let Some(own) = Record::parse(&bytes[..there]) else {
            return Err(damaged("the root directory"));
        };
        let Some(skip) = rockridge::skip(own.system_use) else {
            return Ok(Names::Plain);
        };
        // SUSP alone says nothing of names.
        let unix = Unix::parse(
            self.raw,
            self.block,
            own.system_use.get(skip..).unwrap_or(&[]),
        )?;
        Ok(match unix.mode {
            Some(_) => Names::Rock(skip),
            None => Names::Plain,
        })
    }

    fn directory(
        &mut self,
        directory: &Directory,
        tree: &mut Tree,
        left: &mut Vec<Directory>,
    ) -> Result<()> {
        let path = &directory.path;
        let there = self.raw.len().saturating_sub(directory.place);
        if directory.length > there || directory.length > DIRECTORY_MOST {
            tree.warnings
                .add(path, "not shown: this directory is not all there");
            return Ok(());
        }
        let mut bytes = vec![0; directory.length as usize];
        self.raw.read_exact_at(directory.place, &mut bytes)?;
        // The parts of a file so far: where they begin, and how many bytes they have.
        let mut parts: Option<(u64, u64)> = None;
        // A part of a file was left out: so are those that follow.
        let mut left_out = false;
        let mut at = 0;
        while at < bytes.len() {
            let Some(record) = Record::parse(&bytes[at..]) else {
                // Records do not go over the end of a sector.
                if bytes[at] != 0 {
                    tree.warnings
                        .add(path, "a part is not shown: a record is damaged");
                }
                at = (at / SECTOR as usize + 1) * SECTOR as usize;
                continue;
            };
            at += record.length;
            if record.is_own_or_parent() {
                if record.name == [0] {
                    self.describe(directory, &record, tree)?;
                }
                continue;
            }
            if left_out {
                left_out = record.goes_on();
                continue;
            }
            if record.is_associated() || record.is_interleaved() {
                left_out = record.goes_on();
                parts = None;
                let name = self.name(&record, &Unix::default());
                tree.warnings.add(
                    &joined(path, &name),
                    "left out: an associated or interleaved file",
                );
                continue;
            }
            let (place, size) = (self.place(&record), record.size);
            let (start, before) = parts.take().unwrap_or((place, 0));
            if start.checked_add(before) != Some(place) {
                left_out = record.goes_on();
                let name = self.name(&record, &Unix::default());
                tree.warnings
                    .add(&joined(path, &name), "left out: its parts lie apart");
                continue;
            }
            let size = before.saturating_add(size);
            match record.goes_on() {
                true => parts = Some((start, size)),
                false => self.entry(directory, &record, (start, size), tree, left)?,
            }
        }
        Ok(())
    }

    /// The attributes of `directory`, from its record of itself.
    fn describe(&self, directory: &Directory, own: &Record<'_>, tree: &mut Tree) -> Result<()> {
        let unix = self.unix(own)?;
        let record = self.node(own, &unix, FileKind::Directory);
        tree.add(&directory.path, record, b"")
    }

    fn unix(&self, record: &Record<'_>) -> Result<Unix> {
        match self.names {
            Names::Rock(skip) => {
                let area = record.system_use.get(skip..).unwrap_or(&[]);
                Unix::parse(self.raw, self.block, area)
            }
            _ => Ok(Unix::default()),
        }
    }

    /// What is told of `record`, a file of `kind`; without Rock Ridge everybody may read and
    /// execute, as in the kernel.
    fn node(&self, record: &Record<'_>, unix: &Unix, kind: FileKind) -> NodeRecord {
        let permissions = unix.mode.unwrap_or(0o555) & 0o7777;
        let mtime = unix.modified.unwrap_or(record.time());
        let mut node = NodeRecord::new(kind as u32 | permissions, mtime);
        if let Some((uid, gid)) = unix.owner {
            (node.uid, node.gid) = (uid, gid);
        }
        node
    }

    fn name(&self, record: &Record<'_>, unix: &Unix) -> Vec<u8> {
        match self.names {
            Names::Rock(_) if !unix.name.is_empty() => unix.name.clone(),
            Names::Joliet => {
                let units = record
                    .name
                    .chunks_exact(2)
                    .map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
                let text: String = char::decode_utf16(units)
                    .map(|sign| sign.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect();
                without_version(text.as_bytes()).to_vec()
            }
            _ => {
                let name = without_version(record.name);
                let name = name.strip_suffix(b".").unwrap_or(name);
                name.to_ascii_lowercase()
            }
        }
    }

    fn entry(
        &mut self,
        directory: &Directory,
        record: &Record<'_>,
        (place, size): (u64, u64),
        tree: &mut Tree,
        left: &mut Vec<Directory>,
    ) -> Result<()> {
        let unix = self.unix(record)?;
        if unix.relocated {
            // It is shown where it belongs, by the record that leads here.
            return Ok(());
        }
        let name = self.name(record, &unix);
        let path = joined(&directory.path, &name);
        if name.len() > NAME_MOST || path.len() > PATH_MOST {
            let shown = &path[..path.len().min(PATH_MOST)];
            tree.warnings.add(shown, "left out: its name is too long");
            return Ok(());
        }
        if matches!(&name[..], b"" | b"." | b"..") || name.contains(&b'/') {
            tree.warnings.add(&path, "left out: its name is none");
            return Ok(());
        }
        if let Some(block) = unix.child {
            let place = u64::from(block) * self.block;
            let mut head = [0; 256];
            let there = self.raw.read_at(place, &mut head)?;
            match Record::parse(&head[..there]) {
                Some(own) => self.below(directory, path, (place, own.size), tree, left)?,
                None => tree
                    .warnings
                    .add(&path, "left out: it was moved, and is not there"),
            }
            return Ok(());
        }
        let of_mode = unix
            .mode
            .and_then(|mode| FileKind::of_mode(mode & 0o170000));
        if record.is_directory() {
            return self.below(directory, path, (place, size), tree, left);
        }
        let kind = match of_mode {
            Some(FileKind::Directory) | None => FileKind::Regular,
            Some(kind) => kind,
        };
        let mut node = self.node(record, &unix, kind);
        match kind {
            FileKind::Symlink => tree.add(&path, node, &unix.target),
            FileKind::Regular if unix.compressed => {
                tree.warnings
                    .add(&path, "left out: it is compressed (zisofs)");
                Ok(())
            }
            FileKind::Regular => {
                (node.size, node.place, node.storage) = (size, place, Storage::Plain);
                if size > 0 && place.saturating_add(size) > self.raw.len() {
                    tree.warnings.add(&path, "its data are not all there");
                }
                if unix.links > 1 && size > 0 {
                    if let Some(first) = self.linked.get(&(place, size, unix.serial)) {
                        return tree.link(&path, first);
                    }
                    self.linked.insert((place, size, unix.serial), path.clone());
                }
                tree.add(&path, node, b"")
            }
            _ => {
                node.place = unix.device;
                tree.add(&path, node, b"")
            }
        }
    }

    /// A directory in `parent`.
    fn below(
        &self,
        parent: &Directory,
        path: Vec<u8>,
        (place, length): (u64, u64),
        tree: &mut Tree,
        left: &mut Vec<Directory>,
    ) -> Result<()> {
        if parent.depth >= DEEPEST {
            tree.warnings.add(&path, "left out: it lies too deep");
            return Ok(());
        }
        left.push(Directory {
            path,
            place,
            length,
            depth: parent.depth + 1,
        });
        Ok(())
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => name.to_vec(),
        false => [path, b"/", name].concat(),
    }
}

fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b';') {
        Some(at) if name[at + 1..].iter().all(u8::is_ascii_digit) => &name[..at],
        _ => name,
    }
}

/// A number that is there in both byte orders: the little-endian one.
fn both(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 8).map(|bytes| u32_at(bytes, 0))
}
