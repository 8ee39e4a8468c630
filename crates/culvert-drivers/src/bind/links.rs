//! Symbolic links that are shown as the files that they lead to.
//!
//! A link is followed within the file system below, a component at a time and by its own lookups,
//! so that nobody who changes links meanwhile leads outside. What leads outside, to a directory or
//! nowhere stays a link: who uses it follows it by himself, with his own rights. A directory below
//! two names would have two parents.

use super::core::Core;
use super::options::Deletion;
use alloc::{borrow::ToOwned, vec::Vec};
use culvert::{Access, Caller, Entry, Errno, Error, FileKind, Node, Result};

/// Most links on a way (path_resolution(7)).
const LINKS: usize = 40;

/// Where a link leads. What was passed stays known as long as this lives.
pub struct Target<'a> {
    /// The directory.
    pub dir: Node,
    /// The name there.
    pub name: Vec<u8>,
    /// What it is.
    pub entry: Entry,
    walk: References<'a>,
}

impl Target<'_> {
    /// What it is, with one reference.
    pub fn into_entry(mut self) -> Entry {
        self.walk.keep(self.entry.attributes.node);
        self.entry
    }
}

/// References that a walk has got.
struct References<'a> {
    core: &'a Core,
    nodes: Vec<Node>,
}

impl Drop for References<'_> {
    fn drop(&mut self) {
        for node in self.nodes.drain(..) {
            self.core.inner.forget(node, 1);
        }
    }
}

impl References<'_> {
    /// Keeps one on `node` past the walk.
    fn keep(&mut self, node: Node) {
        if let Some(at) = self.nodes.iter().rposition(|one| *one == node) {
            self.nodes.swap_remove(at);
        }
    }
}

impl Core {
    /// The path of `text`, what a link holds, from a directory within: from the root on, where it
    /// is absolute.
    fn within<'t>(&self, text: &'t [u8]) -> Option<(bool, &'t [u8])> {
        if text.first() != Some(&b'/') {
            return Some((false, text));
        }
        let source = self.settings.source.as_deref()?;
        let rest = text.strip_prefix(source)?;
        (rest.first() == Some(&b'/')).then_some((true, rest))
    }

    /// Where the link `link` in `dir` leads, if that is a file within.
    pub fn resolve(&self, caller: &Caller<'_>, dir: Node, link: Node) -> Option<Target<'_>> {
        let text = self.inner.readlink(caller, link).ok()?;
        let mut walk = References {
            core: self,
            nodes: Vec::new(),
        };
        let (is_absolute, rest) = self.within(&text)?;
        let mut here = if is_absolute { self.inner.root() } else { dir };
        let (mut rest, mut links) = (rest.to_vec(), 1);
        loop {
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = rest[..end.unwrap_or(rest.len())].to_owned();
            let is_last = end.is_none();
            rest.drain(..end.map_or(rest.len(), |end| end + 1));
            match &name[..] {
                b"" | b"." if is_last => return None,
                b"" | b"." => continue,
                b".." if is_last || here == self.inner.root() => return None,
                b".." => {
                    // Valid as long as what was passed is, whose references are kept.
                    here = self.inner.parent(here).ok()?;
                    continue;
                }
                _ => {}
            }
            if self.hides(here, &name).ok()? {
                return None;
            }
            let entry = self.inner.lookup(caller, here, &name).ok()?;
            let node = entry.attributes.node;
            walk.nodes.push(node);
            match entry.attributes.kind {
                FileKind::Symlink => {
                    links += 1;
                    let text = self
                        .inner
                        .readlink(caller, node)
                        .ok()
                        .filter(|_| links <= LINKS)?;
                    let (is_absolute, path) = self.within(&text)?;
                    if is_absolute {
                        here = self.inner.root();
                    }
                    rest = match is_last {
                        true => path.to_owned(),
                        false => [path, b"/", &rest].concat(),
                    };
                }
                FileKind::Directory if is_last => return None,
                FileKind::Directory => {
                    self.may(caller, Access::EXECUTE, node).ok()?;
                    here = node;
                }
                _ if !is_last => return None,
                _ => {
                    return Some(Target {
                        dir: here,
                        name,
                        entry,
                        walk,
                    });
                }
            }
        }
    }

    /// Whether `caller` may do `access` where nobody else judges it.
    fn may(&self, caller: &Caller<'_>, access: Access, node: Node) -> Result<()> {
        if self.acts && !self.judges {
            return Ok(());
        }
        caller.may(
            access,
            &self.show(caller, self.inner.attributes(caller, node)?)?,
        )
    }

    /// Whether `caller` may take the name of `target` away.
    pub fn may_remove(&self, caller: &Caller<'_>, target: &Target<'_>) -> Result<()> {
        const STICKY: u32 = 0o1000;
        self.may(
            caller,
            Access(Access::WRITE.0 | Access::EXECUTE.0),
            target.dir,
        )?;
        if self.acts && !self.judges {
            return Ok(());
        }
        let dir = self.show(caller, self.inner.attributes(caller, target.dir)?)?;
        let file = self.show(caller, target.entry.attributes)?;
        let owns = caller.is_owner(file.uid) || caller.uid == dir.uid;
        match dir.permissions & STICKY != 0 && !owns {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }

    /// Where the link `name` in `dir` leads; none where it is no link, or shown as one.
    pub fn behind(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
    ) -> Result<Option<Target<'_>>> {
        if !self.settings.resolves {
            return Ok(None);
        }
        let found = self.inner.lookup(caller, dir, name)?;
        let target = match found.attributes.kind {
            FileKind::Symlink => self.resolve(caller, dir, found.attributes.node),
            _ => None,
        };
        self.inner.forget(found.attributes.node, 1);
        Ok(target)
    }

    /// Removes `name` from `dir`, and what it leads to as the options say.
    pub fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        if self.settings.resolves && self.settings.deletion == Deletion::Deny {
            let found = self.inner.lookup(caller, dir, name)?.attributes;
            self.inner.forget(found.node, 1);
            if found.kind == FileKind::Symlink {
                let why = "resolved-symlink-deletion=deny";
                return Err(Error::because(Errno::EPERM, why));
            }
        }
        let Some(target) = self.behind(caller, dir, name)? else {
            return self.inner.unlink(caller, dir, name);
        };
        let remove = || {
            self.may_remove(caller, &target)?;
            let at = (target.dir, &target.name[..]);
            let rules = self.rules(self.index_at(at.0, at.1)?);
            self.may_delete(caller, rules, at, false)?;
            self.inner.unlink(caller, at.0, at.1)
        };
        match self.settings.deletion {
            Deletion::Deny => Err(Errno::EPERM.into()),
            Deletion::Link => self.inner.unlink(caller, dir, name),
            Deletion::LinkFirst => self.inner.unlink(caller, dir, name).map(|()| {
                let _ = remove();
            }),
            Deletion::TargetFirst => remove().and_then(|()| self.inner.unlink(caller, dir, name)),
        }
    }
}
