//! Names that change, and ways up.

use super::{Back, DEEPEST, Known, Nodes, Step};
use crate::words::Shared;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node, Result};
use culvert_wire::ROOT_ID;

impl Nodes {
    /// `node` was made in `dir` without a name.
    pub fn unname(&self, node: u64, dir: u64) {
        let mut table = self.0.lock();
        table.leave_known_name(dir, b"");
        if let Some(known) = table.nodes.get_mut(&node) {
            known.name = None;
        }
    }

    /// `name` in `dir` is gone, or leads elsewhere: it means nothing here any more.
    pub fn remove(&self, words: Shared<'_>, dir: u64, name: &[u8]) -> Back {
        let mut table = self.0.lock();
        let node = table.leave_name(dir, name);
        match node.filter(|node| table.is_droppable(*node)) {
            Some(node) => table.drop_node(node, words),
            None => Vec::new(),
        }
    }

    /// What was `from` is `to`; with `exchange` the other way round too.
    pub fn rename(
        &self,
        words: Shared<'_>,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        exchange: bool,
    ) -> Back {
        let mut table = self.0.lock();
        let moved = table.leave_name(from.0, from.1);
        let replaced = table.leave_name(to.0, to.1);
        if let Some(node) = moved {
            table.move_to(node, to.0, to.1);
        }
        match replaced {
            Some(node) if exchange => {
                table.move_to(node, from.0, from.1);
                Vec::new()
            }
            Some(node) if table.is_droppable(node) => table.drop_node(node, words),
            _ => Vec::new(),
        }
    }

    /// The node that `name` in `dir` led to last, if that is known, and its kind.
    pub fn last(&self, dir: u64, name: &[u8]) -> Option<(u64, FileKind)> {
        let table = self.0.lock();
        let node = table.named(dir, name)?.node;
        Some((node, table.nodes.get(&node)?.kind))
    }

    /// The node that was looked up last as `name` in `dir`, or moved there.
    pub fn last_node(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let table = self.0.lock();
        let named = table.named(dir, name).map(|named| named.node);
        let moved = || {
            let is = |known: &Known| known.parent == dir && known.name.as_deref() == Some(name);
            let found = table.nodes.iter().find(|(_, known)| is(known));
            found.map(|(node, _)| *node)
        };
        named.filter(|&node| node != 0).or_else(moved)
    }

    /// The directory of `node`.
    pub fn parent(&self, node: u64) -> Result<Node> {
        let table = self.0.lock();
        let known = table.nodes.get(&node).ok_or(Errno::ESTALE)?;
        if known.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        match (node, &known.name) {
            (ROOT_ID, _) => Ok(Node(ROOT_ID)),
            (_, Some(_)) => Ok(Node(known.parent)),
            (_, None) => Err(Errno::ENOENT.into()),
        }
    }

    /// From `node` up to `above`, if it is that or lies in it, as far as that is known.
    pub fn way(&self, node: u64, above: u64) -> Option<Vec<Step>> {
        let table = self.0.lock();
        let (mut way, mut at) = (Vec::new(), node);
        while at != above {
            let known = table.nodes.get(&at).filter(|_| at != ROOT_ID)?;
            way.push((at, known.parent, known.name.clone()?));
            at = known.parent;
            if way.len() > DEEPEST {
                return None;
            }
        }
        Some(way)
    }

    /// The path of `node` below the root.
    pub fn path(&self, node: u64) -> Result<Vec<u8>> {
        let table = self.0.lock();
        let (mut names, mut at) = (Vec::new(), node);
        while at != ROOT_ID {
            let error = if at == node {
                Errno::ESTALE
            } else {
                Errno::ENOENT
            };
            let known = table.nodes.get(&at).ok_or(error)?;
            names.push(known.name.as_ref().ok_or(Errno::ENOENT)?);
            at = known.parent;
            if names.len() > DEEPEST {
                return Err(Errno::EIO.into());
            }
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Ok(path)
    }
}
