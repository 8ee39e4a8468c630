//! Steps in a mount, by its driver.

use super::{LONGEST_NAME, Walker};
use crate::resolver::scan::{Component, component_at, end_of_name, is_dots};
use crate::resolver::{Inside, Last, LastStep, MountId, Resolved};
use alloc::{borrow::Cow, vec::Vec};
use culvert::{Access, Entry, Errno, FileKind, Node, Result};

impl<'p> Walker<'_, 'p> {
    /// From directory `dir` of `mount` through `next`, and as many components more as the driver
    /// walks in one call.
    pub(super) fn step_in_mount(
        &mut self,
        mount: MountId,
        dir: Node,
        next: Component,
    ) -> Result<()> {
        self.may_search(mount, dir)?;
        if next.is_last && next.slash && self.step.creates() {
            return Err(Errno::EISDIR.into());
        }
        if next.end - next.start > LONGEST_NAME {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let driver = self.table.driver(mount)?;
        let mounted_on = self.table.has_children(mount);
        // The default `walk` does not look at permissions: where they matter, each directory is
        // looked at here.
        let one_call =
            !mounted_on && (self.caller.searches_all() || driver.capabilities().checks_permissions);
        if one_call && !next.is_last {
            let end = run_end(&self.text, next, !self.step.wants_parent());
            let run = &self.text[next.start..end];
            // Entries are large, so they are handed on by reference, and copied once, into the
            // answer.
            let walked = driver.walk(self.caller, dir, run);
            let walked = match &walked {
                Ok(walked) => walked,
                Err(_) => return walked.map(drop),
            };
            if walked.consumed > run.len() {
                return Err(Errno::EIO.into());
            }
            // Nothing consumed: the driver cannot take several at once here, so one is looked up
            // below.
            if let (Some(entry), 1..) = (&walked.entry, walked.consumed) {
                let start = run[..walked.consumed]
                    .iter()
                    .rposition(|&b| b == b'/')
                    .map_or(next.start, |slash| next.start + slash + 1);
                let last = component_at(&self.text, start);
                self.references.push(mount, entry.attributes.node);
                if walked.parent != dir {
                    self.references.push(mount, walked.parent);
                }
                return self.arrive(mount, walked.parent, entry, last);
            }
        }
        let name = &self.text[next.start..next.end];
        if mounted_on && let Some(child) = self.table.covering_name(mount, dir, name) {
            self.enter(child)?;
            return Ok(());
        }
        let found = driver.lookup(self.caller, dir, name);
        let entry = match &found {
            Ok(entry) => entry,
            Err(error)
                if error.errno() == Errno::ENOENT && next.is_last && self.step.wants_parent() =>
            {
                return self.inside(mount, dir, next, None);
            }
            Err(_) => return found.map(drop),
        };
        if mounted_on && let Some(child) = self.table.covering_node(mount, entry.attributes.node) {
            driver.forget(entry.attributes.node, 1);
            self.enter(child)?;
            return Ok(());
        }
        self.references.push(mount, entry.attributes.node);
        self.arrive(mount, dir, entry, next)
    }

    /// Judges what `next` named: an answer, a directory to go on from, or a link to follow.
    fn arrive(
        &mut self,
        mount: MountId,
        parent: Node,
        entry: &Entry,
        next: Component,
    ) -> Result<()> {
        self.at = next.end;
        let kind = entry.attributes.kind;
        let follow =
            !next.is_last || (self.step != LastStep::Parent && (next.slash || self.step.follows()));
        let must_be_directory = !next.is_last || (next.slash && self.step != LastStep::Parent);
        let wrong = must_be_directory && kind != FileKind::Directory;
        let link = kind == FileKind::Symlink && follow;
        if next.is_last && !link && !wrong {
            return self.inside(mount, parent, next, Some(*entry));
        }
        let driver = self.table.driver(mount)?;
        let node = entry.attributes.node;
        let target = if link {
            self.count_link()
                .and_then(|()| driver.readlink(self.caller, node))
        } else {
            Ok(Vec::new())
        };
        if link {
            self.references.forget(mount, node);
            self.go_to(mount, parent);
            self.follow(target?)?;
        } else if wrong {
            return Err(Errno::ENOTDIR.into());
        } else {
            self.go_to(mount, node);
            if !driver.capabilities().checks_permissions {
                self.searchable = Some(self.caller.may(Access::EXECUTE, &entry.attributes).is_ok());
            }
        }
        Ok(())
    }

    /// Ends the walk at a name.
    #[inline]
    fn inside(
        &mut self,
        mount: MountId,
        parent: Node,
        next: Component,
        entry: Option<Entry>,
    ) -> Result<()> {
        let name = match &self.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[next.start..next.end]),
            Cow::Owned(text) => Cow::Owned(text[next.start..next.end].to_vec()),
        };
        let references = core::mem::take(&mut self.references);
        self.done(Resolved::Inside(Inside {
            mount,
            parent,
            last: Last::Name(name),
            entry,
            references,
            trailing_slash: next.slash,
        }))
    }

    /// Search permission on directory `dir` (`may_lookup`).
    #[inline]
    pub(super) fn may_search(&self, mount: MountId, dir: Node) -> Result<()> {
        if self.caller.searches_all() {
            return Ok(());
        }
        let driver = self.table.driver(mount)?;
        match self.searchable {
            Some(true) => Ok(()),
            Some(false) => Err(Errno::EACCES.into()),
            None if driver.capabilities().checks_permissions => {
                driver.access(self.caller, dir, Access::EXECUTE)
            }
            None => self
                .caller
                .may(Access::EXECUTE, &driver.attributes(self.caller, dir)?),
        }
    }
}

/// Where the run of plain components that begins with `first` ends; the last component of the text
/// belongs to it only `with_last`.
pub(super) fn run_end(text: &[u8], first: Component, with_last: bool) -> usize {
    let mut end = first.end;
    // One slash and a plain name after it: else the run ends here.
    while end + 1 < text.len() && text[end + 1] != b'/' {
        let name_end = end_of_name(text, end + 1);
        let name = &text[end + 1..name_end];
        if is_dots(name) || name.len() > LONGEST_NAME {
            break;
        }
        if !with_last && text[name_end..].iter().all(|&b| b == b'/') {
            break;
        }
        end = name_end;
    }
    end
}
