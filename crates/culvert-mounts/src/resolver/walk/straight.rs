//! Paths of plain names that lie in one mount as a whole, as most do: one call of its driver, and
//! no walk.

use super::{LONGEST_NAME, inside::run_end};
use crate::resolver::scan::{component_at, is_dots, last_slash, needs_care};
use crate::resolver::{Inside, Last, LastStep, MountId, MountTable, Place, References};
use alloc::borrow::Cow;
use culvert::{Caller, Entry, Errno, FileKind, FileSystem, Node, Reached, Result};

impl MountTable {
    /// What [`MountTable::walk`] would answer, where that is easy to say. None: walk. `base` is the
    /// directory that a relative path starts from.
    pub(super) fn straight<'p>(
        &'p self,
        caller: &Caller<'_>,
        base: &Place,
        path: &'p [u8],
        step: LastStep,
    ) -> Option<Result<Inside<'p>>> {
        let (mount, dir, names) = match base {
            _ if path.first() == Some(&b'/') => {
                let (mount, names) = self.deepest(path)?;
                (mount, None, names)
            }
            Place::Mount { mount, node } => (*mount, Some(*node), path),
            Place::Host(_) => return None,
        };
        self.straight_in(|| *caller, mount, dir, names, step)
    }

    /// The same for `names` from directory `dir` of `mount`, or from its root.
    #[inline]
    pub fn straight_in<'p, 'c>(
        &'p self,
        caller: impl FnOnce() -> Caller<'c>,
        mount: MountId,
        dir: Option<Node>,
        names: &'p [u8],
        step: LastStep,
    ) -> Option<Result<Inside<'p>>> {
        let driver = self.driver_of(mount, names)?;
        // What lies in a tree of the kernel's is the kernel's to find.
        if driver.backing().is_some() || self.walks_this() {
            return None;
        }
        let caller = &caller();
        let dir = dir.unwrap_or_else(|| driver.root());
        // Looked at where it lies: it is large.
        let answer = match step {
            LastStep::CreateNew => driver.reach_new(caller, dir, names),
            _ => driver.reach(caller, dir, names),
        };
        match &answer {
            Some(Ok(reached)) => self.arrived(driver, mount, dir, reached, names, step),
            Some(Err(_)) => answer?.err().map(Err),
            None => self.by_walk(driver, caller, mount, dir, names, step),
        }
    }

    /// The driver of `mount`, where it is open, and may be asked for `names` in one call: they are
    /// plain ones, and no other mount lies among them.
    #[inline]
    pub fn driver_of(&self, mount: MountId, names: &[u8]) -> Option<&dyn FileSystem> {
        let odd = matches!(names, [] | [b'/', ..] | [.., b'/']) || needs_care(names);
        if odd || names.len() > LONGEST_NAME || self.has_children(mount) {
            return None;
        }
        self.driver_if_open(mount)
    }

    /// [`MountTable::straight_in`] by a driver that does not judge the right to search: only for
    /// who has it anyway.
    fn by_walk<'p>(
        &'p self,
        driver: &dyn FileSystem,
        caller: &Caller<'_>,
        mount: MountId,
        dir: Node,
        names: &'p [u8],
        step: LastStep,
    ) -> Option<Result<Inside<'p>>> {
        // The directory of a name that is not there is found by walking; so are directories that
        // may not be searched.
        if step.wants_parent() || !caller.searches_all() {
            return None;
        }
        let first = component_at(names, 0);
        let plain = !is_dots(&names[..first.end]);
        if !plain || run_end(names, first, true) != names.len() {
            return None;
        }
        let reached = if first.end == names.len() {
            driver.lookup(caller, dir, names).map(|entry| Reached {
                entry: Some(entry),
                parent: dir,
            })
        } else {
            match driver.walk(caller, dir, names) {
                Ok(walked) => {
                    let entry = walked.entry.as_ref()?;
                    if walked.consumed != names.len() {
                        // A link on the way, or a driver that cannot take all at once.
                        give_back(driver, dir, walked.parent, Some(entry));
                        return None;
                    }
                    Ok(Reached {
                        entry: walked.entry,
                        parent: walked.parent,
                    })
                }
                Err(error) => Err(error),
            }
        };
        match &reached {
            Ok(reached) => self.arrived(driver, mount, dir, reached, names, step),
            Err(_) => reached.err().map(Err),
        }
    }

    /// The answer, unless it is a link to be followed.
    #[inline]
    fn arrived<'p>(
        &'p self,
        driver: &dyn FileSystem,
        mount: MountId,
        dir: Node,
        reached: &Reached,
        names: &'p [u8],
        step: LastStep,
    ) -> Option<Result<Inside<'p>>> {
        let (parent, entry) = (reached.parent, reached.entry.as_ref());
        let link = entry.is_some_and(|entry| entry.attributes.kind == FileKind::Symlink);
        let missing = entry.is_none() && !step.wants_parent();
        if missing || link && step.follows() {
            give_back(driver, dir, parent, entry);
            return missing.then(|| Err(Errno::ENOENT.into()));
        }
        let mut references = References::new(self);
        if let Some(entry) = entry {
            references.push(mount, entry.attributes.node);
        }
        if parent != dir {
            references.push(mount, parent);
        }
        let start = last_slash(names);
        Some(Ok(Inside {
            mount,
            parent,
            last: Last::Name(Cow::Borrowed(&names[start.map_or(0, |slash| slash + 1)..])),
            entry: reached.entry,
            references,
            trailing_slash: false,
        }))
    }
}

/// The references that come with an answer that is not used.
fn give_back(driver: &dyn FileSystem, dir: Node, parent: Node, entry: Option<&Entry>) {
    if let Some(entry) = entry {
        driver.forget(entry.attributes.node, 1);
    }
    if parent != dir {
        driver.forget(parent, 1);
    }
}
