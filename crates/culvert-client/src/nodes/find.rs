//! What is known of names and nodes, and may be believed.

use super::{Back, Found, JUST_NOW, Known, Named, Nodes};
use crate::words::{Shared, is_read_only};
use alloc::vec::Vec;
use culvert::{Attributes, Errno, FileKind, Result, Timespec};
use culvert_wire::ROOT_ID;

impl Nodes {
    /// The attributes of `node`, if they may be believed.
    pub fn believed(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
    ) -> Option<Attributes> {
        let mut table = self.0.lock();
        table.told(told);
        table.nodes.get(&node)?.believed(words, now, node)
    }

    /// What was said last of the attributes of `node`, but for its time of access, if nobody has
    /// changed them; and whether the server lets that be believed still.
    pub fn mostly_known(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
    ) -> Option<(Attributes, bool)> {
        let mut table = self.0.lock();
        table.told(told);
        let known = table.nodes.get(&node)?;
        let unchanged = words.is_shared && is_read_only(known.stamp, words.of_node(node));
        let attributes = known.attributes.filter(|_| unchanged)?;
        Some((attributes, now < known.expires))
    }

    /// The attributes of `node`, if they may be believed but for its size, times and, of a
    /// directory, links.
    pub fn rights(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
    ) -> Option<Attributes> {
        let mut table = self.0.lock();
        table.told(told);
        table.nodes.get(&node)?.rights(words, now, node)
    }

    /// When `node` was made, if the server was asked; none within: it does not say so.
    pub fn birth_time(&self, node: u64) -> Option<Option<Timespec>> {
        self.0.lock().nodes.get(&node)?.made
    }

    /// What `name` in `dir` is, if that may be believed.
    pub fn find(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Result<Found> {
        let mut table = self.0.lock();
        table.told(told);
        let parent = table.nodes.get_mut(&dir).ok_or(Errno::ESTALE)?;
        if parent.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        parent.lists_plus = true;
        let Some(named) = table.named(dir, name) else {
            return Ok(Found::Unknown(None));
        };
        let candidate = Some(named.node).filter(|&node| node != 0);
        if !named.is_believed(words, now, dir, name) {
            return Ok(Found::Unknown(candidate));
        }
        let Some(node) = candidate else {
            return Ok(Found::Absent);
        };
        let Some(known) = table.nodes.get_mut(&node) else {
            return Ok(Found::Unknown(None));
        };
        // Names in a directory change it, and not what its own name means: who wants its times
        // asks.
        let is_directory = known.kind == FileKind::Directory;
        let rights = || known.rights(words, now, node).filter(|_| is_directory);
        let believed = known.mostly_believed(words, now, node).or_else(rights);
        Ok(match believed {
            Some(attributes) => {
                known.references = known.references.saturating_add(1);
                Found::Node(attributes)
            }
            None => Found::Unknown(candidate),
        })
    }

    /// What all remember of `name` in `dir`, if that may be believed and its node held: known here
    /// from now on, as if this process had looked it up. None: the server is to be asked.
    pub fn take_over(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Option<(Found, Back)> {
        let record = words.remembered_name((now, told), dir, name)?;
        let mut table = self.0.lock();
        if table.told != told || !table.nodes.contains_key(&dir) {
            return None;
        }
        let named = Named {
            node: record.node,
            expires: record.expires,
            stamp: record.stamp,
            seen: now,
        };
        if record.node == 0 {
            table.leave_known_name(dir, name);
            table.put_name(dir, name, named);
            return Some((Found::Absent, Vec::new()));
        }
        let node = record.node;
        let found = words.remembered_node((now, told), node)?;
        let (account, attributes) = (record.account?, found.attributes);
        // Under its number there may have been another node since.
        let is_same = words.is_held(account) && found.account.is_some_and(|of| words.is_held(of));
        if node == ROOT_ID || node == dir || !is_same {
            return None;
        }
        match table.nodes.get(&node) {
            // Another one, under its number.
            Some(known)
                if known.kind != attributes.kind
                    || known.generation.is_some_and(|is| is != found.generation) =>
            {
                return None;
            }
            Some(known) if known.account.is_some() || known.lookups > 0 => {}
            _ if !words.join(account) => return None,
            _ => {
                let new = || Known::new(attributes.kind, None);
                table.nodes.entry(node).or_insert_with(new).account = Some(account);
            }
        }
        let known = table.nodes.get_mut(&node)?;
        known.generation = Some(found.generation);
        known.references = known.references.saturating_add(1);
        known.attributes = Some(attributes);
        known.stamp = found.stamp;
        known.expires = found.expires;
        table.move_to(node, dir, name);
        table.put_name(dir, name, named);
        let back = match table.nodes.len() + table.named > table.sweep_at {
            true => table.sweep(words, now),
            false => Vec::new(),
        };
        Some((Found::Node(attributes), back))
    }

    /// What all remember of the attributes of `node`, which is known here, if that may be believed;
    /// with `lags` all but its time of access.
    pub fn take_attributes(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
        lags: bool,
    ) -> Option<Attributes> {
        let found = words.remembered_node((now, told), node)?;
        let mut table = self.0.lock();
        if table.told != told {
            return None;
        }
        let known = table.nodes.get_mut(&node)?;
        let other = known.generation.is_some_and(|is| is != found.generation);
        if !lags && found.stamp != words.of_node(node) {
            return None;
        }
        // Under its number there may have been another node since.
        let is_same = node == ROOT_ID || found.account.is_some_and(|of| words.is_held(of));
        if other || known.kind != found.attributes.kind || !is_same {
            return None;
        }
        known.attributes = Some(found.attributes);
        known.stamp = found.stamp;
        known.expires = found.expires;
        Some(found.attributes)
    }

    /// The directory that `name` in `dir` is, if that may be believed, whatever its attributes are
    /// now; one more reference on it.
    pub fn step(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Option<u64> {
        let mut table = self.0.lock();
        table.told(told);
        let named = table.named(dir, name)?;
        if !named.is_believed(words, now, dir, name) {
            return None;
        }
        let known = table.nodes.get_mut(&named.node)?;
        if known.kind != FileKind::Directory {
            return None;
        }
        known.references = known.references.saturating_add(1);
        Some(named.node)
    }

    /// Whether `name` in `dir` was looked up just now and was not there.
    pub fn just_absent(&self, words: Shared<'_>, now: u64, dir: u64, name: &[u8]) -> bool {
        let table = self.0.lock();
        let recent = |named: Named| {
            let same = words.is_shared && words.name(dir, name).now() == named.stamp;
            named.node == 0 && same && now.saturating_sub(named.seen) < JUST_NOW
        };
        table.named(dir, name).is_some_and(recent)
    }

    /// What the name led to last, and how often that has changed.
    pub fn candidate(&self, words: Shared<'_>, node: Option<u64>) -> Option<(u64, u64)> {
        node.map(|node| (node, words.of_node(node)))
    }
}
