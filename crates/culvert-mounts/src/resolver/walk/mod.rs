//! Path resolution proper, with the kernel's rules (path_resolution(7); `fs/namei.c`:
//! `link_path_walk`, `step_into`, `handle_dots`).

mod inside;
mod outside;
mod straight;

use super::scan::{component, is_dots};
use super::{
    Host, Inside, Last, LastStep, MountId, MountTable, Place, References, Resolved, Restrictions,
};
use alloc::{borrow::Cow, vec::Vec};
use culvert::{Caller, Entry, Errno, Node, Result};

/// `PATH_MAX` without the final NUL (limits.h of Linux).
const LONGEST_PATH: usize = 4095;
/// `NAME_MAX`.
const LONGEST_NAME: usize = 255;
/// `MAXSYMLINKS` of the kernel (`include/linux/namei.h`): the 41st link is `ELOOP`.
const MOST_LINKS: u32 = 40;

impl MountTable {
    /// Resolves `path` from `base` as if the mounts were the kernel's own, on behalf of `caller`.
    ///
    /// Errors are those of path_resolution(7), plus whatever the driver answers. A path that enters
    /// no mount is [`Resolved::Untouched`], whatever else is wrong with it: the kernel says so
    /// itself.
    pub fn walk<'p>(
        &'p self,
        host: &dyn Host,
        caller: &Caller<'_>,
        base: &Place,
        path: &'p [u8],
        last: LastStep,
        restrictions: Restrictions,
    ) -> Result<Resolved<'p>> {
        if path.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if path.len() > LONGEST_PATH {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if restrictions == Restrictions(0)
            && let Some(answer) = self.straight(caller, base, path, last)
        {
            return answer.map(Resolved::Inside);
        }
        let absolute = path[0] == b'/';
        let mut walker = Walker {
            table: self,
            host,
            caller,
            step: last,
            restrictions,
            text: Cow::Borrowed(path),
            at: 0,
            position: Position::Host(Vec::new()),
            last: Last::Root,
            scope: None,
            links: 0,
            touched: false,
            searchable: None,
            references: References::new(self),
            answer: None,
        };
        let scoped = restrictions.has(Restrictions::BENEATH | Restrictions::IN_ROOT);
        if !absolute || scoped {
            walker.start_at(base)?;
            // A base is where the caller already is: not a step, so no mount is crossed.
            walker.last = Last::Dot;
        }
        if scoped {
            walker.scope = Some(walker.position.clone());
        }
        if absolute {
            walker.jump_to_root(true)?;
        }
        walker.run()
    }

    /// The last word on a path that the kernel answered with `ENOENT` or `ENOTDIR`: a link outside
    /// may lead into a mount. `Untouched` confirms the kernel's answer. Arguments as for
    /// [`MountTable::walk`]; who the caller is, is asked only for a walk.
    pub fn after_miss<'p, 'c>(
        &'p self,
        host: &dyn Host,
        caller: impl FnOnce() -> Caller<'c>,
        base: &Place,
        path: &'p [u8],
        last: LastStep,
        restrictions: Restrictions,
    ) -> Result<Resolved<'p>> {
        match self.confirms_miss(host, base, path) {
            true => Ok(Resolved::Untouched),
            false => self.walk(host, &caller(), base, path, last, restrictions),
        }
    }

    /// Whether the kernel's `ENOENT` or `ENOTDIR` for `path` from `base` is right, because no link
    /// is on the way; where not, a walk tells ([`MountTable::after_miss`]).
    pub fn confirms_miss(&self, host: &dyn Host, base: &Place, path: &[u8]) -> bool {
        if self.is_empty() || path.is_empty() || path.len() > LONGEST_PATH {
            return true;
        }
        // Without links text decides, with `..` too, and `quick` has looked at that.
        let absolute = path[0] == b'/';
        match base {
            _ if absolute => host.link_free(path),
            Place::Host(base) => {
                let mut full = base.clone();
                full.push(b'/');
                full.extend_from_slice(path);
                host.link_free(&full)
            }
            Place::Mount { .. } => false,
        }
    }
}

/// Where a walk is: always a directory. The host's root is the empty path.
///
/// A mount with a backing tree is walked as a part of the host, under the path that it is seen at:
/// [`Host`] looks at the source in its place.
#[derive(Clone, PartialEq, Eq)]
enum Position {
    Host(Vec<u8>),
    Mount(MountId, Node),
}

