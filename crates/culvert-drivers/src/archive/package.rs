//! Packages: archives with something around them.
//!
//! - Debian's (deb(5)): an ar archive of `control.tar` and `data.tar`, each perhaps compressed. The
//!   data are shown, and the control files in `DEBIAN`, as `dpkg-deb -R` unpacks them.
//! - RPM's ("Package File Format", version 3 and 4): a lead, two headers, and a cpio archive,
//!   perhaps compressed. The headers are passed over: scripts and dependencies are not shown.

use super::ar;
use super::bytes::{Bytes, Part};
use super::codec;
use super::format::{EntryRecord, Header, Identity, NodeRecord, SECTIONS, Storage};
use super::index::{Image, Index};
use super::serial::Serial;
use super::tree::Tree;
use alloc::{format, sync::Arc, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result, Timespec};

/// What a Debian package begins with.
const DEB: &[u8] = b"!<arch>\ndebian-binary";
/// Most members that are looked at.
const MEMBERS: usize = 64;
/// Most bytes of control files: they lie in the index.
const CONTROL: u64 = 32 << 20;
/// Where they are shown.
const SHOWN: &[u8] = b"DEBIAN";

/// What an RPM package begins with: its lead.
const RPM: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
const LEAD: u64 = 96;
/// What its headers begin with; an entry of one, bytes.
const HEADER: [u8; 4] = [0x8e, 0xad, 0xe8, 1];
const ENTRY: u64 = 16;

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Package {
    Deb,
    Rpm,
}

fn damaged(what: &'static str) -> Error {
    Error::because(Errno::EIO, what)
}

impl Package {
    /// What a file is that begins with `head`.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            _ if head.starts_with(DEB) => Some(Self::Deb),
            _ if head.starts_with(&RPM) => Some(Self::Rpm),
            _ => None,
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
        }
    }

    /// What the payload is.
    pub const fn holds(self) -> Serial {
        match self {
            Self::Deb => Serial::Tar,
            Self::Rpm => Serial::Cpio,
        }
    }

    /// The payload of the package `raw`.
    pub fn payload(self, raw: &Arc<dyn Bytes>) -> Result<Part> {
        match self {
            Self::Deb => member(raw, b"data.tar")?
                .ok_or_else(|| damaged("the deb package is truncated: it has no data.tar")),
            Self::Rpm => {
                // The first header is padded.
                let signature = header_end(&**raw, LEAD)?;
                let start = header_end(&**raw, signature.next_multiple_of(8))?;
                Part::new(raw.clone(), start, raw.len().saturating_sub(start))
            }
        }
    }

    /// Adds to `tree` what the package says of itself.
    pub fn describe(self, raw: &Arc<dyn Bytes>, tree: &mut Tree, tolerant: bool) -> Result<()> {
        match self {
            Self::Deb => control(raw, tree, tolerant),
            Self::Rpm => Ok(()),
        }
    }
}

/// The member of a Debian package whose name is `name`, or begins so and has an ending.
fn member(raw: &Arc<dyn Bytes>, name: &[u8]) -> Result<Option<Part>> {
    let mut at = ar::FIRST;
    for _ in 0..MEMBERS {
        let mut header = [0; ar::HEADER];
        if raw.read_at(at, &mut header)? < header.len() {
            return Ok(None);
        }
        let (found, size) = ar::member(&header)
            .ok_or_else(|| damaged("the deb package is damaged: a member has no header"))?;
        let start = at + ar::HEADER as u64;
        let rest = found.strip_prefix(name);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b".")) {
            return Part::new(raw.clone(), start, size).map(Some);
        }
        at = start
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(2))
            .ok_or_else(|| damaged("the deb package is damaged: a member is too long"))?;
    }
    Ok(None)
}

