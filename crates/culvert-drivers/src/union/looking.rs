//! What a change goes by: the look of the call's lookup where that is as good as another, and the
//! rest of the branches ([`super::looks`]).

use super::found::{All, Found};
use super::looks::Look;
use super::state::{At, Core, Look as How, Parts};
use crate::name_changes::{Changing, Stamp};
use alloc::vec::Vec;
use culvert::{Attributes, Caller, Errno, FileKind, Node, Result};

/// How many directories above a name may be missing on a branch.
const DEEPEST: usize = 64;

impl Core {
    /// Notes that nobody has looked at `place` after `stamp`: branch `index` alone may have it.
    pub fn not_looked(&self, place: At<'_>, stamp: Stamp, index: usize) {
        let look = Look::none_but(place, &self.branches, stamp, index);
        self.looks.note(look);
    }

    /// Notes what was found at `place` after `stamp` on so many branches, and whether the directory
    /// is [whole](Core::is_whole).
    pub fn looked(
        &self,
        place: At<'_>,
        stamp: Stamp,
        looked_at: (usize, bool),
        found: Option<Attributes>,
    ) {
        let look = Look::new(place, &self.branches, stamp, looked_at, found);
        self.looks.note(look);
    }

    /// The look at `place` of this call, if it is as good as one now.
    pub fn look(&self, place: At<'_>) -> Option<Look> {
        let look = self.looks.take(place)?;
        let is_now = look.is_on(&self.branches) && self.names.is_now(place.1, look.stamp);
        is_now.then_some(look)
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
        if look.whole {
            return self.known_parts(dir);
        }
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
        while let Some((next, mut parts, name)) = way.pop() {
            if !self.is_at(caller, &parts, &over, &name) {
                // Others have moved it: what has its name by now is another directory.
                return self.directory(caller, dir);
            }
            self.fill_from(caller, next, &mut parts, (&over, &name), look.looked_at);
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
            return self.all(caller, parts, name, false, How::Glance);
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

    /// What has the name of `look`, a file that is `node`, on branches behind those that it has
    /// looked at.
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
