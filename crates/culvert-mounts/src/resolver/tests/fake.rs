//! A tree in memory that can play a driver as well as the real file system.

use crate::resolver::{Host, HostFile, HostKind, Magic};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use culvert::{
    Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem, Node,
    OpenFlags, Opened, Result, StatFs, Timespec, Walked,
};
use std::sync::Mutex;

pub const ROOT: Caller<'static> = Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 1,
    umask: 0,
    rights: None,
};

#[derive(Clone, Debug)]
pub struct File {
    pub kind: FileKind,
    pub permissions: u32,
    pub parent: u64,
    pub name: Vec<u8>,
    pub target: Vec<u8>,
    pub children: BTreeMap<Vec<u8>, u64>,
}

/// Nodes are numbered from 1, the root.
#[derive(Default)]
pub struct Tree {
    pub files: Vec<File>,
    /// How `walk` is done: 0 as the trait's default, 1 one component at a time, 2 nothing consumed.
    pub walking: u8,
    /// References that the resolver holds, by node.
    pub references: Mutex<BTreeMap<u64, i64>>,
    pub calls: AtomicUsize,
    /// How often a whole path was asked for.
    pub reaches: AtomicUsize,
    /// `/proc` links that jump.
    pub magic: Vec<(&'static str, Magic)>,
}

impl Tree {
    /// One file per word: `a/` a directory (mode 0755, or `a/:700`), `a` a file, `a>target` a link.
    /// Parents are made as needed.
    pub fn new(words: &str) -> Self {
        let mut tree = Self::default();
        tree.push(0, b"", FileKind::Directory, b"");
        for word in words.split_whitespace() {
            let (word, mode) = word.split_once(':').map_or((word, 0o755), |(word, mode)| {
                (word, u32::from_str_radix(mode, 8).expect("octal"))
            });
            let node = match word.split_once('>') {
                Some((path, target)) => tree.make(path, FileKind::Symlink, target.as_bytes()),
                None if word.ends_with('/') => tree.make(word, FileKind::Directory, b""),
                None => tree.make(word, FileKind::Regular, b""),
            };
            tree.files[node as usize - 1].permissions = mode;
        }
        tree
    }

    pub fn push(&mut self, parent: u64, name: &[u8], kind: FileKind, target: &[u8]) -> u64 {
        let node = self.files.len() as u64 + 1;
        self.files.push(File {
            kind,
            permissions: 0o755,
            parent: parent.max(1),
            name: name.to_vec(),
            target: target.to_vec(),
            children: BTreeMap::new(),
        });
        if parent > 0 {
            self.files[parent as usize - 1]
                .children
                .insert(name.to_vec(), node);
        }
        node
    }

    fn make(&mut self, path: &str, kind: FileKind, target: &[u8]) -> u64 {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut node = 1;
        for (index, name) in names.iter().enumerate() {
            let known = self.file(node).children.get(name.as_bytes()).copied();
            node = match known {
                Some(child) => child,
                None if index + 1 == names.len() => self.push(node, name.as_bytes(), kind, target),
                None => self.push(node, name.as_bytes(), FileKind::Directory, b""),
            };
        }
        node
    }

    pub fn file(&self, node: u64) -> &File {
        &self.files[node as usize - 1]
    }

    /// The node at a path without links.
    pub fn at(&self, path: &str) -> Node {
        let names = path.split('/').filter(|name| !name.is_empty());
        Node(names.fold(1, |node, name| self.file(node).children[name.as_bytes()]))
    }

    pub fn path(&self, node: Node) -> String {
        let mut names = Vec::new();
        let mut node = node.0;
        while node != 1 {
            names.push(String::from_utf8_lossy(&self.file(node).name).into_owned());
            node = self.file(node).parent;
        }
        names.reverse();
        names.join("/")
    }

    fn entry(&self, node: u64) -> Entry {
        let file = self.file(node);
        Entry {
            attributes: Attributes {
                node: Node(node),
                inode: node,
                kind: file.kind,
                permissions: file.permissions,
                links: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                size: 0,
                blocks: 0,
                block_size: 4096,
                atime: Timespec::default(),
                mtime: Timespec::default(),
                ctime: Timespec::default(),
                btime: None,
            },
        }
    }

