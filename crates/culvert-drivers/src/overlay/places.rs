//! Where nodes are: the directory above, paths, and what a descriptor of a layer's file is.

use super::looking::Found;
use super::state::{Core, Part, Parts};
use alloc::vec::Vec;
use culvert::{Entry, Errno, FileKind, FileSystem, Node, Result};

impl Core {
    /// The directory above `dir`.
    pub fn parent_of(&self, dir: Node) -> Result<Node> {
        if dir == self.root {
            return Ok(dir);
        }
        let (kind, gone, place, upper) = self.known(dir, |known| {
            let place = known.place.as_ref().map(|place| place.0);
            (known.kind, known.gone, place, known.parts.upper)
        })?;
        if kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        // Another process may have moved what is in the upper layer.
        if let Some(part) = upper
            && !self.is_alone()
        {
            let above = self.fs(part).parent(part.node)?;
            let mut over = part;
            over.node = above;
            if above == self.layers[0].root {
                return Ok(self.root);
            }
            if let Some(node) = self.nodes.part_of(over) {
                return Ok(node);
            }
            let path = self.upper_path(above)?;
            let node = self.walk(&path)?;
            self.nodes.with(node, |_| ())?;
            self.give_back(self.nodes.forget(node, 1));
            return Ok(node);
        }
        if gone {
            return Err(Errno::ENOENT.into());
        }
        place.ok_or(Errno::ENOENT.into())
    }

    /// Whether no other process changes anything.
    fn is_alone(&self) -> bool {
        self.names.is_alone()
    }

    /// The path of `node` of the upper layer below that one's root.
    fn upper_path(&self, node: Node) -> Result<Vec<u8>> {
        let path = self.layers[0].fs.path_of(node)?;
        let Some([root, _]) = &self.settings.below else {
            return Ok(path);
        };
        match path.strip_prefix(&root[..]) {
            Some([]) => Ok(Vec::new()),
            Some([b'/', rest @ ..]) => Ok(rest.to_vec()),
            _ if root.is_empty() => Ok(path),
            _ => Err(Errno::ENOENT.into()),
        }
    }

    /// What `path` below the root leads to, with one reference.
    pub fn walk(&self, path: &[u8]) -> Result<Node> {
        let mut here = self.root;
        for name in path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let entry = self.lookup((here, name));
            if here != self.root {
                self.give_back(self.nodes.forget(here, 1));
            }
            here = entry?.attributes.node;
        }
        Ok(here)
    }

    /// `name` in `dir`, with one reference.
    pub fn lookup(&self, (dir, name): (Node, &[u8])) -> Result<Entry> {
        if let Some(entry) = self.remembered(dir, name)? {
            return Ok(entry);
        }
        let checked = self.look_for_changes();
        let found = self.find(dir, name)?.ok_or(Errno::ENOENT)?;
        let entry = self.enter(Some((dir, name)), found, checked)?;
        self.remember((dir, name), &entry);
        Ok(entry)
    }

    /// The path of `node` below the root.
    pub fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        if node == self.root {
            return Ok(Vec::new());
        }
        let (gone, place, upper) = self.known(node, |known| {
            (known.gone, known.place.clone(), known.parts.upper)
        })?;
        if let Some(part) = upper {
            return self.upper_path(part.node);
        }
        let (dir, name) = place.filter(|_| !gone).ok_or(Errno::ENOENT)?;
        let above = self.path_of(dir)?;
        let slash = if above.is_empty() { &b""[..] } else { b"/" };
        Ok([&above[..], slash, &name].concat())
    }

    /// What the first layer that `fd` belongs to says of it by `ask`.
    pub fn by_descriptor<T>(
        &self,
        mut ask: impl FnMut(&dyn FileSystem) -> Result<T>,
    ) -> Result<(usize, T)> {
        for (index, layer) in self.layers.iter().enumerate() {
            match ask(&*layer.fs) {
                Err(error) if matches!(error.errno(), Errno::EXDEV | Errno::ENOSYS) => {}
                answer => return Ok((index, answer?)),
            }
        }
        Err(Errno::EXDEV.into())
    }

    /// What `entry` of layer `index` is, whose reference is given back.
    pub fn identified(&self, index: usize, entry: Entry) -> Result<Entry> {
        let layer = &self.layers[index];
        let part = Part {
            layer: index,
            node: entry.attributes.node,
            attribute_whiteouts: false,
        };
        let node = match self.nodes.refer(part, |_| true) {
            _ if part.node == layer.root => Ok(self.root),
            Some(node) => Ok(node),
            None => {
                let is_upper = index == 0 && self.settings.upper;
                let path = match is_upper {
                    true => self.upper_path(part.node),
                    false => layer.fs.path_of(part.node),
                };
                path.and_then(|path| {
                    let node = self.walk(&path)?;
                    let parts = self.parts(node)?;
                    let mut all = parts.all();
                    let is_it = all.any(|one| (one.layer, one.node) == (index, part.node));
                    // A file that was copied since is the copy.
                    let was = self.number(index, part.node) == node && !is_upper;
                    match is_it || was {
                        true => Ok(node),
                        false => {
                            self.give_back(self.nodes.forget(node, 1));
                            Err(Errno::EXDEV.into())
                        }
                    }
                })
            }
        };
        let node = match node {
            Ok(node) => node,
            // It has no name any more, and is known by what it is.
            Err(_) if entry.attributes.kind != FileKind::Directory => {
                let mut found = Found::made(self.number(index, part.node), entry.attributes);
                if index > 0 || !self.settings.upper {
                    found.seen.parts = Parts {
                        upper: None,
                        lowers: [part].into(),
                    };
                }
                return self.enter(None, found, self.look_for_changes());
            }
            Err(error) => {
                layer.fs.forget(part.node, 1);
                return Err(error);
            }
        };
        layer.fs.forget(part.node, 1);
        let attributes = self.attributes(node)?;
        Ok(Entry { attributes })
    }
}
