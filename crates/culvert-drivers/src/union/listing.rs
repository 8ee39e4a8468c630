//! Listings: the names of all branches, each once.

use super::options::InodeCalc;
use super::state::{Core, Parts, Shared};
use super::table::Key;
use crate::AtOnce;
use crate::sorted_names::{Name, hash, list, sorted};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use culvert::sync::Mutex;
use culvert::{Caller, Directory, DirectorySink, Errno, FileKind, Node, Result};

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
        let mut enter = |index: usize, inode: u64, kind: FileKind, name: &[u8]| {
            if let Some(listed) = names.get_mut(name) {
                listed.several = true;
                return;
            }
            let listed = Listed {
                index,
                inode,
                kind,
                several: false,
            };
            names.insert(name.into(), listed);
        };
        let there = parts.iter().filter(|part| part.is_some()).count();
        let count = self.settings().lists_at_once.min(there);
        match self.at_once.filter(|_| count > 1) {
            None => {
                for (index, part) in parts.iter().enumerate() {
                    let Some(part) = *part else { continue };
                    self.list_part(caller, (index, part), &mut |inode, kind, name| {
                        enter(index, inode, kind, name);
                    })?;
                }
            }
            Some(at_once) => {
                for part in self.list_at_once(caller, &parts, (count, at_once)) {
                    for (inode, kind, name) in part.found? {
                        enter(part.index, inode, kind, &name);
                    }
                }
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
                    let inode = found.as_ref().map_or(listed.inode, |found| found.inode);
                    return Name::new(inode, found.map_or(listed.kind, |found| found.kind), name);
                }
                InodeCalc::Passthrough => listed.inode,
                InodeCalc::Hybrid | InodeCalc::DevIno => branch.inode(listed.inode),
            };
            Name::new(self.width(inode), listed.kind, name)
        };
        Ok(sorted(names.into_iter().map(of).collect()))
    }
}

/// What a branch lists: inode, kind and name.
type Found = Vec<(u64, FileKind, Vec<u8>)>;

/// A part of a directory that is listed beside others.
struct Part {
    index: usize,
    node: Node,
    found: Result<Found>,
}

impl Core {
    /// Lists what a directory is on branch `index`. A part that is gone is no reason to show less.
    fn list_part(
        &self,
        caller: &Caller<'_>,
        (index, part): (usize, Node),
        visit: &mut dyn FnMut(u64, FileKind, &[u8]),
    ) -> Result<()> {
        let branch = &self.branches[index].fs;
        let read = branch.read_directory(caller, part, 0, &mut |entry| {
            visit(entry.inode, entry.kind, entry.name);
            true
        });
        match read {
            Err(error) if !matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => Err(error),
            _ => Ok(()),
        }
    }

    /// The same of all `parts`, `count` of them at a time.
    fn list_at_once(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        (count, at_once): (usize, AtOnce),
    ) -> Vec<Part> {
        let there = parts.iter().enumerate();
        let there = there.filter_map(|(index, part)| {
            Some(Part {
                index,
                node: (*part)?,
                found: Ok(Vec::new()),
            })
        });
        let mut all: Vec<Part> = there.collect();
        for some in all.chunks_mut(count) {
            let list = |part: &mut Part| {
                let mut found = Vec::new();
                let of = (part.index, part.node);
                let done = self.list_part(caller, of, &mut |inode, kind, name| {
                    found.push((inode, kind, name.to_vec()));
                });
                part.found = done.map(|()| found);
            };
            let mut each: Vec<_> = some.iter_mut().map(|part| move || list(part)).collect();
            let mut each: Vec<&mut (dyn FnMut() + Send)> = each
                .iter_mut()
                .map(|one| one as &mut (dyn FnMut() + Send))
                .collect();
            at_once(&mut each);
        }
        all
    }
}

/// An open directory, which is read anew from the start alone.
pub struct OpenDirectory {
    shared: Arc<Shared>,
    dir: Node,
    /// What keeps it.
    pinned: Key,
    names: Mutex<Option<Arc<Vec<Name>>>>,
}

impl OpenDirectory {
    /// `dir`, which it keeps.
    pub fn new(shared: &Arc<Shared>, dir: Node) -> Result<Self> {
        let kind = shared.nodes.with(dir, |known| known.kind)?;
        if kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Self {
            pinned: shared.nodes.pin_open(dir)?,
            shared: Arc::clone(shared),
            dir,
            names: Mutex::new(None),
        })
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.shared.nodes.unpin_open(self.pinned).give_back();
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
