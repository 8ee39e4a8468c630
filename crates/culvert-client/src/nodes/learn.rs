//! What the server has said, from here on.

use super::{Back, Before, Entered, Known, Named, Nodes};
use crate::{
    remembered::{NameRecord, NodeRecord},
    words::{RIGHTS, Shared, is_read_only},
};
use alloc::vec::Vec;
use culvert::{Attributes, Errno, FileKind, Result, Timespec};
use culvert_wire::{ROOT_ID, structures::ForgetOne};

impl Nodes {
    /// The name was not there, as the server said for `valid` nanoseconds.
    pub fn absent(
        &self,
        words: Shared<'_>,
        (dir, name): (u64, &[u8]),
        before: &Before,
        valid: u64,
    ) {
        let mut table = self.0.lock();
        // Somebody has made it since.
        if words.name(dir, name).now() != before.name {
            return;
        }
        table.leave_known_name(dir, name);
        let expires = before.now.saturating_add(valid);
        if valid > 0 && table.told == before.told {
            let known = NameRecord {
                expires,
                node: 0,
                stamp: before.name,
                told: before.told,
                account: None,
            };
            words.remember_name(dir, name, &known);
        }
        if table.nodes.contains_key(&dir) {
            table.put_name(
                dir,
                name,
                Named {
                    node: 0,
                    expires,
                    stamp: before.name,
                    seen: before.now,
                },
            );
        }
    }

    /// The server has counted one more lookup of a node; with `reference` the front end gets one.
    /// What is to be given back, and the error: `EIO` where the node is another than the one that
    /// is in use under its number (`fuse_stale_inode`, fs/fuse/inode.c).
    pub fn enter(
        &self,
        words: Shared<'_>,
        before: &Before,
        entered: &Entered<'_>,
        reference: bool,
    ) -> (Back, Result<()>) {
        let mut table = self.0.lock();
        let node = entered.node;
        let (dir, name) = entered.at;
        let attributes = &entered.attributes;
        let differs = table.nodes.get(&node).is_some_and(|known| {
            let other = |known| known != entered.generation;
            known.generation.is_some_and(other) || known.kind != attributes.kind
        });
        let mut back = Vec::new();
        if differs {
            let used = table.nodes.get(&node).is_some_and(Known::is_used) || node == ROOT_ID;
            if used {
                back.push(ForgetOne {
                    nodeid: node,
                    nlookup: 1,
                });
                return (back, Err(Errno::EIO.into()));
            }
            back.extend(table.drop_node(node, words));
        }
        let (stamp, times_tell) = (words.of_node(node), table.times_tell);
        let untold = before.told == table.told;
        let (steady, stamp) = match before.candidate {
            Some((candidate, then)) if candidate == node => (is_read_only(then, stamp), then),
            _ => (before.all == words.of_all(), stamp),
        };
        let known = table
            .nodes
            .entry(node)
            .or_insert_with(|| Known::new(attributes.kind, None));
        known.generation = Some(entered.generation);
        if known.account.is_none() && known.lookups == 0 {
            let (account, evicted) = words.take_account(node);
            known.account = account;
            back.extend(evicted);
        } else if let Some(account) = known.account {
            words.count_lookup(account);
        }
        // A child of a fork since then has the node by those from before, unless by the account:
        // they are not given back.
        let forks = words.forks();
        let is_older = core::mem::replace(&mut known.born, forks) != forks;
        if known.account.is_none() {
            known.lookups = match is_older {
                true => 1,
                false => known.lookups.saturating_add(1),
            };
        }
        known.references = known.references.saturating_add(u64::from(reference));
        known.says(words, attributes, times_tell);
        // Where others have changed it meanwhile, it is not even what it was last.
        known.stamp = match steady {
            true => stamp,
            false => stamp.wrapping_sub(RIGHTS),
        };
        known.expires = match steady && untold {
            true => entered.attributes_expire,
            false => 0,
        };
        let account = known.account;
        if known.expires > before.now && account.is_some() {
            words.remember_node(&NodeRecord {
                expires: known.expires,
                generation: entered.generation,
                stamp,
                told: before.told,
                account,
                attributes: *attributes,
            });
        }
        // Where it has a name, and this one has changed since, the other may be the newer.
        let changed = words.name(dir, name).now() != before.name;
        if !changed || known.name.is_none() {
            table.move_to(node, dir, name);
            let named = Named {
                node,
                expires: match untold {
                    true => entered.name_expires,
                    false => 0,
                },
                stamp: before.name,
                seen: before.now,
            };
            if named.expires > before.now && account.is_some() {
                let known = NameRecord {
                    expires: named.expires,
                    node,
                    stamp: before.name,
                    told: before.told,
                    account,
                };
                words.remember_name(dir, name, &known);
            }
            table.put_name(dir, name, named);
        }
        if table.nodes.len() + table.named > table.sweep_at {
            back.extend(table.sweep(words, before.now));
        }
        (back, Ok(()))
    }

    /// What the server says of a node that is known: `EIO` where it is something else
    /// (`inode_wrong_type`, fs/fuse/dir.c). Believed until `expires` if it has changed `stamp`
    /// times still.
    pub fn learn(
        &self,
        words: Shared<'_>,
        node: u64,
        attributes: &Attributes,
        expires: u64,
        (stamp, told): (u64, u64),
    ) -> Result<()> {
        let mut table = self.0.lock();
        let (same, times_tell) = (table.told == told, table.times_tell);
        let Some(known) = table.nodes.get_mut(&node) else {
            return Ok(());
        };
        if known.kind != attributes.kind {
            return Err(Errno::EIO.into());
        }
        known.says(words, attributes, times_tell);
        known.stamp = stamp;
        let steady = same && is_read_only(stamp, words.of_node(node));
        known.expires = if steady { expires } else { 0 };
        let account = known.account;
        let lasts = known.expires > 0 && (account.is_some() || node == ROOT_ID);
        if let Some(generation) = known.generation.filter(|_| lasts) {
            words.remember_node(&NodeRecord {
                expires,
                generation,
                stamp,
                told,
                account,
                attributes: *attributes,
            });
        }
        Ok(())
    }
}

impl Nodes {
    /// The server has said when `node` was made, or has answered without saying it.
    pub fn made_at(&self, node: u64, made: Option<Timespec>) {
        if let Some(known) = self.0.lock().nodes.get_mut(&node) {
            known.made = Some(made);
        }
    }
}

impl Known {
    /// The server has said so. Where its bytes are others for that, all hear of it
    /// (`fuse_change_attributes_i`, fs/fuse/inode.c).
    fn says(&mut self, words: Shared<'_>, attributes: &Attributes, times_tell: bool) {
        let of_bytes = |of: &Attributes| (of.size, Some(of.mtime).filter(|_| times_tell));
        let before = self.attributes.replace(*attributes);
        let regular = attributes.kind == FileKind::Regular;
        if regular && before.is_some_and(|before| of_bytes(&before) != of_bytes(attributes)) {
            words.content(attributes.node.0).changed();
        }
    }
}
