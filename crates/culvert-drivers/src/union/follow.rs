//! Links that are shown as what they lead to (option `follow-symlinks`), and files that are shown
//! as links (option `symlinkify`).
//!
//! A link is followed in the union, by names of the union: so nobody who changes one leads outside.
//! One that leads outside stays a link, which the program follows by itself.

use super::branch::{Tree, mix};
use super::options::{Follow, Function};
use super::state::{Core, Parts};
use alloc::{collections::VecDeque, vec::Vec};
use culvert::{Attributes, Caller, Entry, Errno, FileKind, Node, Result};
use culvert_sys::process;
use culvert_sys::raw::general::CLOCK_REALTIME_COARSE;

/// `MAXSYMLINKS` (include/linux/namei.h).
const MOST_LINKS: usize = 40;

impl Core {
    /// What the link `node`, found in the directory `dir`, is shown as, with one reference; none:
    /// itself.
    pub fn followed(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        node: Node,
    ) -> Result<Option<(Entry, Parts)>> {
        let found = match self.end_of(caller, dir, node) {
            Err(error) if error.errno() == Errno::ESTALE => return Err(error),
            found => found.ok().flatten(),
        };
        let Some(entry) = found else {
            return Ok(None);
        };
        let Attributes { node, kind, .. } = entry.attributes;
        let wanted = match (self.settings().follow, kind) {
            (Follow::Never, _) => false,
            (Follow::Directories, kind) => kind == FileKind::Directory,
            (Follow::Files, kind) => kind == FileKind::Regular,
            (Follow::All, _) => true,
        };
        if !wanted {
            self.nodes.forget(node, 1).give_back();
            return Ok(None);
        }
        let parts = match kind {
            FileKind::Directory => self.directory(caller, node)?,
            _ => Parts::new(),
        };
        Ok(Some((entry, parts)))
    }

    /// Where the link `node` in the directory `dir` ends, which is no link; none: outside, or
    /// nowhere.
    fn end_of(&self, caller: &Caller<'_>, dir: Node, node: Node) -> Result<Option<Entry>> {
        let mut here = names(&self.seen_path(dir));
        let mut left = VecDeque::new();
        if !self.lead(caller, node, &mut here, &mut left)? {
            return Ok(None);
        }
        let mut links = 1;
        while let Some(name) = left.pop_front() {
            if name == b".." {
                // Beyond the root it leads outside.
                match here.pop() {
                    Some(_) => continue,
                    None => return Ok(None),
                }
            }
            here.push(name);
            let Some(entry) = self.at(caller, &here)? else {
                return Ok(None);
            };
            let Attributes { node, kind, .. } = entry.attributes;
            let leads = match kind {
                FileKind::Symlink => {
                    here.pop();
                    links += 1;
                    let led = self.lead(caller, node, &mut here, &mut left);
                    led.map(|led| led && links <= MOST_LINKS)
                }
                FileKind::Directory => Ok(true),
                _ => Ok(left.is_empty()),
            };
            self.nodes.forget(node, 1).give_back();
            if !leads? {
                return Ok(None);
            }
        }
        self.at(caller, &here)
    }

    /// What is at the path `names`, with one reference.
    fn at(&self, caller: &Caller<'_>, names: &[Vec<u8>]) -> Result<Option<Entry>> {
        if names.is_empty() {
            let attributes = self.attributes(caller, super::ROOT)?;
            return Ok(Some(Entry { attributes }));
        }
        let path = names.join(&b'/');
        let Some(reached) = self.reach(caller, super::ROOT, &path, Follow::Never) else {
            return Ok(None);
        };
        let reached = reached?;
        if reached.parent != super::ROOT {
            // What is below keeps it.
            self.nodes.forget(reached.parent, 1).give_back();
        }
        Ok(reached.entry)
    }

    /// Goes where the link `node` leads: to the names `left` from `here`. Whether that is inside.
    fn lead(
        &self,
        caller: &Caller<'_>,
        node: Node,
        here: &mut Vec<Vec<u8>>,
        left: &mut VecDeque<Vec<u8>>,
    ) -> Result<bool> {
        let (index, part) = self.one(caller, node, Function::Readlink)?;
        let target = self.branches[index].fs.readlink(caller, part)?;
        let inside = match target.first() {
            Some(b'/') => {
                here.clear();
                self.inside(&target)
            }
            _ => Some(&target[..]),
        };
        let Some(inside) = inside else {
            return Ok(false);
        };
        for name in names(inside).into_iter().rev() {
            left.push_front(name);
        }
        Ok(true)
    }

    /// `path`, an absolute one, below the root of the union: by the mount's own path or by a
    /// branch's.
    fn inside<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let below = |base: &[u8]| {
            let rest = path.strip_prefix(base)?;
            matches!(rest.first(), None | Some(b'/')).then_some(rest)
        };
        let mut branches = self.branches.iter();
        below(&self.target).or_else(|| branches.find_map(|branch| below(&branch.source)))
    }

    /// The length of the link `node` of `branch`, which says that it is `size`.
    pub fn link_size(&self, node: Node, branch: &Tree, size: u64) -> u64 {
        let member = self
            .nodes
            .with(node, |known| known.members.first().map(|one| one.node));
        match member {
            Ok(Some(member)) if as_link(branch.number(member)) == node => {
                let path = self.seen_path(node);
                (branch.source.len() + 1 + path.len()) as u64
            }
            _ => size,
        }
    }

    /// Whether the file with `attributes` is shown as a link to where it lies: nobody may write it,
    /// and it has not changed for a while.
    pub fn is_shown_as_link(&self, attributes: &Attributes) -> bool {
        let settings = self.settings();
        if !settings.symlinkify {
            return false;
        }
        let timeout = i64::from(settings.symlinkify_timeout);
        let is_kind = matches!(attributes.kind, FileKind::Directory | FileKind::Symlink);
        if is_kind || attributes.permissions & 0o222 != 0 {
            return false;
        }
        let Ok(now) = process::clock_gettime(CLOCK_REALTIME_COARSE) else {
            return false;
        };
        let is_old = |seconds: i64| now.tv_sec.saturating_sub(seconds) > timeout;
        is_old(attributes.mtime.seconds) && is_old(attributes.ctime.seconds)
    }
}

/// The number of file `node` where it is shown as a link: what has it open sees the file.
pub fn as_link(node: Node) -> Node {
    const SALT: u64 = 0x6c69_6e6b;
    Node(mix(node.0 ^ SALT).max(super::OWN.0 + 1))
}

/// The names of `path`.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let all = path.split(|&byte| byte == b'/');
    all.filter(|name| !matches!(*name, b"" | b"."))
        .map(<[u8]>::to_vec)
        .collect()
}
