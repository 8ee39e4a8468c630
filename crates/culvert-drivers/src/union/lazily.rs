//! A name below directories that were used lately, as most paths are: a branch is asked only where the
//! ones before it do not have the name.
//!
//! What the first branch has that is no directory hides all others, so these need not be asked what the
//! directory is on them. Whether it is still what is known of it is asked of those that matter.

use super::control::NAME;
use super::found::Found;
use super::options::{Follow, Function};
use super::state::{At, Core, Parts};
use alloc::vec::Vec;
use culvert::{Caller, Entry, Errno, FileKind, Node, Reached, Result};

/// Directories, what is known of each, and the name of the next in it.
type Way<'a> = Vec<(Parts, &'a [u8])>;

const fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
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
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (above, name) = match slash {
            None => (None, path),
            Some(slash) => (Some(path.get(..slash)?), path.get(slash + 1..)?),
        };
        let (mut parent, mut way) = (from, Way::new());
        for step in above.into_iter().flat_map(|above| above.split(is_slash)) {
            let over = self.known_directory(parent);
            let next = self.nodes.used_lately(parent, step);
            if parent != from {
                // What is below keeps it.
                self.nodes.forget(parent, 1).give_back();
            }
            parent = next?;
            match over {
                Ok((over, _)) => way.push((over, step)),
                Err(_) => {
                    self.nodes.forget(parent, 1).give_back();
                    return None;
                }
            }
        }
        match self.in_known(&way, (parent, name), caller, follow) {
            Some(entry) => Some(Ok(Reached { entry, parent })),
            None => {
                if parent != from {
                    self.nodes.forget(parent, 1).give_back();
                }
                None
            }
        }
    }

    /// What `name` in the directory `dir` is, to which this `way` leads: on the outside none where only a
    /// look at all branches tells. A directory to which no way leads is believed where all branches have
    /// it.
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
        let (parts, _) = self.known_directory(dir).ok()?;
        let whole = self.is_whole(caller, dir, &parts);
        for (index, &part) in parts.iter().enumerate() {
            let leads = match whole {
                true => part.is_some(),
                false => self.leads(caller, way, index, part)?,
            };
            if !leads {
                continue;
            }
            // With a reference, by which it is used next: that costs no more where the branch has its
            // own way to give one.
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

    /// Whether `way` leads to `part` on branch `index`, and is nowhere where that is none; none: to something
    /// else.
    fn leads(
        &self,
        caller: &Caller<'_>,
        way: &Way<'_>,
        index: usize,
        part: Option<Node>,
    ) -> Option<bool> {
        for (at, (over, step)) in way.iter().enumerate() {
            let next = way.get(at + 1).map_or(part, |next| next.0[index]);
            match (self.find(caller, index, over[index]?, step), next) {
                (Ok(found), Some(next)) if found.node() == next => {}
                (Err(error), None) if error.errno() == Errno::ENOENT => {
                    let is_below = |next: &(Parts, &[u8])| next.0[index].is_some();
                    let below = way.iter().skip(at + 1).any(is_below) || part.is_some();
                    return (!below).then_some(false);
                }
                _ => return None,
            }
        }
        Some(true)
    }
}