/// Where the header of an RPM package that begins at `at` ends.
fn header_end(raw: &dyn Bytes, at: u64) -> Result<u64> {
    let mut intro = [0; 16];
    raw.read_exact_at(at, &mut intro)?;
    let [a, b, c, d, _, _, _, _, n @ .., w, x, y, z] = intro;
    if [a, b, c, d] != HEADER {
        return Err(damaged("the rpm package is damaged: there is no header"));
    }
    let (entries, bytes) = (u32::from_be_bytes(n), u32::from_be_bytes([w, x, y, z]));
    Ok(at + intro.len() as u64 + u64::from(entries) * ENTRY + u64::from(bytes))
}

/// Adds the control files of a Debian package. They lie in an archive of their own, so their bytes
/// go into the index.
fn control(raw: &Arc<dyn Bytes>, tree: &mut Tree, tolerant: bool) -> Result<()> {
    let Some(part) = member(raw, b"control.tar")? else {
        return tree.damaged("the deb package has no control.tar".into(), tolerant);
    };
    let mut bytes = Vec::new();
    let mut take = |piece: &[u8]| {
        if bytes.len() as u64 + piece.len() as u64 > CONTROL {
            return Err(Error::because(
                Errno::EFBIG,
                format!("the control files of the deb package are larger than {CONTROL} bytes"),
            ));
        }
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let mut head = [0; 16];
    let length = part.read_at(0, &mut head)?;
    if let Some(format) = codec::detect(&head[..length]) {
        let options = codec::Options { spool: 0 };
        codec::build(format, &part, &options, &mut take, &mut |_| {})?;
    } else {
        let mut piece = vec![0; 64 << 10];
        let mut at = 0;
        while at < part.len() {
            match part.read_at(at, &mut piece)? {
                0 => break,
                count => {
                    take(&piece[..count])?;
                    at += count as u64;
                }
            }
        }
    }
    let mut inner = Tree::new(Timespec::default(), 1);
    Serial::Tar.scan(&bytes, &mut inner, tolerant)?;
    for warning in core::mem::take(&mut inner.warnings).first {
        tree.warnings.add(&warning.member, warning.text);
    }
    let header = Header {
        length: 0,
        body: 0,
        archive: Identity {
            size: 0,
            mtime: Timespec::default(),
            content: 0,
        },
        kind: 0,
        damaged: tolerant,
        plain: 0,
        content: 0,
        seed: 1,
        sections: [(0, 0); SECTIONS],
    };
    let parts = inner.seal(header, Vec::new());
    graft(&Index::new(Image::Memory(parts.join()))?, &bytes, tree)
}

/// Adds all of the tree of `index`, an archive of `bytes`, to `tree`, below [`SHOWN`].
fn graft(index: &Index, bytes: &[u8], tree: &mut Tree) -> Result<()> {
    let mut left = vec![(SHOWN.to_vec(), index.node(0)?)];
    while let Some((path, record)) = left.pop() {
        let kind = FileKind::of_mode(record.mode);
        let mut copy = NodeRecord {
            uid: record.uid,
            gid: record.gid,
            ..NodeRecord::new(record.mode, record.mtime)
        };
        let mut target: &[u8] = b"";
        match kind {
            Some(FileKind::Directory) => {
                for number in record.place..record.place.saturating_add(record.extent) {
                    let entry: EntryRecord = index.entry(number)?;
                    let path = [&path[..], b"/", index.name(&entry)?].concat();
                    left.push((path, index.node(entry.node.into())?));
                }
            }
            Some(FileKind::Symlink) => target = index.names(record.place, record.size)?,
            Some(FileKind::Regular) if record.storage == Storage::Plain => {
                let end = record.place.checked_add(record.size);
                let content = end.and_then(|end| bytes.get(record.place as usize..end as usize));
                let Some(content) = content else {
                    return Err(damaged(
                        "the control files of the deb package are truncated",
                    ));
                };
                copy.place = tree.keep_content(content)?;
                (copy.size, copy.storage) = (record.size, Storage::Indexed);
            }
            _ => {
                tree.warnings
                    .add(&path, "left out: no control file is of this kind");
                continue;
            }
        }
        tree.add(&path, copy, target)?;
    }
    Ok(())
}
