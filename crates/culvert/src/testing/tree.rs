//! What a driver shall show.

use crate::{FileKind, Timespec};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    vec::Vec,
};

#[derive(Clone, Debug)]
pub(super) enum Content {
    None,
    Bytes(Vec<u8>),
    OnDisk(PathBuf),
    Target(Vec<u8>),
}

impl Content {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Bytes(bytes) | Self::Target(bytes) => bytes.clone(),
            Self::OnDisk(path) => fs::read(path).expect("the reference tree is readable"),
        }
    }
}

/// What is expected of one path; `None` is not compared.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) kind: FileKind,
    pub(super) content: Content,
    pub(super) permissions: Option<u32>,
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mtime: Option<Timespec>,
    pub(super) xattrs: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Paths of equal number are one file.
    pub(super) file: u64,
}

/// A description of a directory tree: every path below the root, with what is known of it.
///
/// Attributes set by [`Tree::permissions`] and its kin belong to the path added last; what is not
/// said is not compared.
///
/// ```
/// use culvert::testing::Tree;
/// let tree = Tree::new()
///     .directory("etc")
///     .file("etc/motd", "hello\n").permissions(0o644)
///     .symlink("motd", "etc/motd")
///     .hard_link("etc/issue", "etc/motd");
/// assert_eq!(tree.len(), 4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(super) paths: BTreeMap<Vec<u8>, Expected>,
    last: Vec<u8>,
    files: u64,
}

impl Tree {
    /// The root alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many paths there are, the root not counted.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is only the root.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// What a directory on disk holds, as [`std::fs`] sees it: kinds, contents, permissions,
    /// owners, modification times, hard links. Contents are read only when they are compared.
    pub fn of_directory(root: &Path) -> io::Result<Self> {
        let mut tree = Self::new();
        let mut links = BTreeMap::new();
        tree.scan(root, &[], &mut links)?;
        Ok(tree)
    }

    fn scan(
        &mut self,
        dir: &Path,
        prefix: &[u8],
        links: &mut BTreeMap<(u64, u64), Vec<u8>>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let Some(name) = path.file_name() else {
                continue;
            };
            let mut below = prefix.to_vec();
            below.extend_from_slice(name.as_bytes());
            let status = fs::symlink_metadata(&path)?;
            let kind = FileKind::of_mode(status.mode()).unwrap_or(FileKind::Regular);
            let content = match kind {
                FileKind::Regular => Content::OnDisk(path.clone()),
                FileKind::Symlink => {
                    Content::Target(fs::read_link(&path)?.as_os_str().as_bytes().to_vec())
                }
                _ => Content::None,
            };
            let first = links
                .entry((status.dev(), status.ino()))
                .or_insert_with(|| below.clone())
                .clone();
            match first == below {
                true => self.add(&below, kind, content),
                false => self.link(&below, &first),
            }
            let expected = self.last();
            expected.permissions = (kind != FileKind::Symlink).then_some(status.mode() & 0o7777);
            expected.owner = Some((status.uid(), status.gid()));
            expected.mtime = Some(Timespec {
                seconds: status.mtime(),
                nanoseconds: status.mtime_nsec() as u32,
            });
            if kind == FileKind::Directory {
                below.push(b'/');
                self.scan(&path, &below, links)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &[u8], kind: FileKind, content: Content) {
        self.files += 1;
        let expected = Expected {
            kind,
            content,
            permissions: None,
            owner: None,
            mtime: None,
            xattrs: None,
            file: self.files,
        };
        self.paths.insert(path.to_vec(), expected);
        self.last = path.to_vec();
    }

    fn link(&mut self, path: &[u8], to: &[u8]) {
        let expected = self.paths[to].clone();
        self.paths.insert(path.to_vec(), expected);
        self.last = path.to_vec();
    }

    fn last(&mut self) -> &mut Expected {
        self.paths
            .get_mut(&self.last)
            .expect("a path was added before")
    }

    /// A regular file.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let content = Content::Bytes(content.as_ref().to_vec());
        self.add(path.as_ref(), FileKind::Regular, content);
        self
    }

    /// A regular file whose content is that of one on disk.
    #[must_use]
    pub fn file_like(mut self, path: impl AsRef<[u8]>, on_disk: impl Into<PathBuf>) -> Self {
        self.add(
            path.as_ref(),
            FileKind::Regular,
            Content::OnDisk(on_disk.into()),
        );
        self
    }

    /// A directory.
    #[must_use]
    pub fn directory(mut self, path: impl AsRef<[u8]>) -> Self {
        self.add(path.as_ref(), FileKind::Directory, Content::None);
        self
    }

    /// A symbolic link.
    #[must_use]
    pub fn symlink(mut self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let target = Content::Target(target.as_ref().to_vec());
        self.add(path.as_ref(), FileKind::Symlink, target);
        self
    }

    /// A FIFO, socket or device.
    #[must_use]
    pub fn special(mut self, path: impl AsRef<[u8]>, kind: FileKind) -> Self {
        self.add(path.as_ref(), kind, Content::None);
        self
    }

    /// Another name for the file at `to`.
    ///
    /// # Panics
    /// When `to` was not added before.
    #[must_use]
    pub fn hard_link(mut self, path: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Self {
        self.link(path.as_ref(), to.as_ref());
        self
    }

    /// Permission bits of the path added last.
    #[must_use]
    pub fn permissions(mut self, permissions: u32) -> Self {
        self.last().permissions = Some(permissions);
        self
    }

    /// Owner and group of the path added last.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.last().owner = Some((uid, gid));
        self
    }

    /// Modification time of the path added last.
    #[must_use]
    pub fn modified(mut self, mtime: Timespec) -> Self {
        self.last().mtime = Some(mtime);
        self
    }

    /// An extended attribute of the path added last; once one is named, those named are all.
    #[must_use]
    pub fn xattr(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let xattrs = self.last().xattrs.get_or_insert_default();
        xattrs.insert(name.into(), value.as_ref().to_vec());
        self
    }

    /// Forgets expected permissions, owners and times everywhere: for a driver that does not keep
    /// them.
    #[must_use]
    pub fn content_only(mut self) -> Self {
        for expected in self.paths.values_mut() {
            (expected.permissions, expected.owner, expected.mtime) = (None, None, None);
        }
        self
    }
}
