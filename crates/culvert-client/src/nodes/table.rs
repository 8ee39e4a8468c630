//! The table of nodes and names itself.

use super::{Back, KEPT, Known, Named, Table};
use crate::words::{RIGHTS, Shared, has_same_rights, is_read_only};
use alloc::vec::Vec;
use culvert::Attributes;
use culvert_wire::{ROOT_ID, structures::ForgetOne};

impl Known {
    pub(super) fn believed(&self, words: Shared<'_>, now: u64, node: u64) -> Option<Attributes> {
        let unread = words.of_node(node) == self.stamp;
        self.mostly_believed(words, now, node).filter(|_| unread)
    }

    /// The same whatever has been read meanwhile: the time of access may be an older one.
    pub(super) fn mostly_believed(
        &self,
        words: Shared<'_>,
        now: u64,
        node: u64,
    ) -> Option<Attributes> {
        let unchanged = is_read_only(self.stamp, words.of_node(node));
        let believed = words.is_shared && now < self.expires && unchanged;
        self.attributes.filter(|_| believed)
    }

    /// The same whatever has changed but who may do what: size, times and, of a directory, links
    /// may be older ones.
    pub(super) fn rights(&self, words: Shared<'_>, now: u64, node: u64) -> Option<Attributes> {
        let same = has_same_rights(self.stamp, words.of_node(node));
        let believed = words.is_shared && now < self.expires && same;
        self.attributes.filter(|_| believed)
    }
}

impl Named {
    pub(super) fn is_believed(&self, words: Shared<'_>, now: u64, dir: u64, name: &[u8]) -> bool {
        words.is_shared && now < self.expires && words.name(dir, name).now() == self.stamp
    }
}

impl Table {
    /// The server has sent so many notifications.
    pub(super) fn told(&mut self, told: u64) {
        if self.told != told {
            self.told = told;
            self.names.clear();
            self.named = 0;
            for known in self.nodes.values_mut() {
                known.expires = 0;
                known.stamp = known.stamp.wrapping_sub(RIGHTS);
            }
        }
    }

    pub(super) fn named(&self, dir: u64, name: &[u8]) -> Option<Named> {
        self.names.get(&dir)?.get(name).copied()
    }

    pub(super) fn put_name(&mut self, dir: u64, name: &[u8], named: Named) {
        let names = self.names.entry(dir).or_default();
        if names.insert(name.into(), named).is_none() {
            self.named += 1;
        }
    }

    /// Takes the name off; the node that it led to.
    pub(super) fn leave_name(&mut self, dir: u64, name: &[u8]) -> Option<u64> {
        self.leave_known_name(dir, name).or_else(|| {
            // What names led to was dropped since: the nodes know.
            let mut all = self.nodes.iter_mut();
            let has = |known: &Known| known.parent == dir && known.name.as_deref() == Some(name);
            let (node, known) = all.find(|(_, known)| has(known))?;
            known.name = None;
            Some(*node)
        })
    }

    pub(super) fn leave_known_name(&mut self, dir: u64, name: &[u8]) -> Option<u64> {
        let names = self.names.get_mut(&dir)?;
        let named = names.remove(name)?;
        self.named = self.named.saturating_sub(1);
        if names.is_empty() {
            self.names.remove(&dir);
        }
        let known = self.nodes.get_mut(&named.node)?;
        if known.parent == dir && known.name.as_deref() == Some(name) {
            known.name = None;
        }
        Some(named.node)
    }

    /// `node` lies in `dir` under `name`.
    pub(super) fn move_to(&mut self, node: u64, dir: u64, name: &[u8]) {
        if node == ROOT_ID {
            return;
        }
        let Some(known) = self.nodes.get_mut(&node) else {
            return;
        };
        if known.name.as_deref() != Some(name) {
            known.name = Some(name.into());
        }
        let before = core::mem::replace(&mut known.parent, dir);
        if before != dir {
            self.leaves(before);
            if let Some(parent) = self.nodes.get_mut(&dir) {
                parent.children = parent.children.saturating_add(1);
            }
        }
    }

    /// A node does not lie in `dir` any more.
    pub(super) fn leaves(&mut self, dir: u64) {
        if let Some(parent) = self.nodes.get_mut(&dir) {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    pub(super) fn is_droppable(&self, node: u64) -> bool {
        node != ROOT_ID && self.nodes.get(&node).is_some_and(|known| !known.is_used())
    }

    /// Drops a node that nobody uses.
    pub(super) fn drop_node(&mut self, node: u64, words: Shared<'_>) -> Back {
        let Some(known) = self.nodes.remove(&node) else {
            return Vec::new();
        };
        self.leaves(known.parent);
        if let Some(names) = self.names.remove(&node) {
            self.named = self.named.saturating_sub(names.len());
        }
        if let Some(name) = &known.name
            && let Some(names) = self.names.get_mut(&known.parent)
            && names.get(&**name).is_some_and(|named| named.node == node)
        {
            names.remove(&**name);
            self.named = self.named.saturating_sub(1);
        }
        let of_account = known.account.and_then(|account| match &known.name {
            Some(_) => words.leave(account),
            None => words.leave_nameless(account),
        });
        // A child of a fork since then may have it, too.
        let held = known.account.is_some();
        let own = match held || known.born == words.forks() {
            true => known.lookups,
            false => 0,
        };
        let nlookup = own + of_account.unwrap_or(0);
        let one = ForgetOne {
            nodeid: node,
            nlookup,
        };
        (nlookup > 0).then_some(one).into_iter().collect()
    }

    /// Drops nodes that nobody uses, from the leaves up, and names that are not believed.
    pub(super) fn sweep(&mut self, words: Shared<'_>, now: u64) -> Back {
        let mut back = Vec::new();
        loop {
            let unused = self.nodes.iter().filter(|(_, known)| {
                // Before all that may still be believed goes, what may not.
                !known.is_used() && (known.expires <= now || self.nodes.len() > KEPT)
            });
            let unused: Vec<u64> = unused
                .map(|(&node, _)| node)
                .filter(|&node| node != ROOT_ID)
                .collect();
            if unused.is_empty() {
                break;
            }
            for node in unused {
                back.extend(self.drop_node(node, words));
            }
        }
        if self.named > KEPT {
            self.names.clear();
            self.named = 0;
        }
        self.sweep_at = KEPT.max(2 * (self.nodes.len() + self.named));
        back
    }
}
