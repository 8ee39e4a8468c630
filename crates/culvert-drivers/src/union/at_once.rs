//! Calls by path that are answered at once, and leave nothing behind: of a file in the root, or in
//! a directory that is believed to be what it is known to be ([`super::beliefs`]).
//!
//! A branch that has the directory is looked at, and the next one where it does not have the name.
//! No node comes of that: who asks so wants none.

use super::beliefs::Belief;
use super::branch::Branch;
use super::control::NAME;
use super::options::{Function, InodeCalc};
use super::state::{Core, Parts};
use crate::passthrough::Glance;
use alloc::sync::Arc;
use core::ffi::CStr;
use culvert::{
    Access, Attributes, Caller, Errno, FileKind, Node, RenameFlags, Result, SetAttributes,
};
use culvert_sys::{flags::OFlags, fs};

/// A directory, for the time of one call.
struct Place<'a> {
    core: &'a Core,
    /// What it is on each branch; none: the root.
    parts: Option<Arc<Parts>>,
    /// The directory, which stays known meanwhile.
    pinned: Option<Node>,
}

/// What it is on one branch.
struct There<'a> {
    branch: &'a Branch,
    part: Node,
    glance: Glance,
    /// The kernel's directory.
    descriptor: i32,
}

impl There<'_> {
    /// What `name` is, if it is a regular file, and whether that lies on the branch's own file
    /// system. None: something else, or it cannot be told.
    fn file(&self, name: &[u8]) -> Option<Result<(Attributes, bool)>> {
        match self.glance.look_home(self.descriptor, name) {
            Err(error) if error.errno() == Errno::ENOENT => Some(Err(error)),
            found => {
                let found = found.ok();
                found.filter(|it| it.0.kind == FileKind::Regular).map(Ok)
            }
        }
    }
}

impl<'a> Place<'a> {
    /// The directory on branch `index`. None: it is not there. `ESTALE`: it is none of the
    /// kernel's, or is known no more.
    fn on(&self, index: usize) -> Option<Result<There<'a>>> {
        let branch = &self.core.branches[index];
        let part = match &self.parts {
            None => branch.fs.root(),
            Some(parts) => parts[index]?,
        };
        let found = branch.glance.zip(branch.fs.kernel_node(part));
        let there = found.map(|(glance, descriptor)| There {
            branch,
            part,
            glance,
            descriptor,
        });
        Some(there.ok_or(Errno::ESTALE.into()))
    }

    /// The same on the only branch that has it, where `function` may change what is there.
    fn changed_by(&self, function: Function) -> Option<There<'a>> {
        let (core, settings) = (self.core, self.core.settings());
        let may_not = core.capabilities.read_only
            || settings.symlinkify
            || !settings.policy(function).is_first();
        let there = self.on(self.only().filter(|_| !may_not)?)?.ok()?;
        there.branch.changes().then_some(there)
    }

    /// It.
    fn node(&self) -> Node {
        self.pinned.unwrap_or(super::ROOT)
    }

    /// The only branch that has it.
    fn only(&self) -> Option<usize> {
        let has = |(index, _): &(usize, &Branch)| {
            self.parts
                .as_ref()
                .is_none_or(|parts| parts[*index].is_some())
        };
        let mut all = self.core.branches.iter().enumerate().filter(has);
        let first = all.next()?.0;
        all.next().is_none().then_some(first)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.pinned {
            self.core.nodes.unpin(node).give_back();
        }
    }
}

/// The last name of `path`.
fn name_of(path: &[u8]) -> &[u8] {
    let mut names = path.rsplit(|&byte| byte == b'/');
    names.next().unwrap_or(path)
}

