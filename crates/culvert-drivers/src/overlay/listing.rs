//! Listings: the names of all layers, each once, without those that a layer above has removed.

use super::marks::{Look, Mark, is_dockers};
use super::nodes::Key;
use super::state::{Core, Part, Parts};
use crate::sorted_names::{Name, list, sorted};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use culvert::sync::Mutex;
use culvert::{Caller, Directory, DirectorySink, Errno, FileKind, Node, Result};

/// A name as the uppermost layer that has it says.
pub enum One {
    /// It was removed.
    Whiteout,
    /// It is shown.
    Shown {
        /// Where.
        layer: usize,
        /// Its inode there.
        inode: u64,
        /// Its type.
        kind: FileKind,
        /// The first layer below with a directory of this name, and its inode.
        below: Option<(usize, u64)>,
    },
}

impl One {
    /// Whether it is.
    pub const fn is_shown(&self) -> bool {
        matches!(self, Self::Shown { .. })
    }
}

impl Core {
    /// All names of the directory `parts`, whiteouts among them.
    pub fn names_of(&self, parts: &Parts, names: &mut BTreeMap<Vec<u8>, One>) -> Result<()> {
        for part in parts.all() {
            self.names_in(part, names)?;
        }
        Ok(())
    }

    fn names_in(&self, part: &Part, names: &mut BTreeMap<Vec<u8>, One>) -> Result<()> {
        let layer = &self.layers[part.layer];
        let mut found: Vec<(u64, FileKind, Vec<u8>)> = Vec::new();
        let read = || {
            let mut found = Vec::new();
            let system = &Caller::SYSTEM;
            layer
                .fs
                .read_directory(system, part.node, 0, &mut |entry| {
                    found.push((entry.inode, entry.kind, entry.name.to_vec()));
                    true
                })?;
            Ok(found)
        };
        match self.as_mounter(read) {
            Err(error) if !matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {
                return Err(error);
            }
            Err(_) => {}
            Ok(read) => found = read,
        }
        // Another process may have made the first whiteout that is a file.
        let attribute_whiteouts = part.attribute_whiteouts
            || !found.is_empty()
                && self.is_upper(part)
                && self.mark(part.layer, part.node, Mark::Opaque)?.as_deref() == Some(b"x");
        let mut hidden = Vec::new();
        for (inode, kind, name) in found {
            if layer.docker
                && let Some(removed) = name.strip_prefix(b".wh.")
            {
                // One that hides a name of this layer hides nothing here.
                if !is_dockers(&name[4..]) {
                    hidden.push(removed.to_vec());
                }
                continue;
            }
            if part.layer == 0
                && part.node == layer.root
                && self.settings.upper
                && self.settings.below.is_none()
                && name == super::HIDDEN
            {
                continue;
            }
            if let Some(one) = names.get_mut(&name) {
                if let One::Shown {
                    kind: FileKind::Directory,
                    below: below @ None,
                    ..
                } = one
                    && kind == FileKind::Directory
                {
                    *below = Some((part.layer, inode));
                }
                continue;
            }
            let may_hide = kind == FileKind::CharacterDevice
                || attribute_whiteouts && kind == FileKind::Regular;
            let is_whiteout = match may_hide {
                true => match self.look_in(part, &name)? {
                    Look::Whiteout => true,
                    Look::Found(found) => {
                        layer.fs.forget(found.node, 1);
                        false
                    }
                    Look::Nothing => false,
                },
                false => false,
            };
            let one = match is_whiteout {
                true => One::Whiteout,
                false => One::Shown {
                    layer: part.layer,
                    inode,
                    kind,
                    below: None,
                },
            };
            names.insert(name, one);
        }
        for name in hidden {
            names.entry(name).or_insert(One::Whiteout);
        }
        Ok(())
    }

    /// All names in `dir`, in the order in which they are listed: that of their hashes, so that a
    /// position means the same in every process, whatever came and went.
    pub fn listing(&self, dir: Node) -> Result<Vec<Name>> {
        let parts = self.directory(dir)?;
        let mut names = BTreeMap::new();
        self.names_of(&parts, &mut names)?;
        let copies = match parts.upper {
            Some(upper) => {
                parts.is_merged() || self.mark(upper.layer, upper.node, Mark::Impure)?.is_some()
            }
            None => false,
        };
        let mut shown = Vec::new();
        for (name, one) in names {
            let One::Shown {
                layer,
                inode,
                kind,
                below,
            } = one
            else {
                continue;
            };
            let is_upper = layer == 0 && self.settings.upper;
            // A copy has the number of what it was copied from.
            let inode = match is_upper && (copies || below.is_some()) {
                true => self.inode_of((dir, &parts), &name).unwrap_or(inode),
                false => self.number(layer, Node(inode)).0,
            };
            shown.push(Name::new(inode, kind, name));
        }
        Ok(sorted(shown))
    }

    /// The number of `name`, should that be known. A name that cannot be looked up is listed, as by
    /// the kernel (`ovl_cache_update_ino`, fs/overlayfs/readdir.c).
    fn inode_of(&self, dir: (Node, &Parts), name: &[u8]) -> Option<u64> {
        let found = self.find_in(dir, name).ok()??;
        let parts = self.parts_of(&found).ok();
        let number = self.number_of(&found);
        let inode = parts.map(|parts| self.shown(number, &parts, found.attributes).inode);
        self.leave(found);
        inode
    }
}

/// An open directory, which is read anew from the start alone.
pub struct OpenDirectory {
    core: Arc<Core>,
    dir: Node,
    /// What keeps it.
    pinned: Key,
    names: Mutex<Option<Arc<Vec<Name>>>>,
}

impl OpenDirectory {
    /// `dir`, which it keeps.
    pub fn new(core: &Arc<Core>, dir: Node) -> Result<Self> {
        if core.nodes.with(dir, |known| known.kind)? != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Self {
            pinned: core.nodes.pin(dir)?,
            core: Arc::clone(core),
            dir,
            names: Mutex::new(None),
        })
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.core.give_back(self.core.nodes.unpin(self.pinned));
    }
}

impl Directory for OpenDirectory {
    fn read(&self, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        // As of every removed directory (`iterate_dir`, fs/readdir.c).
        if self.core.nodes.with(self.dir, |known| known.gone)? {
            return Err(Errno::ENOENT.into());
        }
        let known = self.names.lock().clone().filter(|_| from != 0);
        let names = match known {
            Some(names) => names,
            None => {
                let names = Arc::new(self.core.listing(self.dir)?);
                *self.names.lock() = Some(Arc::clone(&names));
                names
            }
        };
        list(&names, from, sink);
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.core.sync_directory(self.dir, data_only)
    }
}
