//! Steps outside all mounts, in the real file system.

use super::{MOST_LINKS, Position, Walker};
use crate::resolver::scan::Component;
use crate::resolver::{
    Hold, HostKind, Inside, Last, LastStep, Magic, MountId, Place, Resolved, Restrictions,
};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Attributes, Entry, Errno, Result};

impl<'p> Walker<'_, 'p> {
    /// From a directory of the host through `next`, which is `path` there.
    pub(super) fn step_outside(&mut self, path: Vec<u8>, next: Component) -> Result<()> {
        if next.is_last && next.slash && self.step.creates() {
            return self.done(self.outside(path, true)); // EISDIR, whatever is there
        }
        if let Some(mount) = self.table.at_target(&path) {
            self.enter(mount)?;
            return Ok(());
        }
        let follow =
            !next.is_last || (self.step != LastStep::Parent && (next.slash || self.step.follows()));
        if self.table.leads_to_target(&path) {
            if next.is_last {
                return self.done(self.outside(path, next.slash));
            }
            self.position = Position::Host(path);
            return Ok(());
        }
        if !follow {
            if self.step == LastStep::NoFollow && path.starts_with(b"/proc/") {
                let magic = self.host.magic(&path);
                if self.is_ours(&magic) {
                    return self.done(Resolved::MagicLink(magic));
                }
            }
            return self.done(self.outside(path, next.slash));
        }
        match self.host.lstat(&path) {
            Ok(file) if file.kind == HostKind::Symlink => self.follow_outside(path, next),
            Ok(file) if file.kind == HostKind::Directory => {
                // By another way than its path: its parents were renamed, or `/proc/N/root` of
                // another process. A backing tree may hold its own target, which is an ordinary
                // directory of it.
                let elsewhere = self.table.backed(&path).is_none();
                if elsewhere && let Some(mount) = self.table.is_target(file.dev, file.ino) {
                    return self.enter(mount);
                }
                if next.is_last {
                    return self.done(self.outside(path, next.slash));
                }
                self.position = Position::Host(path);
                Ok(())
            }
            _ if next.is_last => self.done(self.outside(path, next.slash)),
            Ok(_) => self.give_up(Errno::ENOTDIR),
            Err(errno) => self.give_up(errno),
        }
    }

    /// Follows the link at `path` outside.
    fn follow_outside(&mut self, mut path: Vec<u8>, next: Component) -> Result<()> {
        let magic = match path.starts_with(b"/proc/") {
            true => self.host.magic(&path),
            false => Magic::No,
        };
        if self.links >= MOST_LINKS || self.restrictions.has(Restrictions::NO_SYMLINKS) {
            return self.give_up(Errno::ELOOP);
        }
        self.count_link()?;
        if magic == Magic::No {
            return match self.host.readlink(&path) {
                Ok(target) => self.follow(target),
                Err(errno) => self.give_up(errno),
            };
        }
        // nd_jump_link: never out of a scope, and not where it is forbidden.
        if self.restrictions.has(Restrictions::NO_MAGICLINKS) {
            return Err(Errno::ELOOP.into());
        }
        if self.scope.is_some() {
            return Err(Errno::EXDEV.into());
        }
        self.last = Last::Magic;
        match magic {
            Magic::Directory(place) => {
                self.check_crossing()?;
                self.start_at(&place)?;
                Ok(())
            }
            Magic::File { mount, node, hold } => {
                let table = self.table;
                let attributes = || table.driver(mount)?.attributes(self.caller, node);
                self.jump_to_file(mount, attributes, hold, next.slash)
            }
            Magic::Gone { mount, attributes } => {
                self.jump_to_file(mount, || Ok(*attributes), None, next.slash)
            }
            Magic::Kernel | Magic::No => {
                path.extend_from_slice(&self.text[next.end..]);
                self.done(self.outside(path, false))
            }
        }
    }

    /// Ends at a file of a mount to which a link of proc(5) jumps.
    fn jump_to_file(
        &mut self,
        mount: MountId,
        attributes: impl FnOnce() -> Result<Attributes>,
        hold: Option<Arc<Hold>>,
        slash: bool,
    ) -> Result<()> {
        self.check_crossing()?;
        // What nobody knows any more may have been a directory.
        let attributes = attributes()?;
        if slash {
            return Err(Errno::ENOTDIR.into());
        }
        let mut references = core::mem::take(&mut self.references);
        references.keep(hold);
        self.done(Resolved::Inside(Inside {
            mount,
            parent: attributes.node,
            last: Last::Magic,
            entry: Some(Entry { attributes }),
            references,
            trailing_slash: false,
        }))
    }

    /// The kernel's business: its own call if no mount played a part, else the path that the walk
    /// found.
    pub(super) fn outside(&self, mut path: Vec<u8>, slash: bool) -> Resolved<'p> {
        if !self.touched {
            return Resolved::Untouched;
        }
        if slash || path.is_empty() {
            path.push(b'/');
        }
        Resolved::Outside { path }
    }

    /// An error outside: the kernel says it itself when no mount played a part.
    pub(super) fn give_up(&mut self, errno: Errno) -> Result<()> {
        if self.touched {
            Err(errno.into())
        } else {
            self.done(Resolved::Untouched)
        }
    }

    /// Whether a link that jumps leads to something in a mount.
    fn is_ours(&self, magic: &Magic) -> bool {
        match magic {
            Magic::Directory(Place::Host(path)) => self.table.backed(path).is_some(),
            Magic::Directory(Place::Mount { .. }) | Magic::File { .. } | Magic::Gone { .. } => true,
            Magic::No | Magic::Kernel => false,
        }
    }
}