impl Core {
    /// The directory in which the last name of `path` from the directory `from` lies, and that
    /// name. None: only who looks can tell.
    fn place<'p>(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &'p [u8],
    ) -> Option<(Place<'_>, &'p [u8])> {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (above, name) = match slash {
            None => (&b""[..], path),
            Some(slash) => (path.get(..slash)?, path.get(slash + 1..)?),
        };
        if from == super::ROOT && above.is_empty() {
            let is_own = name == NAME || !self.believes(caller);
            let place = Place {
                core: self,
                parts: None,
                pinned: None,
            };
            return (!is_own).then_some((place, name));
        }
        let is = |one: &Belief| match from {
            super::ROOT => one.path == above,
            from => one.dir == from && above.is_empty(),
        };
        let (dir, parts) = self.believed(caller, is)?;
        self.nodes.pin(dir).ok()?;
        let place = Place {
            core: self,
            parts: Some(parts),
            pinned: Some(dir),
        };
        Some((place, name))
    }

    /// [`culvert::FileSystem::attributes_at`].
    pub fn attributes_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        access: Option<Access>,
    ) -> Option<Result<Attributes>> {
        let settings = self.settings();
        let is_first = |function| settings.policy(function).is_first();
        if settings.symlinkify
            || matches!(settings.inodes, InodeCalc::Path)
            || !is_first(Function::Getattr)
            || access.is_some() && (self.capabilities.read_only || !is_first(Function::Access))
        {
            return None;
        }
        let (place, name) = self.place(caller, from, path)?;
        for index in 0..self.branches.len() {
            let there = match place.on(index) {
                None => continue,
                Some(there) => there.ok()?,
            };
            let Ok((found, is_home)) = there.file(name)? else {
                continue;
            };
            // The branch alone knows that it is not to be written to.
            if access.is_some_and(Access::write) && there.branch.fs.capabilities().read_only {
                return None;
            }
            let grants = |access| match is_home && self.owner_reads(caller, access, &found) {
                true => Ok(()),
                false => there.glance.access(there.descriptor, name, access),
            };
            match access.map(grants) {
                None | Some(Ok(())) => {}
                Some(Err(error)) if error.errno() == Errno::EACCES => return Some(Err(error)),
                Some(Err(_)) => return None,
            }
            let node = there.branch.number(found.node);
            return Some(Ok(self.shown(node, &there.branch.tree, found)));
        }
        Some(Err(Errno::ENOENT.into()))
    }

    /// Whether `caller` may do `access`, to read the `file` that is his own: its mode says so, of
    /// which access lists and mounts take nothing away (`acl_permission_check`, fs/namei.c).
    fn owner_reads(&self, caller: &Caller<'_>, access: Access, file: &Attributes) -> bool {
        const BY_OWNER: u32 = 0o400;
        access == Access::READ
            && caller.uid == file.uid
            && file.permissions & BY_OWNER != 0
            && self.do_modes_decide()
            && self.branches.iter().all(|branch| branch.is_by_mode)
    }

    /// [`modes_decide`], asked once.
    fn do_modes_decide(&self) -> bool {
        let asked = || Ok::<_, Errno>(modes_decide());
        self.modes_decide.get_or_try_init(asked).is_ok_and(|&is| is)
    }

    /// [`culvert::FileSystem::change_at`]: of permissions, where one branch alone can have the
    /// name. No link has any, so that it need not be known what has it.
    pub fn change_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        let permissions = changes.permissions?;
        let alone = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        if alone != *changes {
            return None;
        }
        let (place, name) = self.place(caller, from, path)?;
        let there = place.changed_by(Function::Chmod)?;
        match there.glance.permit(there.descriptor, name, permissions) {
            Ok(()) => Some(Ok(())),
            Err(error) if error.errno() == Errno::ENOENT => Some(Err(error)),
            Err(_) => None,
        }
    }

    /// [`culvert::FileSystem::unlink_at`], where one branch alone can have the name.
    pub fn unlink_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        // Before anything is believed.
        let stamp = self.names.stamp(name_of(path));
        let (place, name) = self.place(caller, from, path)?;
        let there = place.changed_by(Function::Unlink)?;
        let found = match there.file(name)? {
            Err(error) => return Some(Err(error)),
            Ok(found) => found.0,
        };
        let changing = self.names.change_of([Some(name), None]);
        if !changing.is_now(name, stamp) {
            return None;
        }
        // Whatever is wrong with it is found again.
        there.branch.fs.unlink(caller, there.part, name).ok()?;
        Some(Ok((place.node(), there.branch.number(found.node))))
    }

    /// [`culvert::FileSystem::rename_at`], where one branch alone can have both names, in one
    /// directory. What has the new one is the branch's to replace.
    pub fn rename_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        old: &[u8],
        new: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        let to = name_of(new);
        if old.strip_suffix(name_of(old)) != new.strip_suffix(to) || to == NAME {
            return None;
        }
        // Before anything is believed.
        let stamps = [name_of(old), to].map(|name| self.names.stamp(name));
        let (place, name) = self.place(caller, from, old)?;
        let there = place.changed_by(Function::Rename)?;
        let found = match there.file(name)? {
            Err(error) => return Some(Err(error)),
            Ok(found) => found.0,
        };
        let changing = self.names.change_of([Some(name), Some(to)]);
        if !changing.is_now(name, stamps[0]) || !changing.is_now(to, stamps[1]) {
            return None;
        }
        let flags = RenameFlags::default();
        let (part, dir) = (there.part, place.node());
        let done = there
            .branch
            .fs
            .rename(caller, (part, name), (part, to), flags);
        done.ok()?;
        let node = there.branch.number(found.node);
        self.nodes.renamed(node, (dir, to)).give_back();
        Some(Ok((dir, node)))
    }
}

/// Whether nothing but modes and access lists says what a file's owner may do: there is no module
/// of the kernel's that labels programs, and numbers of users are the machine's, none of which
/// stands for all that are unknown (user_namespaces(7)).
fn modes_decide() -> bool {
    const ALL_USERS: [&[u8]; 3] = [b"0", b"0", b"4294967295"];
    let read = |path: &CStr| {
        let mut text = [0; 128];
        let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, 0)?;
        let count = fs::pread(&file, &mut text, 0)?;
        Ok::<_, Errno>((text, count))
    };
    let Ok((text, count)) = read(c"/proc/self/uid_map") else {
        return false;
    };
    let words = text[..count].split(|byte| byte.is_ascii_whitespace());
    let is_all = words.filter(|word| !word.is_empty()).eq(ALL_USERS);
    // What a process without a label has there is no text.
    is_all && matches!(read(c"/proc/self/attr/current"), Err(Errno::EINVAL))
}
