//! Paths of plain names that lie in one mount as a whole, as most do: one call of its driver, and no walk.

use super::{LONGEST_NAME, inside::run_end};
use crate::resolver::scan::{component_at, is_dots};
use crate::resolver::{Inside, Last, LastStep, MountId, MountTable, Place, References, Resolved};
use alloc::borrow::Cow;
use culvert::{Caller, Entry, FileKind, FileSystem, Node, Result};

impl MountTable {
    /// What [`MountTable::walk`] would answer, where that is easy to say. None: walk.
    #[inline]
    pub(super) fn straight<'p>(
        &'p self,
        caller: &Caller<'_>,
        base: &Place,
        path: &'p [u8],
        step: LastStep,
    ) -> Option<Result<Resolved<'p>>> {
        // The directory of a name that is not there is found by walking; so are directories that may not be searched.
        if step.wants_parent() || !caller.is_superuser() {
            return None;
        }
        let (mount, dir, names) = match base {
            _ if path.first() == Some(&b'/') => {
                let (mount, names) = self.deepest(path)?;
                (mount, None, names)
            }
            Place::Mount { mount, node } => (*mount, Some(*node), path),
            Place::Host(_) => return None,
        };
        if names.first().is_none_or(|&byte| byte == b'/') || self.has_children(mount) {
            return None;
        }
        let driver = self.driver_if_open(mount)?;
        if driver.backing().is_some() {
            return None;
        }
        let dir = dir.unwrap_or_else(|| driver.root());
        let first = component_at(names, 0);
        let plain = !is_dots(&names[..first.end]) && first.end <= LONGEST_NAME;
        if !plain || run_end(names, first, true) != names.len() {
            return None;
        }
        if first.end == names.len() {
            let found = driver.lookup(caller, dir, names);
            return match &found {
                Ok(entry) => self.arrived(driver, mount, dir, (dir, entry), (names, 0), step),
                Err(_) => Some(found.map(|_| Resolved::Untouched)),
            };
        }
        let walked = driver.walk(caller, dir, names);
        let found = match &walked {
            Ok(walked) => walked,
            Err(_) => return Some(walked.map(|_| Resolved::Untouched)),
        };
        let entry = found.entry.as_ref()?;
        if found.consumed != names.len() {
            // A link on the way, or a driver that cannot take all at once.
            driver.forget(entry.attributes.node, 1);
            if found.parent != dir {
                driver.forget(found.parent, 1);
            }
            return None;
        }
        let start = names.iter().rposition(|&byte| byte == b'/');
        let name = (names, start.map_or(0, |slash| slash + 1));
        self.arrived(driver, mount, dir, (found.parent, entry), name, step)
    }

    /// The answer, unless it is a link to be followed.
    #[inline]
    fn arrived<'p>(
        &'p self,
        driver: &dyn FileSystem,
        mount: MountId,
        dir: Node,
        (parent, entry): (Node, &Entry),
        (names, start): (&'p [u8], usize),
        step: LastStep,
    ) -> Option<Result<Resolved<'p>>> {
        let node = entry.attributes.node;
        if entry.attributes.kind == FileKind::Symlink && step.follows() {
            driver.forget(node, 1);
            if parent != dir {
                driver.forget(parent, 1);
            }
            return None;
        }
        let mut references = References::new(self);
        references.push(mount, node);
        if parent != dir {
            references.push(mount, parent);
        }
        Some(Ok(Resolved::Inside(Inside {
            mount,
            parent,
            last: Last::Name(Cow::Borrowed(&names[start..])),
            entry: Some(*entry),
            references,
            trailing_slash: false,
        })))
    }
}