struct Walker<'t, 'p> {
    table: &'p MountTable,
    host: &'t dyn Host,
    caller: &'t Caller<'t>,
    step: LastStep,
    restrictions: Restrictions,
    /// What is being read: the path, or the target of a link with the rest of the path behind it.
    text: Cow<'p, [u8]>,
    /// How much of it has been read.
    at: usize,
    position: Position,
    /// What the last component read was, when it was no name.
    last: Last<'p>,
    /// The directory that must not be left, under `RESOLVE_BENEATH` and `RESOLVE_IN_ROOT`.
    scope: Option<Position>,
    links: u32,
    /// The walk has been in a mount: the original call means nothing to the kernel any more.
    touched: bool,
    /// Whether the caller may search the current directory of a mount, where that is known without
    /// asking.
    searchable: Option<bool>,
    /// What keeps the nodes valid that the walk came through: `..` may lead back to them.
    references: References<'p>,
    /// The end of the walk, found by its latest step.
    answer: Option<Resolved<'p>>,
}

impl<'p> Walker<'_, 'p> {
    fn run(&mut self) -> Result<Resolved<'p>> {
        while let Some(next) = component(&self.text, self.at) {
            self.at = next.end;
            match &self.text[next.start..next.end] {
                name if is_dots(name) => {
                    let up = name.len() == 2;
                    self.dots(up, next.is_last)?
                }
                name => match &self.position {
                    Position::Mount(mount, node) => self.step_in_mount(*mount, *node, next)?,
                    Position::Host(dir) => {
                        let path = [&dir[..], b"/", name].concat();
                        self.step_outside(path, next)?
                    }
                },
            }
            if let Some(answer) = self.answer.take() {
                return Ok(answer);
            }
        }
        let slash = self.text.last() == Some(&b'/');
        match self.position {
            Position::Host(ref path) => Ok(self.outside(path.clone(), false)),
            Position::Mount(mount, node) => {
                if slash && self.step.creates() && self.last == Last::MountPoint {
                    return Err(Errno::EISDIR.into());
                }
                let attributes = self.table.driver(mount)?.attributes(self.caller, node)?;
                Ok(Resolved::Inside(Inside {
                    mount,
                    parent: node,
                    last: core::mem::replace(&mut self.last, Last::Dot),
                    entry: Some(Entry { attributes }),
                    references: core::mem::take(&mut self.references),
                    trailing_slash: slash,
                }))
            }
        }
    }

    /// Ends the walk.
    #[inline]
    fn done(&mut self, answer: Resolved<'p>) -> Result<()> {
        self.answer = Some(answer);
        Ok(())
    }

    /// Goes to a directory that is known already.
    fn start_at(&mut self, place: &Place) -> Result<()> {
        self.position = match place {
            Place::Mount { mount, node } => Position::Mount(*mount, *node),
            Place::Host(path) => match self.table.at_target(path) {
                Some(mount) => self.root_of(mount)?,
                None if path == b"/" => Position::Host(Vec::new()),
                None => Position::Host(path.clone()),
            },
        };
        self.touched |= self.mount_of(&self.position).is_some();
        self.searchable = None;
        Ok(())
    }

    /// The root of `mount`.
    fn root_of(&self, mount: MountId) -> Result<Position> {
        let driver = self.table.driver(mount)?;
        Ok(match driver.backing() {
            Some(_) => Position::Host(self.table.target(mount).to_vec()),
            None => Position::Mount(mount, driver.root()),
        })
    }

    /// The mount that `position` is in.
    fn mount_of(&self, position: &Position) -> Option<MountId> {
        match position {
            Position::Mount(mount, _) => Some(*mount),
            Position::Host(path) => self.table.backed(path).map(|(mount, ..)| mount),
        }
    }

    /// Starts over at the root for an absolute text (`nd_jump_root`): `as_argument`, or out of a
    /// link.
    fn jump_to_root(&mut self, as_argument: bool) -> Result<()> {
        if self.restrictions.has(Restrictions::BENEATH) {
            return Err(Errno::EXDEV.into());
        }
        self.last = Last::Root;
        if let Some(root) = &self.scope {
            let crosses = !as_argument && self.mount_of(root) != self.mount_of(&self.position);
            if crosses && self.restrictions.has(Restrictions::NO_XDEV) {
                return Err(Errno::EXDEV.into());
            }
            self.position = root.clone();
            self.searchable = None;
            return Ok(());
        }
        if !as_argument && self.mount_of(&self.position).is_some() {
            self.check_crossing()?;
        }
        // The way to a target has no links: most absolute paths get to their mount in one step. Who
        // may not search everything goes the long way through outer mounts, which check their
        // permission.
        if !self.restrictions.has(Restrictions::NO_XDEV)
            && let Some((mount, rest)) = self.table.deepest_by_text(&self.text)
            && (self.caller.searches_all() || self.table.parent(mount).is_none())
        {
            self.at = self.text.len() - rest.len();
            return self.enter(mount);
        }
        self.start_at(&Place::Host(Vec::new()))
    }

    /// Steps onto a target.
    fn enter(&mut self, mount: MountId) -> Result<()> {
        self.check_crossing()?;
        self.position = self.root_of(mount)?;
        self.searchable = None;
        self.last = Last::MountPoint;
        self.touched = true;
        Ok(())
    }

    fn check_crossing(&self) -> Result<()> {
        if self.restrictions.has(Restrictions::NO_XDEV) {
            return Err(Errno::EXDEV.into());
        }
        Ok(())
    }

    /// `.` and `..`.
    fn dots(&mut self, up: bool, is_last: bool) -> Result<()> {
        match self.position {
            Position::Mount(mount, node) => self.may_search(mount, node)?,
            Position::Host(ref path) => {
                if !self.caller.searches_all() && !self.table.leads_to_target(path) {
                    let mut itself = path.clone();
                    itself.extend_from_slice(b"/.");
                    if let Err(errno) = self.host.lstat(&itself) {
                        return self.give_up(errno);
                    }
                }
            }
        }
        let before = (is_last && self.step == LastStep::Parent).then(|| self.position.clone());
        if up {
            self.last = Last::DotDot;
            self.climb()?;
        } else {
            self.last = Last::Dot;
        }
        // A call that works on the name must show the kernel the dots, for its errno.
        if let (Some(before), Position::Host(path)) = (before, &self.position) {
            let shown = match before {
                Position::Host(before) if up => [&before[..], b"/.."].concat(),
                Position::Mount(mount, _) if self.host.lstat(self.table.target(mount)).is_ok() => {
                    [self.table.target(mount), b"/.."].concat()
                }
                _ => [&path[..], b"/."].concat(),
            };
            return self.done(self.outside(shown, false));
        }
        Ok(())
    }

    /// To the parent directory, which is above the target for a mount's root.
    fn climb(&mut self) -> Result<()> {
        if self.scope.as_ref() == Some(&self.position) {
            return if self.restrictions.has(Restrictions::BENEATH) {
                Err(Errno::EXDEV.into())
            } else {
                Ok(())
            };
        }
        match &mut self.position {
            Position::Host(path) if self.table.at_target(path).is_some() => {
                let mount = self.table.at_target(path).ok_or(Errno::ESTALE)?;
                self.check_crossing()?;
                let above = self.table.above(mount)?;
                self.start_at(&above)?;
            }
            Position::Host(path) => {
                let parent = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
                path.truncate(parent);
            }
            Position::Mount(mount, node) => {
                let (mount, node) = (*mount, *node);
                let driver = self.table.driver(mount)?;
                if node == driver.root() && self.table.root() == Some(mount) {
                    return Ok(());
                }
                if node == driver.root() {
                    self.check_crossing()?;
                    let above = self.table.above(mount)?;
                    self.start_at(&above)?;
                } else {
                    let parent = driver.parent(node)?;
                    self.go_to(mount, parent);
                }
            }
        }
        Ok(())
    }

    /// To a directory of a mount.
    fn go_to(&mut self, mount: MountId, directory: Node) {
        self.position = Position::Mount(mount, directory);
        self.searchable = None;
    }

    fn count_link(&mut self) -> Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS || self.restrictions.has(Restrictions::NO_SYMLINKS) {
            return Err(Errno::ELOOP.into());
        }
        Ok(())
    }

    /// Reads on in a link's target; what was left of the text comes after it.
    fn follow(&mut self, mut target: Vec<u8>) -> Result<()> {
        if target.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        target.extend_from_slice(&self.text[self.at..]);
        self.text = Cow::Owned(target);
        self.at = 0;
        self.last = Last::Dot;
        if self.text[0] == b'/' {
            self.jump_to_root(false)?;
        }
        Ok(())
    }
}

impl MountTable {
    /// [`MountTable::deepest`] for a path as written; the rest keeps its leading slashes.
    #[inline]
    fn deepest_by_text<'x>(&self, text: &'x [u8]) -> Option<(MountId, &'x [u8])> {
        let (mount, _) = self.deepest(text)?;
        Some((mount, &text[self.target(mount).len()..]))
    }
}
