//! The insides of a file.

use super::handlers::{self, Handler};
use crate::archive::build::{self, build_alone, build_as, identify_bytes};
use crate::archive::bytes::Bytes;
use crate::archive::cache::{IndexLocation, find_or_make, is_of_place};
use crate::archive::codec::{self, Format};
use crate::archive::format::{Header, Identity, NodeRecord, Parts, SECTIONS, Storage};
use crate::archive::index::{Image, Index};
use crate::archive::kind::{Kind, detect};
use crate::archive::serial::Serial;
use crate::archive::tree::Tree;
use crate::archive::{ArchiveFs, Options, host};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use culvert::{Caller, Errno, Error, FileKind, FileSystem, Node, Result, Timespec};
use culvert_sys::process;
use culvert_sys::raw::general::RLIMIT_FSIZE;

/// How files are looked into.
pub struct Rules {
    /// Where indexes lie.
    pub indexes: Option<Vec<u8>>,
    /// Most bytes of one that lies in another, as it is and decompressed for its index.
    pub most: u64,
    /// Who owns what lies inside.
    pub owners: Options,
}

/// Who may have written a file: its owner, or others, too. Indexes are kept for each alone: that of
/// a file which somebody else made to look like another's, the parts of both that are compared
/// being the same, would show the wrong bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writers {
    owner: Option<u32>,
    group: Option<u32>,
    others: bool,
}

impl Writers {
    /// Nobody knows whose it is.
    pub const UNKNOWN: Self = Self {
        owner: None,
        group: None,
        others: true,
    };

    /// Those of a file of `owner`, a user and a group, with these permissions.
    pub const fn of((owner, group): (u32, u32), permissions: u32) -> Self {
        Self {
            owner: Some(owner),
            group: match permissions & 0o020 {
                0 => None,
                _ => Some(group),
            },
            others: permissions & 0o002 != 0,
        }
    }

    /// As the name of an index has it.
    fn named(self) -> String {
        let Self {
            owner,
            group,
            others,
        } = self;
        let group = group.map(|group| format!("g{group:x}")).unwrap_or_default();
        let owner = owner.map(|owner| format!("{owner:x}")).unwrap_or_default();
        format!(".{owner}{group}{}", if others { "o" } else { "" })
    }
}

/// What a file turned out to hold.
pub enum Within {
    /// An archive.
    Tree(ArchiveFs),
    /// Something else, compressed: the node of the plain file.
    File(ArchiveFs, Node),
}

impl Within {
    /// The file system that it is.
    pub const fn archive(&self) -> &ArchiveFs {
        match self {
            Self::Tree(archive) | Self::File(archive, _) => archive,
        }
    }

    /// Looks into `raw`, changed last at `mtime` by one of `writers`. `ENOENT` where it is not what
    /// `handler` reads.
    pub fn new(
        raw: Arc<dyn Bytes>,
        of: (Timespec, Writers),
        (handler, keeps): (Handler, bool),
        (rules, most): (&Rules, u64),
    ) -> Result<Self> {
        let within = |raw: Arc<dyn Bytes>, index| ArchiveFs::new(raw, index, &rules.owners);
        if raw.len() > most {
            return Err(Error::because(
                Errno::EFBIG,
                format!("it has more than {most} bytes: is it a bomb?"),
            ));
        }
        let alone = match handler {
            Handler::Missing(what) => {
                return Err(Error::because(
                    Errno::EOPNOTSUPP,
                    format!("there is nobody here for that ({what})"),
                ));
            }
            Handler::Status => return Err(Errno::ENOENT.into()),
            Handler::Alone(format) => format,
            Handler::Archive(kind) => {
                if !kind.is(&*raw)? {
                    return Err(Errno::ENOENT.into());
                }
                let make = &mut |identity: &Identity| {
                    build_as(raw.clone(), *identity, kind, (false, most), &mut |_| {})
                };
                let variant = (kind, None);
                return Ok(Self::Tree(within(
                    raw.clone(),
                    index(&*raw, of, variant, (rules, keeps), make)?,
                )?));
            }
            Handler::Content => {
                let kind = detect(&*raw).map_err(|error| match error.errno() {
                    Errno::EINVAL => Errno::ENOENT.into(),
                    _ => error,
                })?;
                let make = &mut |identity: &Identity| {
                    build_as(raw.clone(), *identity, kind, (false, most), &mut |_| {})
                };
                let made = index(&*raw, of, (kind, None), (rules, keeps), make);
                match (kind, made) {
                    (Kind::Serial(_, Some(format)), Err(error))
                        if error.errno() == Errno::EINVAL =>
                    {
                        format
                    }
                    // Zeroes are the end of a tar.
                    (Kind::Serial(_, Some(format)), Ok(index)) if index.nodes() == 1 => format,
                    (_, made) => return Ok(Self::Tree(within(raw, made?)?)),
                }
            }
        };
        let mut head = [0; 512];
        let length = raw.read_at(0, &mut head)?;
        let alone = match (alone, codec::detect(&head[..length])) {
            (alone, Some(found)) if alone == found => alone,
            // AVFS's reads both.
            (Format::Xz, Some(Format::Lzma)) => Format::Lzma,
            _ => return Err(Errno::ENOENT.into()),
        };
        let make =
            &mut |identity: &Identity| build_alone(&*raw, *identity, alone, most, &mut |_| {});
        let kind = Kind::Serial(Serial::Tar, Some(alone));
        let index = index(&*raw, of, (kind, Some(alone)), (rules, keeps), make)?;
        let archive = within(raw.clone(), index)?;
        let found = archive.lookup(&Caller::SYSTEM, archive.root(), build::ALONE)?;
        Ok(Self::File(archive, found.attributes.node))
    }

