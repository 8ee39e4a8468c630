//! A name below directories that were used lately, as most paths are: a branch is asked only where
//! the ones before it do not have the name.
//!
//! What the first branch has that is no directory hides all others, so these need not be asked what
//! the directory is on them. Whether it is still what is known of it is asked of those that matter.

use super::control::NAME;
use super::found::Found;
use super::options::{Follow, Function};
use super::state::{At, Core, Parts};
use alloc::vec::Vec;
use culvert::{Caller, Entry, Errno, FileKind, Node, Reached, Result};

/// A directory, how one came there, and a name in it.
type Near<'a> = (Node, Way<'a>, &'a [u8]);

/// Directories, and the name of the next in each.
type Way<'a> = Vec<(Node, &'a [u8])>;

const fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// The only branch that has a directory, which is `parts`.
pub fn only(parts: &Parts) -> Option<usize> {
    let mut all = parts.iter().enumerate().filter(|part| part.1.is_some());
    let first = all.next()?;
    all.next().is_none().then_some(first.0)
}

impl Core {
    /// [`culvert::FileSystem::reach`] of `path`, where that is easy to say.
    pub fn reach_lately(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        follow: Follow,
    ) -> Option<Result<Reached>> {
        if !self.settings().policy(Function::Getattr).is_first() {
            return None;
        }
        let (parent, way, name) = self.lately(from, path)?;
        match self.in_known(&way, (parent, name), caller, follow) {
            Some(entry) => Some(Ok(Reached { entry, parent })),
            None => {
                self.leave(from, parent);
                None
            }
        }
    }

    /// [`culvert::FileSystem::reach_new`] of `path`, where one branch alone can have the name, and
    /// is not asked: its directory is [whole](Core::is_whole), and it makes a file there or
    /// refuses. So it is where no other branch has the directory, or
    /// [the name](Core::alone_may_have).
    pub fn reach_new(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Reached> {
        let (parent, _, name) = self.lately(from, path)?;
        let is_new = || {
            if self.capabilities.read_only || (parent, name) == (super::ROOT, NAME) {
                return None;
            }
            let stamp = self.names.stamp(name);
            let parts = self.known_parts(parent).ok()?;
            let known = || self.alone_may_have(caller, (parent, &parts), name);
            let index = only(&parts).or_else(known)?;
            let makes = self.branches[index].creates();
            (makes && self.is_whole(caller, parent, &parts)).then_some((stamp, index))
        };
        match is_new() {
            Some((stamp, index)) => {
                self.not_looked((parent, name), stamp, index);
                Some(Reached {
                    entry: None,
                    parent,
                })
            }
            None => {
                self.leave(from, parent);
                None
            }
        }
    }

    /// The reference on `parent` is nobody's, unless it is where one began.
    fn leave(&self, from: Node, parent: Node) {
        if parent != from {
            self.nodes.forget(parent, 1).give_back();
        }
    }

    /// The directory above the last name of `path`, below `from`, should those on the way have been
    /// used lately: with a reference, unless it is `from`.
    fn lately<'p>(&self, from: Node, path: &'p [u8]) -> Option<Near<'p>> {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (above, name) = match slash {
            None => (None, path),
            Some(slash) => (Some(path.get(..slash)?), path.get(slash + 1..)?),
        };
        let (mut parent, mut way) = (from, Way::new());
        for step in above.into_iter().flat_map(|above| above.split(is_slash)) {
            let next = self.nodes.used_lately(parent, step);
            // What is below keeps it.
            self.leave(from, parent);
            way.push((parent, step));
            parent = next?;
        }
        Some((parent, way, name))
    }

    /// What `name` in the directory `dir` is, to which this `way` leads: on the outside none where
    /// only a look at all branches tells. A directory to which no way leads is believed where all
    /// branches have it.
    fn in_known(
        &self,
        way: &Way<'_>,
        (dir, name): At<'_>,
        caller: &Caller<'_>,
        follow: Follow,
    ) -> Option<Option<Entry>> {
        if (dir, name) == (super::ROOT, NAME) {
            return None;
        }
        let stamp = self.names.stamp(name);
        let parts = self.known_parts(dir).ok()?;
        let whole = self.is_whole(caller, dir, &parts);
        // Of the way nobody asks then.
        let over = match whole {
            true => Vec::new(),
            false => {
                let each = way.iter().map(|(dir, _)| self.known_parts(*dir));
                each.collect::<Result<Vec<_>>>().ok()?
            }
        };
        for (index, &part) in parts.iter().enumerate() {
            let leads = match whole {
                true => part.is_some(),
                false => self.leads(caller, (way, &over), index, part)?,
            };
            if !leads {
                continue;
            }
            // With a reference, by which it is used next: that costs no more where the branch has
            // its own way to give one.
            let branch = &self.branches[index];
            let found = match branch.fs.reach(caller, part?, name) {
                Some(reached) => match reached.ok()?.entry {
                    Some(entry) => Found::new(branch, entry),
                    None => continue,
                },
                None => match self.find_exactly(caller, index, part?, name) {
                    Err(error) if error.errno() == Errno::ENOENT => continue,
                    found => found.ok()?,
                },
            };
            return match found.kind() {
                FileKind::Directory => None,
                FileKind::Symlink if follow != Follow::Never => None,
                _ => {
                    let attributes = found.entry.attributes;
                    let entry = self.enter(Some((dir, name)), Vec::from([(index, found)]));
                    let entry = entry.ok()?;
                    self.looked((dir, name), stamp, (index + 1, whole), Some(attributes));
                    Some(Some(entry))
                }
            };
        }
        self.looked((dir, name), stamp, (self.branches.len(), whole), None);
        Some(None)
    }

    /// Whether `way`, whose directories are `over`, leads to `part` on branch `index`, and is
    /// nowhere where that is none; none: to something else.
    fn leads(
        &self,
        caller: &Caller<'_>,
        (way, over): (&Way<'_>, &[Parts]),
        index: usize,
        part: Option<Node>,
    ) -> Option<bool> {
        for (at, (_, step)) in way.iter().enumerate() {
            let next = over.get(at + 1).map_or(part, |next| next[index]);
            match (self.find(caller, index, over[at][index]?, step), next) {
                (Ok(found), Some(next)) if found.node() == next => {}
                (Err(error), None) if error.errno() == Errno::ENOENT => {
                    let is_below = |next: &Parts| next[index].is_some();
                    let below = over.iter().skip(at + 1).any(is_below) || part.is_some();
                    return (!below).then_some(false);
                }
                _ => return None,
            }
        }
        Some(true)
    }
}
