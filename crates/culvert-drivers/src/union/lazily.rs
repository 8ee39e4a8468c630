//! A name in a directory that was used lately, as most paths are: a branch is asked only where the ones
//! before it do not have the name.
//!
//! What the first branch has that is no directory hides all others, so these need not be asked what the
//! directory is on them. Whether it is still what is known of it is asked of those that matter.

use super::found::Found;
use super::options::{Follow, Function};
use super::state::Core;
use alloc::vec::Vec;
use culvert::{Caller, Entry, Errno, FileKind, Node, Reached, Result};

impl Core {
    /// [`culvert::FileSystem::reach`] of `path`, where that is easy to say.
    pub fn reach_lately(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        follow: Follow,
    ) -> Option<Result<Reached>> {
        let slash = path.iter().position(|&byte| byte == b'/')?;
        let (above, name) = (path.get(..slash)?, path.get(slash + 1..)?);
        let is_first = self.settings().policy(Function::Getattr).is_first();
        if name.contains(&b'/') || !is_first {
            return None;
        }
        let parent = self.nodes.used_lately(from, above)?;
        match self.in_known((from, above), (parent, name), caller, follow) {
            Some(entry) => Some(Ok(Reached { entry, parent })),
            None => {
                self.nodes.forget(parent, 1).give_back();
                None
            }
        }
    }

    /// What `name` in the directory `dir` is, which is `above` in the directory `from`: on the outside
    /// none where only a look at all branches tells.
    fn in_known(
        &self,
        (from, above): (Node, &[u8]),
        (dir, name): (Node, &[u8]),
        caller: &Caller<'_>,
        follow: Follow,
    ) -> Option<Option<Entry>> {
        let (over, _) = self.known_directory(from).ok()?;
        let (parts, _) = self.known_directory(dir).ok()?;
        for (index, (over, part)) in over.into_iter().zip(parts).enumerate() {
            match (self.find(caller, index, over?, above), part) {
                (Ok(found), Some(part)) if found.node() == part => {}
                (Err(error), None) if error.errno() == Errno::ENOENT => continue,
                _ => return None,
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
                    let entry = self.enter(Some((dir, name)), Vec::from([(index, found)]));
                    Some(Some(entry.ok()?))
                }
            };
        }
        Some(None)
    }
}