    /// What there is to know of all this.
    pub fn status() -> Result<Self> {
        let mut tree = Tree::new(host::now(), 1);
        let version = format!("culvert {}\n", env!("CARGO_PKG_VERSION"));
        for (name, text) in [
            ("modules", handlers::MODULES),
            ("version", &version),
            ("copyright", "Culvert: MIT or Apache-2.0\n"),
            ("symlink_rewrite", "0\n"),
        ] {
            let mode = FileKind::Regular as u32 | 0o444;
            let record = NodeRecord {
                size: text.len() as u64,
                place: tree.keep_content(text.as_bytes())?,
                storage: Storage::Indexed,
                ..NodeRecord::new(mode, host::now())
            };
            tree.add(name.as_bytes(), record, b"")?;
        }
        let header = Header {
            length: 0,
            body: 0,
            archive: Identity {
                size: 0,
                mtime: Timespec::default(),
                content: 0,
            },
            kind: Kind::Serial(Serial::Tar, None).number(),
            damaged: false,
            plain: 0,
            content: 0,
            seed: 1,
            sections: [(0, 0); SECTIONS],
        };
        let index = Index::new(Image::Memory(tree.seal(header, Vec::new()).join()))?;
        let nothing: Arc<dyn Bytes> = Arc::new(Vec::new());
        Ok(Self::Tree(ArchiveFs::new(
            nothing,
            index,
            &Options::default(),
        )?))
    }
}

/// The index of `raw`, of the kind that is read, or as a file that is compressed by itself: the one
/// that is kept, else what `make` makes, kept where that works.
fn index(
    raw: &dyn Bytes,
    (mtime, writers): (Timespec, Writers),
    (kind, alone): (Kind, Option<Format>),
    (rules, keeps): (&Rules, bool),
    make: &mut dyn FnMut(&Identity) -> Result<Parts>,
) -> Result<Index> {
    let identity = identify_bytes(raw, mtime)?;
    let mut made = None;
    if let Some(directory) = rules.indexes.as_ref().filter(|_| keeps) {
        let kind = match alone {
            Some(_) => ".alone".into(),
            None => format!(".{:x}", kind.number()),
        };
        let variant = kind + &writers.named();
        let place = IndexLocation::Directory(directory);
        let ready = find_or_make(&identity, place, (false, &variant), &mut || {
            let parts = make(&identity)?;
            let length: usize = parts.pieces().map(<[u8]>::len).sum();
            made = Some(parts);
            // It would be the end of the program (SIGXFSZ).
            let [soft, _] = process::getrlimit(RLIMIT_FSIZE)?;
            match (length as u64 <= soft, made.take()) {
                (true, Some(parts)) => Ok(parts),
                (_, kept) => {
                    made = kept;
                    Err(Errno::EFBIG.into())
                }
            }
        });
        match (ready, made.take()) {
            (Ok(ready), _) => return Ok(ready.index),
            (Err(_), Some(parts)) => return Index::new(Image::Memory(parts.join())),
            (Err(error), None) if !is_of_place(error.errno()) => return Err(error),
            _ => {}
        }
    }
    Index::new(Image::Memory(make(&identity)?.join()))
}
