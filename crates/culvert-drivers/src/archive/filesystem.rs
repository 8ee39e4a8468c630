//! The file system over an index.

use super::bytes::Bytes;
use super::codec::{Checkpoints, Format, Stream};
use super::contents::{Archive, BLOCK_SIZE, NAME_MAX};
use super::file::ArchiveFile;
use super::format::{NONE, Section, Storage};
use super::index::Index;
use super::kind::Kind;
use super::options::Options;
use super::warning::printable;
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectoryEntry, DirectorySink, Entry, Errno, Error,
    FileKind, FileSystem, Node, OpenFlags, Opened, Result, StatFs, Walked,
};

/// What statfs(2) reports as `f_type`: "CULV".
const MAGIC: u64 = 0x4355_4c56;
/// An archive as a read-only file system. Node numbers are record numbers of the index + 1.
pub struct ArchiveFs(Arc<Archive>);

impl ArchiveFs {
    /// The archive `raw` with its `index`. `ENOENT` or `ENOTDIR` with a cause when option `subdir`
    /// names no directory.
    pub fn new(raw: Arc<dyn Bytes>, index: Index, options: &Options) -> Result<Self> {
        let kind = Kind::of(index.header())?;
        let raw = match kind {
            Kind::Package(package, _) => Arc::new(package.payload(&raw)?),
            _ => raw,
        };
        let stream = match kind {
            Kind::Serial(_, Some(_)) | Kind::Package(_, Some(_)) | Kind::SevenZip => {
                let format = match kind {
                    Kind::Serial(_, Some(format)) | Kind::Package(_, Some(format)) => format,
                    _ => Format::SevenZip,
                };
                let (place, _) = index.place(Section::Checkpoints);
                let checkpoints = Checkpoints::view(index.image().clone(), place)?;
                Some(Stream::open(format, raw.clone(), checkpoints)?)
            }
            _ => None,
        };
        let archive = Archive::new(raw, index, stream, options)?;
        Ok(Self(Arc::new(archive)))
    }
}

/// The record number of a node that is known to exist: records are numbered with 32 bits.
fn number(node: Node) -> u32 {
    (node.0 - 1) as u32
}

impl FileSystem for ArchiveFs {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: true,
            immutable: true,
            xattrs: true,
            hard_links: true,
            ..Capabilities::default()
        }
    }

    fn root(&self) -> Node {
        Node(u64::from(self.0.root) + 1)
    }

    fn lookup(&self, _caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.0.directory(dir)?;
        self.0.look_up(number(dir), name)
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        self.0.directory(from)?;
        let (mut dir, mut consumed) = (from, 0);
        loop {
            let rest = &path[consumed..];
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = &rest[..end.unwrap_or(rest.len())];
            let entry = self.0.look_up(number(dir), name)?;
            consumed += name.len();
            if consumed == path.len() || entry.attributes.kind == FileKind::Symlink {
                return Ok(Walked {
                    entry: Some(entry),
                    parent: dir,
                    consumed,
                });
            }
            if entry.attributes.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            caller.may(Access::EXECUTE, &entry.attributes)?;
            dir = entry.attributes.node;
            consumed += 1;
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let record = self.0.directory(dir)?;
        if dir == self.root() || record.entry == NONE {
            return Ok(self.root());
        }
        let entry = self.0.index.entry(record.entry.into())?;
        Ok(Node(u64::from(entry.parent) + 1))
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        /// More than a tree of the index can have; a damaged one may go in circles.
        const DEPTH_MAX: u32 = 4096;
        self.0.record(node)?;
        let (root, mut at) = (self.0.root, node.0 - 1);
        let mut names = Vec::new();
        for _ in 0..DEPTH_MAX {
            let record = self.0.index.node(at)?;
            if at == u64::from(root) || record.entry == NONE {
                names.reverse();
                return Ok(names.join(&b'/'));
            }
            let entry = self.0.index.entry(record.entry.into())?;
            names.push(self.0.index.name(&entry)?);
            at = entry.parent.into();
        }
        Err(Error::because(
            Errno::EIO,
            "the index is damaged (directories in a circle); delete it",
        ))
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        let record = self.0.record(node)?;
        self.0.attributes(node, &record)
    }

    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let record = self.0.record(node)?;
        if record.mode & 0o170000 != FileKind::Symlink as u32 {
            return Err(Errno::EINVAL.into());
        }
        Ok(self.0.index.names(record.place, record.size)?.to_vec())
    }

    fn open(&self, _caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        if flags.write() || flags.truncate() {
            return Err(Errno::EROFS.into());
        }
        let record = self.0.record(node)?;
        match FileKind::of_mode(record.mode) {
            Some(FileKind::Regular) => {}
            Some(FileKind::Directory) => return Err(Errno::EISDIR.into()),
            Some(FileKind::Symlink) => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENXIO.into()),
        }
        let opened = ArchiveFile::open(self.0.clone(), node, record);
        match opened {
            Ok(file) => Ok(Opened::Driven(Box::new(file))),
            Err(error) => Err(match self.path_of(node) {
                Ok(path) => error.within(&format!("member \"{}\"", printable(&path))),
                Err(_) => error,
            }),
        }
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let record = self.0.directory(dir)?;
        for at in from..record.extent {
            let entry = self.0.index.entry(record.place.saturating_add(at))?;
            let taken = sink(DirectoryEntry {
                inode: u64::from(entry.node) + 1,
                next: at + 1,
                kind: FileKind::of_mode(u32::from(entry.kind) << 12).unwrap_or(FileKind::Regular),
                name: self.0.index.name(&entry)?,
            });
            if !taken {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        let header = self.0.index.header();
        Ok(StatFs {
            magic: MAGIC,
            block_size: BLOCK_SIZE,
            blocks: header.content.div_ceil(BLOCK_SIZE.into()),
            files: self.0.index.nodes() as u64,
            name_max: NAME_MAX as u32,
            read_only: true,
            ..StatFs::default()
        })
    }

    fn get_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let mut found = None;
        self.each_xattr(node, &mut |known, value| {
            if known == name {
                found = Some(value.to_vec());
            }
        })?;
        // The kernel knows no names but these (`xattr_resolve_name`, fs/xattr.c).
        let spaces = [&b"user."[..], b"trusted.", b"security.", b"system."];
        let known = spaces.iter().any(|space| name.starts_with(space));
        found.ok_or_else(|| {
            if known {
                Errno::ENODATA
            } else {
                Errno::EOPNOTSUPP
            }
            .into()
        })
    }

    fn list_xattr(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let mut list = Vec::new();
        self.each_xattr(node, &mut |name, _| {
            list.extend_from_slice(name);
            list.push(0);
        })?;
        Ok(list)
    }
}

impl ArchiveFs {
    fn each_xattr(&self, node: Node, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let record = self.0.record(node)?;
        // Of zip members that field is the checksum.
        if matches!(record.storage, Storage::Member | Storage::Encrypted) {
            return Ok(());
        }
        self.0.index.xattrs(record.extra, each)
    }
}
