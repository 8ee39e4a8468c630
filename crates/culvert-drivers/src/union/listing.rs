//! Listings: the names of all branches, each once.

use super::options::InodeCalc;
use super::parts::hash;
use super::state::{Core, Shared};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use culvert::sync::Mutex;
use culvert::{Caller, Directory, DirectoryEntry, DirectorySink, Errno, FileKind, Node, Result};

/// One name of a directory.
pub struct Name {
    /// Where the listing goes on after it.
    next: u64,
    inode: u64,
    kind: FileKind,
    name: Vec<u8>,
}

impl Core {
    /// All names in `dir`, in the order in which they are listed: that of their hashes, so that a
    /// position means the same in every process, whatever came and went.
    pub fn listing(&self, caller: &Caller<'_>, dir: Node) -> Result<Vec<Name>> {
        struct Listed {
            index: usize,
            inode: u64,
            kind: FileKind,
            several: bool,
        }
        let parts = self.directory(caller, dir)?;
        let mut names = BTreeMap::<Vec<u8>, Listed>::new();
        for (index, part) in parts.iter().enumerate() {
            let Some(part) = *part else { continue };
            let read = self.branches[index]
                .fs
                .read_directory(caller, part, 0, &mut |entry| {
                    let listed = names.get_mut(entry.name);
                    match listed {
                        Some(listed) => listed.several = true,
                        None => {
                            let listed = Listed {
                                index,
                                inode: entry.inode,
                                kind: entry.kind,
                                several: false,
                            };
                            names.insert(entry.name.into(), listed);
                        }
                    }
                    true
                });
            // A part that may not be read is no reason to show less.
            match read {
                Err(error) if !matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        let path = match self.settings().inodes {
            InodeCalc::Path => self.seen_path(dir),
            _ => Vec::new(),
        };
        let first = self
            .settings()
            .policy(super::options::Function::Getattr)
            .is_first();
        let of = |(name, listed): (Vec<u8>, Listed)| {
            let branch = &self.branches[listed.index];
            let is_directory = listed.kind == FileKind::Directory;
            let inode = match self.settings().inodes {
                InodeCalc::Path if path.is_empty() => hash(&name),
                InodeCalc::Path => hash(&[&path[..], b"/", &name].concat()),
                // Of several directories the oldest tells.
                _ if listed.several && (is_directory || !first) => {
                    let found = self
                        .lookup(caller, dir, &name)
                        .map(|entry| entry.attributes);
                    if let Ok(found) = &found {
                        self.nodes.forget(found.node, 1).give_back();
                    }
                    return Name {
                        next: 0,
                        inode: found.as_ref().map_or(listed.inode, |found| found.inode),
                        kind: found.map_or(listed.kind, |found| found.kind),
                        name,
                    };
                }
                InodeCalc::Passthrough => listed.inode,
                InodeCalc::Hybrid | InodeCalc::DevIno => branch.inode(listed.inode),
            };
            Name {
                next: 0,
                inode: self.width(inode),
                kind: listed.kind,
                name,
            }
        };
        let mut names: Vec<Name> = names.into_iter().map(of).collect();
        for name in &mut names {
            name.next = (hash(&name.name) >> 2) + 1;
        }
        names.sort_by_key(|name| name.next);
        let mut last = 0;
        for name in &mut names {
            name.next = name.next.max(last + 1);
            last = name.next;
        }
        Ok(names)
    }
}

/// Offers `names` from position `from` on.
pub fn list(names: &[Name], from: u64, sink: &mut DirectorySink<'_>) {
    let start = names.partition_point(|name| name.next <= from);
    for Name {
        next,
        inode,
        kind,
        name,
    } in &names[start..]
    {
        let entry = DirectoryEntry {
            inode: *inode,
            next: *next,
            kind: *kind,
            name,
        };
        if !sink(entry) {
            return;
        }
    }
}

/// An open directory, which is read anew from the start alone.
pub struct OpenDirectory {
    shared: Arc<Shared>,
    dir: Node,
    names: Mutex<Option<Arc<Vec<Name>>>>,
}

impl OpenDirectory {
    /// `dir`, which it keeps.
    pub fn new(shared: &Arc<Shared>, dir: Node) -> Result<Self> {
        let kind = shared.nodes.with(dir, |known| known.kind)?;
        if kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        shared.nodes.pin(dir)?;
        Ok(Self {
            shared: Arc::clone(shared),
            dir,
            names: Mutex::new(None),
        })
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.shared.nodes.unpin(self.dir).give_back();
    }
}

impl Directory for OpenDirectory {
    fn read(&self, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        let known = self.names.lock().clone().filter(|_| from != 0);
        let names = match known {
            Some(names) => names,
            None => {
                let caller = Caller::SYSTEM;
                let names = Arc::new(Core::now(&self.shared).listing(&caller, self.dir)?);
                *self.names.lock() = Some(Arc::clone(&names));
                names
            }
        };
        list(&names, from, sink);
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        Core::now(&self.shared).sync_directory(self.dir, data_only)
    }
}
