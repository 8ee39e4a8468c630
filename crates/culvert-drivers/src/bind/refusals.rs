//! Operations that the options refuse. A kernel looks first whether they make sense at all, and so
//! says something else of those that do not; in a run nobody has looked yet.

use super::core::Core;
use super::options::{Policy, Rules, Xattrs};
use super::pattern::{Pattern, join};
use culvert::{Access, Attributes, Caller, Errno, Error, FileKind, Node, RenameFlags, Result};

/// A name in a directory.
type At<'a> = (Node, &'a [u8]);

/// Whether an access list may be written: with it goes the mode, past what is said of chmod(2).
/// Who is told that there are none tries chmod(2).
fn may_change_acl(rules: &Rules) -> Result<()> {
    match rules.chmod {
        Policy::Normal if rules.chmod_filter.is_empty() => Ok(()),
        Policy::Deny => Err(Error::because(Errno::EPERM, "chmod-deny")),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Core {
    /// Whether extended attribute `name` of `node` may be read, or written.
    pub fn may_use_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        writes: bool,
    ) -> Result<()> {
        let rules = self.rules(self.index(node)?);
        let xattrs = rules.xattrs;
        if xattrs == Xattrs::All && writes && name.starts_with(b"system.posix_acl_") {
            return may_change_acl(rules);
        }
        if xattrs == Xattrs::All || xattrs == Xattrs::Read && !writes {
            return Ok(());
        }
        // Those of users are for files and directories (xattr(7)).
        let has = |kind| matches!(kind, FileKind::Regular | FileKind::Directory);
        if name.starts_with(b"user.") && !has(self.inner.attributes(caller, node)?.kind) {
            return Err(if writes { Errno::EPERM } else { Errno::ENODATA }.into());
        }
        match xattrs {
            Xattrs::Read => Err(Error::because(Errno::EACCES, "xattr-ro")),
            // A kernel that asks for access lists takes anything else for an error of the file's.
            _ if !writes && name.starts_with(b"system.posix_acl_") => Err(Errno::ENODATA.into()),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Whether their names may be listed.
    pub fn may_list_xattrs(&self, node: Node) -> Result<()> {
        match self.rules(self.index(node)?).xattrs {
            Xattrs::None => Err(Errno::EOPNOTSUPP.into()),
            Xattrs::Read | Xattrs::All => Ok(()),
        }
    }

    /// What a name is, for somebody who may change its directory.
    fn found(&self, caller: &Caller<'_>, (dir, name): At<'_>) -> Result<Attributes> {
        let found = self.inner.lookup(caller, dir, name)?.attributes;
        self.inner.forget(found.node, 1);
        if !self.judges {
            let change = Access(Access::WRITE.0 | Access::EXECUTE.0);
            self.inner.access(caller, dir, change)?;
        }
        Ok(found)
    }

    /// Whether a name may be removed, by rmdir(2) or by unlink(2).
    pub fn may_delete(
        &self,
        caller: &Caller<'_>,
        rules: &Rules,
        at: At<'_>,
        is_rmdir: bool,
    ) -> Result<()> {
        if !rules.delete_deny {
            return Ok(());
        }
        let is_directory = self.found(caller, at)?.kind == FileKind::Directory;
        match (is_rmdir, is_directory) {
            (true, false) => Err(Errno::ENOTDIR.into()),
            (false, true) => Err(Errno::EISDIR.into()),
            _ => Err(Error::because(Errno::EPERM, "delete-deny")),
        }
    }

    /// Whether a name may be moved; false: there is nothing to do.
    pub fn may_rename(
        &self,
        caller: &Caller<'_>,
        (from, to): (At<'_>, At<'_>),
        flags: RenameFlags,
    ) -> Result<bool> {
        let denies =
            |(dir, name)| Ok::<_, Error>(self.rules(self.index_at(dir, name)?).rename_deny);
        if !denies(from)? && !denies(to)? {
            return Ok(true);
        }
        let old = self.found(caller, from)?;
        let directory = |found: &Attributes| found.kind == FileKind::Directory;
        match self.found(caller, to) {
            Ok(_) if flags.no_replace() => return Err(Errno::EEXIST.into()),
            Ok(new) if new.node == old.node => return Ok(false),
            Ok(new) if !flags.exchange() && directory(&old) != directory(&new) => {
                return Err(match directory(&old) {
                    true => Errno::ENOTDIR.into(),
                    false => Errno::EISDIR.into(),
                });
            }
            Err(error) if error.errno() != Errno::ENOENT || flags.exchange() => return Err(error),
            _ => {}
        }
        Err(Error::because(Errno::EPERM, "rename-deny"))
    }

    /// Whether `from` may be called `to`: `EXDEV` for what would get other rules of a path, and for
    /// a directory below which something would, or something else would be hidden. Who copies it
    /// instead does so by the rules of both.
    pub fn may_move(&self, caller: &Caller<'_>, from: At<'_>, to: At<'_>) -> Result<()> {
        let settings = &self.settings;
        if settings.sets.is_empty() && !settings.excluded.iter().any(Pattern::is_path) {
            return Ok(());
        }
        let path = |(dir, name): At<'_>| Ok::<_, Error>(join(&self.inner.path_of(dir)?, name));
        let paths = [path(from)?, path(to)?];
        let [old, new] = paths.each_ref().map(|path| self.index_of(path));
        // Those before the one that holds for the directory hold for nothing below it.
        let mut later = settings.sets.iter().skip(old);
        let rules =
            later.any(|(pattern, _)| paths.iter().any(|path| pattern.may_match_below(path)));
        let why = match (old != new, rules, self.hides_below(&paths[0], &paths[1])) {
            (true, _, _) => "it would get other rules of path=",
            (_, true, _) => "what lies below would get other rules of path=",
            (_, _, true) => "what exclude= hides below would be another",
            _ => return Ok(()),
        };
        let is_directory = self.found(caller, from)?.kind == FileKind::Directory;
        match old != new || is_directory {
            true => Err(Error::because(Errno::EXDEV, why)),
            false => Ok(()),
        }
    }

    /// Whether `node` may be called `to`, too: `EXDEV` where that has other rules of a path. What
    /// has no name yet has none of these.
    pub fn may_link(&self, node: Node, to: At<'_>) -> Result<()> {
        if self.settings.sets.is_empty() {
            return Ok(());
        }
        let own = match self.inner.path_of(node) {
            Ok(path) => self.index_of(&path),
            Err(error) if error.errno() == Errno::ENOENT => return Ok(()),
            Err(error) => return Err(error),
        };
        match own != self.index_at(to.0, to.1)? {
            true => Err(Error::because(
                Errno::EXDEV,
                "the name would have other rules of path=",
            )),
            false => Ok(()),
        }
    }
}
