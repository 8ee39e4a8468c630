//! What is shown of a file.

use super::core::Core;
use super::options::Rules;
use super::pattern::join;
use alloc::vec::Vec;
use culvert::{Access, Attributes, Caller, Entry, Errno, Error, FileKind, Node, Result};

impl Core {
    /// The rules for what has the path `path`, by their place: 0 are the general ones.
    pub fn index_of(&self, path: &[u8]) -> usize {
        let sets = self.settings.sets.iter();
        let found = sets
            .rev()
            .position(|(pattern, _)| pattern.matches_path(path));
        found.map_or(0, |back| self.settings.sets.len() - back)
    }

    /// The rules for `node`, by their place. What has no name any more has the general ones.
    pub fn index(&self, node: Node) -> Result<usize> {
        if self.settings.sets.is_empty() {
            return Ok(0);
        }
        let mut again = true;
        loop {
            match self.inner.path_of(node) {
                Ok(path) => return Ok(self.index_of(&path)),
                // What is known by its name alone has none while that is another's: `ESTALE`, and
                // not what may be done to what has no name.
                Err(error) if error.errno() == Errno::ENOENT && again => {
                    self.inner.attributes(&Caller::SYSTEM, node)?;
                    again = false;
                }
                Err(error) if error.errno() == Errno::ENOENT => return Ok(0),
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for `name` in `dir`, or for a path from there.
    pub fn index_at(&self, dir: Node, name: &[u8]) -> Result<usize> {
        match self.settings.sets.is_empty() {
            true => Ok(0),
            false => Ok(self.index_of(&join(&self.inner.path_of(dir)?, name))),
        }
    }

    /// Those that have a place.
    pub fn rules(&self, index: usize) -> &Rules {
        match index
            .checked_sub(1)
            .and_then(|set| self.settings.sets.get(set))
        {
            Some((_, rules)) => rules,
            None => &self.settings.general,
        }
    }

    /// Whether `caller` is a user who sees files as his own.
    fn mirrors(&self, caller: &Caller<'_>) -> bool {
        self.settings.mirrored.contains(&caller.uid)
    }

    /// `EACCES` for users that are not let in at all. The front end judges them by what they are
    /// shown; that a kernel keeps for one user what another was shown it cannot know.
    pub fn admit(&self, caller: &Caller<'_>) -> Result<()> {
        let out = self.settings.mirror_only && caller.uid != 0 && !self.mirrors(caller);
        match out {
            true => Err(Error::because(
                Errno::EACCES,
                "the user is not in mirror-only=",
            )),
            false => Ok(()),
        }
    }

    /// What `caller` is shown of attributes that the file system below reports, by `rules`.
    pub fn shown(&self, caller: &Caller<'_>, rules: &Rules, own: Attributes) -> Result<Attributes> {
        let mut shown = own;
        if self.settings.block_files && own.kind == FileKind::BlockDevice {
            self.show_device(&mut shown)?;
        }
        if rules.ctime_from_mtime {
            shown.ctime = own.mtime;
        }
        if rules.one_link {
            // What has no name any more has none.
            shown.links = own.links.min(1);
        }
        shown.uid = match rules.user {
            Some(user) => user,
            None => self.settings.users.shown(own.uid)?,
        };
        shown.gid = match rules.group {
            Some(group) => group,
            None => self.settings.groups.shown(own.gid)?,
        };
        if self.mirrors(caller) {
            shown.uid = caller.uid;
        } else if self.settings.mirror_only && caller.uid != 0 {
            shown.permissions &= !0o777;
            return Ok(shown);
        }
        if own.kind != FileKind::Symlink {
            shown.permissions = rules.shown.apply(shown.kind, own.permissions);
            if rules.realistic {
                shown.permissions &= !self.refused(caller, own.node);
            }
        }
        Ok(shown)
    }

    /// The bits that say what may not be done to `node` below.
    fn refused(&self, caller: &Caller<'_>, node: Node) -> u32 {
        let all = [
            (Access::READ, 0o444),
            (Access::WRITE, 0o222),
            (Access::EXECUTE, 0o111),
        ];
        let refused = all
            .iter()
            .filter(|(access, _)| self.inner.access(caller, node, *access).is_err());
        refused
            .map(|(_, bits)| bits)
            .fold(0, |sum, bits| sum | bits)
    }

    /// [`Core::shown`] for a node.
    pub fn show(&self, caller: &Caller<'_>, own: Attributes) -> Result<Attributes> {
        self.shown(caller, self.rules(self.index(own.node)?), own)
    }

    /// The same for an entry, whose reference is given back where it cannot be shown.
    pub fn show_entry(&self, caller: &Caller<'_>, entry: Entry) -> Result<Entry> {
        let shown = self.show(caller, entry.attributes);
        let shown = shown.inspect_err(|_| self.inner.forget(entry.attributes.node, 1));
        Ok(Entry { attributes: shown? })
    }

    /// [`Core::show_entry`] for what `path` leads to from directory `dir`: what has no other name
    /// has the rules of that one, where a name is spelt in one way.
    pub fn show_reached(
        &self,
        caller: &Caller<'_>,
        (dir, path): (Node, &[u8]),
        entry: Entry,
    ) -> Result<Entry> {
        let own = entry.attributes;
        let has_others = || {
            own.kind != FileKind::Directory && own.links != 1
                || self.inner.capabilities().case_insensitive
        };
        if self.settings.sets.is_empty() || has_others() {
            return self.show_entry(caller, entry);
        }
        let shown = self.index_at(dir, path);
        let shown = shown.and_then(|index| self.shown(caller, self.rules(index), own));
        let shown = shown.inspect_err(|_| self.inner.forget(own.node, 1));
        Ok(Entry { attributes: shown? })
    }

    /// Whether `name` in `dir` is not there, as the options say.
    pub fn hides(&self, dir: Node, name: &[u8]) -> Result<bool> {
        Ok(!self.settings.excluded.is_empty() && self.hidden_in(dir)?(name))
    }

    /// The same for all names in `dir`.
    pub fn hidden_in(&self, dir: Node) -> Result<impl Fn(&[u8]) -> bool> {
        let excluded = &self.settings.excluded;
        let path: Vec<u8> = match excluded.iter().any(|pattern| pattern.is_path()) {
            true => self.inner.path_of(dir)?,
            false => Vec::new(),
        };
        Ok(move |name: &[u8]| {
            excluded
                .iter()
                .any(|pattern| pattern.matches_name(&path, name))
        })
    }

    /// `ENOENT` where the options hide the name.
    pub fn find(&self, dir: Node, name: &[u8]) -> Result<()> {
        match self.hides(dir, name)? {
            true => Err(Errno::ENOENT.into()),
            false => Ok(()),
        }
    }

    /// `EPERM` where the options would hide a name that is to be made.
    pub fn may_make(&self, dir: Node, name: &[u8]) -> Result<()> {
        match self.hides(dir, name)? {
            true => Err(Error::because(
                Errno::EPERM,
                "the name is one that exclude= hides",
            )),
            false => Ok(()),
        }
    }

    /// Whether something below a directory of path `from` is hidden that would not be by the path
    /// `to`, or the other way round.
    pub fn hides_below(&self, from: &[u8], to: &[u8]) -> bool {
        let mut all = self.settings.excluded.iter();
        all.any(|pattern| [from, to].iter().any(|path| pattern.may_match_below(path)))
    }
}
