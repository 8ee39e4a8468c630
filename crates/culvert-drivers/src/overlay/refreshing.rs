//! What other processes have copied or removed meanwhile.

use super::looking::Search;
use super::marks::{Look, Mark};
use super::state::Core;
use alloc::vec::Vec;
use culvert::{Attributes, Errno, FileKind, Node, Result};

/// How many directories one below the other are looked for again at most.
const DEEPEST: usize = 4096;

impl Core {
    /// Looks in the upper layer for what other processes may have copied meanwhile: `node`, and the
    /// directories above it.
    pub fn refresh(&self, node: Node) -> Result<()> {
        self.look_again(node)?;
        let mut way = Vec::new();
        let mut here = node;
        let checked = self.look_for_changes();
        loop {
            let (is_done, place) = self.nodes.with(here, |known| {
                let is_done = known.parts.upper.is_some() || known.gone;
                (is_done || self.is_fresh(known.checked), known.place.clone())
            })?;
            let Some((dir, name)) = place.filter(|_| !is_done) else {
                break;
            };
            way.push((here, dir, name));
            here = dir;
            if way.len() == DEEPEST {
                return Err(Errno::ELOOP.into());
            }
        }
        for (node, dir, name) in way.into_iter().rev() {
            let (above, gone) = self
                .nodes
                .with(dir, |known| (known.parts.upper, known.gone))?;
            let kind = self.nodes.with(node, |known| known.kind)?;
            let mut is_gone = gone;
            if let Some(above) = above.filter(|_| !gone) {
                match self.look_in(&above, &name)? {
                    Look::Nothing => {}
                    Look::Whiteout => is_gone = true,
                    Look::Found(found) if found.kind != kind => {
                        self.fs(above).forget(found.node, 1);
                        is_gone = true;
                    }
                    Look::Found(found) => {
                        is_gone = !self.is_copy((dir, &name), node, found)?;
                    }
                }
            }
            self.nodes.with(node, |known| {
                known.gone |= is_gone;
                known.checked = known.checked.max(checked);
            })?;
        }
        Ok(())
    }

    /// Looks again at what `node` is in the upper layer: a directory that another process may have
    /// removed, or a copy whose bytes it may have fetched.
    fn look_again(&self, node: Node) -> Result<()> {
        let checked = self.look_for_changes();
        let upper = self.nodes.with(node, |known| {
            let may_change = match known.kind {
                FileKind::Directory => node != self.root && !known.gone,
                FileKind::Regular => known.parts.is_merged(),
                _ => false,
            };
            let asks = may_change && !self.is_fresh(known.checked);
            known.parts.upper.filter(|_| asks)
        })?;
        let Some(upper) = upper else {
            return Ok(());
        };
        let kind = self.nodes.with(node, |known| known.kind)?;
        let changed = match kind {
            FileKind::Directory => self
                .attributes_of(upper)
                .is_ok_and(|found| found.links == 0),
            _ => !self.has_mark(upper.layer, upper.node, Mark::Metacopy)?,
        };
        self.nodes.with(node, |known| {
            known.checked = known.checked.max(checked);
            match (changed, kind) {
                (true, FileKind::Directory) => known.gone = true,
                (true, _) => known.parts.lowers.clear(),
                (false, _) => {}
            }
        })
    }

    /// Whether what was `found` in the upper layer is a copy of `node`, which is made it then.
    fn is_copy(&self, place: (Node, &[u8]), node: Node, found: Attributes) -> Result<bool> {
        let (one, next) = self.found_above(place, found)?;
        let is_it = match (found.kind, next) {
            (FileKind::Directory, Some(Search::Beside(name))) => name == place.1,
            (FileKind::Directory, _) => false,
            _ => one.seen.number == node,
        };
        let Some(part) = one.seen.parts.upper.filter(|_| is_it) else {
            self.leave(one);
            return Ok(false);
        };
        let lacks_bytes = self.has_mark(part.layer, part.node, Mark::Metacopy)?;
        self.nodes.raised(node, part, !lacks_bytes)?;
        Ok(true)
    }
}
