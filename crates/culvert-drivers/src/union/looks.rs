//! What the lookup of a call has found, for the change that the call makes next.
//!
//! A front end looks for a path, and then makes, moves, removes or changes what has it. A look at a
//! name in a directory says on which branches that is, and what the name is on them. To look again is
//! needed only where a process of the run has changed such a name or a directory in between, of which
//! the memory that they share tells ([`crate::name_changes`]). Each look at the same name takes the
//! place of the one before, and who makes use of it takes it away; so it is the call's own.

use super::branch::Branch;
use super::found::{All, Found};
use super::state::{At, Core, Parts};
use crate::name_changes::{Changing, Stamp};
use alloc::{sync::Weak, vec::Vec};
use culvert::{Attributes, Caller, Errno, FileKind, Node, Result, sync::Mutex};

/// How many looks are kept: two for each thread that is in the middle of a rename, and no more than
/// are soon compared.
const MOST: usize = 4;

/// How many directories above a name may be missing on a branch.
const DEEPEST: usize = 64;

/// A look at a name in a directory.
pub struct Look {
    dir: Node,
    name: Vec<u8>,
    /// A moment before it.
    stamp: Stamp,
    /// The branches that there were.
    branches: Weak<Vec<Branch>>,
    /// How many of them were looked at, from the first on: the directory is what is known of it there.
    pub looked_at: usize,
    /// What has the name on the last of those, and is no directory; none: nothing on any of them.
    pub found: Option<Attributes>,
}

/// The last ones.
#[derive(Default)]
pub struct Looks(Mutex<Vec<Look>>);

impl Looks {
    fn note(&self, look: Look) {
        let mut all = self.0.lock();
        all.retain(|one| (one.dir, &one.name) != (look.dir, &look.name));
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(look);
    }

    /// That at `place`, which is there no more.
    pub fn take(&self, (dir, name): At<'_>) -> Option<Look> {
        let mut all = self.0.lock();
        let at = all
            .iter()
            .position(|one| (one.dir, &one.name[..]) == (dir, name));
        at.map(|at| all.swap_remove(at))
    }
}

impl Core {
    /// Notes what was found at `place` after `stamp` on so many branches.
    pub fn looked(
        &self,
        (dir, name): At<'_>,
        stamp: Stamp,
        looked_at: usize,
        found: Option<Attributes>,
    ) {
        self.looks.note(Look {
            dir,
            name: name.to_vec(),
            stamp,
            branches: alloc::sync::Arc::downgrade(&self.branches),
            looked_at,
            found,
        });
    }

    /// The look at `place` of this call, if it is as good as one now.
    pub fn look(&self, place: At<'_>) -> Option<Look> {
        let look = self.looks.take(place)?;
        let is_of_these = look.branches.as_ptr() == alloc::sync::Arc::as_ptr(&self.branches);
        (is_of_these && self.names.is_now(place.1, look.stamp)).then_some(look)
    }

    /// The same for who has the right to change names.
    pub fn look_before(&self, place: At<'_>, changing: &Changing<'_>) -> Option<Look> {
        let look = self.look(place)?;
        changing.is_now(place.1, look.stamp).then_some(look)
    }

    /// What the directory `dir` is on each branch, those on which `look` has looked left out.
    pub fn directory_after(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        look: Option<&Look>,
    ) -> Result<Parts> {
        let Some(look) = look else {
            return self.directory(caller, dir);
        };
        // From the top down, which all branches have.
        let (mut way, mut here) = (Vec::new(), dir);
        let mut over = loop {
            let (parts, place) = self.known_directory(here)?;
            let lacks = parts.iter().skip(look.looked_at).any(Option::is_none);
            let Some((above, name)) = place.filter(|_| lacks) else {
                break parts;
            };
            if way.len() == DEEPEST {
                return self.directory(caller, dir);
            }
            way.push((here, parts, name));
            here = above;
        };
        while let Some((dir, mut parts, name)) = way.pop() {
            self.fill_from(caller, dir, &mut parts, (&over, &name), look.looked_at);
            over = parts;
        }
        Ok(over)
    }

    /// As [`Core::all`], those branches left out on which `look` has looked.
    pub fn all_after(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        name: &[u8],
        look: Option<&Look>,
    ) -> Result<All<'_>> {
        let Some(look) = look else {
            return self.all(caller, parts, name, false, super::state::Look::Glance);
        };
        let mut all = All::new();
        if let Some(found) = look.found {
            let index = look.looked_at.saturating_sub(1);
            all.push((index, Found::seen(&self.branches[index], found)));
        }
        for (index, part) in parts.iter().enumerate().skip(look.looked_at) {
            let Some(part) = *part else { continue };
            match self.find(caller, index, part, name) {
                Ok(one) => all.push((index, one)),
                Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// What has the name of `look`, a file that is `node`, on branches behind those that it has looked at.
    pub fn others_after(
        &self,
        caller: &Caller<'_>,
        (dir, name): At<'_>,
        look: &Look,
        kind: FileKind,
    ) -> Result<All<'_>> {
        let parts = self.directory_after(caller, dir, Some(look))?;
        let mut all = All::new();
        for (index, part) in parts.iter().enumerate().skip(look.looked_at) {
            let Some(part) = *part else { continue };
            match self.find_exactly(caller, index, part, name) {
                Ok(one) if one.kind() == kind => all.push((index, one)),
                Ok(_) => {}
                Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}
