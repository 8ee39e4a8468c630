//! Who uses a node, and until when this process holds it.

use super::{Back, Known, Nodes};
use crate::{holders::Account, words::Shared};
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Result};
use culvert_wire::ROOT_ID;

impl Nodes {
    /// The front end gives `count` references back.
    pub fn forget(&self, words: Shared<'_>, node: u64, count: u64) -> Back {
        self.less(words, node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// One more file or hold on `node`.
    pub fn hold(&self, node: u64) -> Result<()> {
        let mut table = self.0.lock();
        let known = table.nodes.get_mut(&node).ok_or(Errno::ESTALE)?;
        known.uses = known.uses.saturating_add(1);
        Ok(())
    }

    /// The server has a request on `node` in hand that nobody waits for: what it has counted so far
    /// nobody gives back.
    pub fn keep(&self, words: Shared<'_>, node: u64) {
        if let Some(known) = self.0.lock().nodes.get_mut(&node) {
            known.lookups = 0;
            if let Some(account) = known.account {
                words.keep(account);
            }
        }
    }

    /// The end of one.
    pub fn release(&self, words: Shared<'_>, node: u64) -> Back {
        self.less(words, node, |known| {
            known.uses = known.uses.saturating_sub(1);
        })
    }

    fn less(&self, words: Shared<'_>, node: u64, change: impl FnOnce(&mut Known)) -> Back {
        let mut table = self.0.lock();
        let Some(known) = table.nodes.get_mut(&node) else {
            return Vec::new();
        };
        change(known);
        let nameless = known.name.is_none() && !known.is_used() && node != ROOT_ID;
        match nameless {
            true => table.drop_node(node, words),
            false => Vec::new(),
        }
    }

    /// A file that another process, or an earlier program of this one, has opened: its node is
    /// known here from now on, by no lookup of ours.
    pub fn adopt(&self, words: Shared<'_>, node: u64, account: Option<Account>) {
        let mut table = self.0.lock();
        let known = table
            .nodes
            .entry(node)
            .or_insert_with(|| Known::new(FileKind::Regular, None));
        known.uses = known.uses.saturating_add(1);
        if known.account.is_none() && known.lookups == 0 {
            known.account = account.filter(|&account| words.join(account));
        }
    }

    /// The account by which this process holds `node`.
    pub fn account(&self, node: u64) -> Option<Account> {
        self.0.lock().nodes.get(&node)?.account
    }

    /// Drops what nobody uses.
    pub fn drop_unused(&self, words: Shared<'_>) -> Back {
        let mut table = self.0.lock();
        table.names.clear();
        table.named = 0;
        table.sweep(words, u64::MAX)
    }

    /// Whether anything is held by an account.
    pub fn has_accounts(&self) -> bool {
        let table = self.0.lock();
        table.nodes.values().any(|known| known.account.is_some())
    }

    /// Whether that is so, or a file open.
    pub fn holds_any(&self) -> bool {
        let table = self.0.lock();
        let holds = |known: &Known| known.account.is_some() || known.uses > 0;
        table.nodes.values().any(holds)
    }

    /// This is the child of a fork: what the parent has looked up is the parent's to give back. The
    /// child has a part in the parent's accounts from here on; what the parent has given back
    /// before it came to this is known no more.
    pub fn forked(&self, words: Shared<'_>) {
        let mut table = self.0.lock();
        table.names.clear();
        table.named = 0;
        let mut lost = Vec::new();
        for (&node, known) in &mut table.nodes {
            known.lookups = 0;
            match known.account {
                Some(account) if words.join(account) => {}
                Some(account) if words.place.is_some() || !words.keep(account) => lost.push(node),
                _ => known.account = None,
            }
        }
        for node in lost {
            if let Some(known) = table.nodes.remove(&node) {
                table.leaves(known.parent);
            }
        }
    }
}