    fn count(&self, node: u64, change: i64) {
        // Microbenchmarks measure the resolver, not this.
        if self.walking != 3 {
            *self.references.lock().unwrap().entry(node).or_default() += change;
        }
    }

    fn find(&self, dir: u64, name: &[u8]) -> Result<u64> {
        let directory = self.files.get(dir as usize - 1).ok_or(Errno::ESTALE)?;
        if directory.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(*directory.children.get(name).ok_or(Errno::ENOENT)?)
    }
}

impl FileSystem for Tree {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    fn root(&self) -> Node {
        Node(1)
    }
    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        assert!(!name.is_empty() && name.len() < 256 && !name.contains(&b'/'));
        assert!(name != b"." && name != b"..");
        self.calls.fetch_add(1, Relaxed);
        let node = self.find(dir.0, name)?;
        self.count(node, 1);
        Ok(self.entry(node))
    }
    fn walk(&self, _: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        self.calls.fetch_add(1, Relaxed);
        let (mut dir, mut consumed) = (from.0, 0);
        loop {
            let rest = &path[consumed..];
            let name = &rest[..rest.iter().position(|&b| b == b'/').unwrap_or(rest.len())];
            assert!(!name.is_empty() && name.len() < 256 && name != b"." && name != b"..");
            if self.walking == 2 {
                return Ok(Walked {
                    entry: None,
                    parent: from,
                    consumed: 0,
                });
            }
            let node = self.find(dir, name)?;
            consumed += name.len();
            let stop = self.walking == 1 || self.file(node).kind == FileKind::Symlink;
            if consumed == path.len() || stop {
                self.count(node, 1);
                if dir != from.0 {
                    self.count(dir, 1);
                }
                return Ok(Walked {
                    entry: Some(self.entry(node)),
                    parent: Node(dir),
                    consumed,
                });
            }
            dir = node;
            consumed += 1;
        }
    }
    fn parent(&self, dir: Node) -> Result<Node> {
        Ok(Node(self.file(dir.0).parent))
    }
    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        Ok(self.path(node).into_bytes())
    }
    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        Ok(self.entry(node.0).attributes)
    }
    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        Ok(self.file(node.0).target.clone())
    }
    fn open(&self, _: &Caller<'_>, _: Node, _: OpenFlags) -> Result<Opened> {
        Err(Errno::ENOSYS.into())
    }
    fn read_directory(
        &self,
        _: &Caller<'_>,
        _: Node,
        _: u64,
        _: &mut DirectorySink<'_>,
    ) -> Result<()> {
        Err(Errno::ENOSYS.into())
    }
    fn statfs(&self) -> Result<StatFs> {
        Err(Errno::ENOSYS.into())
    }
    fn forget(&self, node: Node, count: u64) {
        self.count(node.0, -(count as i64));
    }
}

impl Host for Tree {
    fn lstat(&self, path: &[u8]) -> core::result::Result<HostFile, Errno> {
        let path = path.strip_suffix(b"/.").unwrap_or(path);
        assert_eq!(path.first(), Some(&b'/'));
        let mut node = 1;
        for name in path[1..].split(|&b| b == b'/').filter(|n| !n.is_empty()) {
            assert!(name != b"." && name != b"..");
            assert_ne!(
                self.file(node).kind,
                FileKind::Symlink,
                "links only at the end"
            );
            node = self.find(node, name).map_err(|error| error.errno())?;
        }
        Ok(HostFile {
            kind: match self.file(node).kind {
                FileKind::Directory => HostKind::Directory,
                FileKind::Symlink => HostKind::Symlink,
                _ => HostKind::Other,
            },
            dev: 1,
            ino: node,
        })
    }
    fn readlink(&self, path: &[u8]) -> core::result::Result<Vec<u8>, Errno> {
        let file = self.lstat(path)?;
        match file.kind {
            HostKind::Symlink => Ok(self.file(file.ino).target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn magic(&self, path: &[u8]) -> Magic {
        let known = self.magic.iter().find(|(at, _)| at.as_bytes() == path);
        known.map_or(Magic::No, |(_, magic)| magic.clone())
    }
}
