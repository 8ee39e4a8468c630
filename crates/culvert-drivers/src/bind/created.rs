//! New files: whose they are, and with which mode.

use super::core::Core;
use super::options::Rules;
use culvert::{
    Access, Caller, Entry, Errno, FileKind, Node, OpenFlags, Opened, Result, Rights, SetAttributes,
};
use culvert_sys::process;

const SET_GROUP_ID: u32 = 0o2000;
const SET_ID: u32 = 0o6000;
/// Permission bits: bindfs makes nothing with the others.
const BITS: u32 = 0o777;

/// Whose a new file is to be; none: whose it is when it is made.
type Owner = (Option<u32>, Option<u32>);

impl Core {
    /// Whether files are given away when they are made.
    fn gives(&self) -> bool {
        self.judges && self.alone && process::geteuid() == 0
    }

    /// Whose a file is to be that `caller` makes in `dir`.
    fn owner(&self, caller: &Caller<'_>, dir: Node) -> Result<Owner> {
        let settings = &self.settings;
        let (mut user, mut group) = match settings.as_mounter {
            true => (None, None),
            false => (Some(caller.uid), Some(caller.gid)),
        };
        if group.is_some() {
            let above = self.inner.attributes(&Caller::SYSTEM, dir)?;
            group = group.filter(|_| above.permissions & SET_GROUP_ID == 0);
        }
        user = settings.users.paired(caller.uid).or(user);
        group = settings.groups.paired(caller.gid).or(group);
        let own = |numbers: &super::numbers::Numbers, id: Option<u32>| {
            id.map(|id| numbers.unmoved(id)).transpose()
        };
        user = own(&settings.users, user)?;
        group = own(&settings.groups, group)?;
        Ok((settings.for_user.or(user), settings.for_group.or(group)))
    }

    /// The mode that something of this `kind` is made with, by `rules`, where `mode` is asked for.
    fn mode_of_new(&self, caller: &Caller<'_>, rules: &Rules, kind: FileKind, mode: u32) -> u32 {
        // What the server makes may be another's than the caller's.
        let by_server = self.judges && self.alone && !caller.has(Rights::FSETID);
        let mode = if by_server { mode & !SET_ID } else { mode };
        if rules.made.is_empty() {
            return mode;
        }
        // Where the kernel applies the umask, it comes without.
        let masked = match self.acts && !self.judges {
            true => mode & !(caller.umask & BITS),
            false => mode,
        };
        rules.made.apply(kind, masked)
    }

    /// Makes `name` in `dir` by `work`, which is given the caller and the mode that it is to be
    /// made with; what it made then gets owner and mode by `rules`, or is removed again by `undo`.
    pub fn make<T>(
        &self,
        caller: &Caller<'_>,
        (dir, rules): (Node, &Rules),
        (kind, mode): (FileKind, u32),
        work: impl FnOnce(&Caller<'_>, u32) -> Result<T>,
        entry: impl Fn(&mut T) -> &mut Entry,
        undo: impl FnOnce(),
    ) -> Result<T> {
        let wanted = self.mode_of_new(caller, rules, kind, mode);
        let has_mode = kind != FileKind::Symlink && !rules.made.is_empty();
        if !self.gives() {
            let mut made = work(caller, wanted)?;
            let mode = has_mode.then_some(wanted);
            return self
                .complete(caller, &mut made, (None, None), mode, &entry, undo)
                .map(|()| made);
        }
        let (user, group) = self.owner(caller, dir)?;
        if !self.acts {
            // The driver below makes it for whom it is told.
            let mounter = (process::geteuid(), process::getegid());
            let other = Caller {
                uid: user.unwrap_or(mounter.0),
                gid: group.unwrap_or(mounter.1),
                ..*caller
            };
            let mut made = work(&other, wanted)?;
            let mode = has_mode.then_some(wanted);
            let group = group.filter(|_| self.settings.for_group.is_some());
            return self
                .complete(caller, &mut made, (None, group), mode, &entry, undo)
                .map(|()| made);
        }
        let _making = self.making.begin(dir);
        let mut made = work(caller, wanted)?;
        let mode = has_mode.then_some(wanted);
        self.complete(caller, &mut made, (user, group), mode, &entry, undo)
            .map(|()| made)
    }

    /// Gives what was `made` its owner and its mode.
    fn complete<T>(
        &self,
        caller: &Caller<'_>,
        made: &mut T,
        (user, group): Owner,
        mode: Option<u32>,
        entry: &impl Fn(&mut T) -> &mut Entry,
        undo: impl FnOnce(),
    ) -> Result<()> {
        let own = entry(made).attributes;
        let differs = |mode: &u32| (own.permissions ^ mode) & BITS != 0;
        let changes = SetAttributes {
            uid: user.filter(|uid| *uid != own.uid),
            gid: group.filter(|gid| *gid != own.gid),
            permissions: mode
                .filter(differs)
                .map(|mode| own.permissions & !BITS | mode & BITS),
            ..SetAttributes::default()
        };
        if changes.is_empty() {
            return Ok(());
        }
        match self.inner.set_attributes(caller, own.node, &changes) {
            Ok(attributes) => {
                *entry(made) = Entry { attributes };
                Ok(())
            }
            Err(error) => {
                undo();
                self.inner.forget(own.node, 1);
                Err(error.within("owner or mode of what was made"))
            }
        }
    }

    /// Makes a regular file and opens it, or opens the one that has the name.
    pub fn create(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let rules = self.rules(self.index_at(dir, name)?);
        if !self.judges && rules.made.is_empty() {
            return self.inner.create(caller, dir, name, flags, mode);
        }
        // What is there already keeps its owner and mode, and is opened by who may.
        let new = flags.with(OpenFlags::EXCLUSIVE);
        loop {
            let made = self.make(
                caller,
                (dir, rules),
                (FileKind::Regular, mode),
                |caller, mode| self.inner.create(caller, dir, name, new, mode),
                |made| &mut made.0,
                || drop(self.inner.unlink(caller, dir, name)),
            );
            match made {
                Err(error) if error.errno() == Errno::EEXIST && !flags.exclusive() => {}
                made => return made,
            }
            match self.open_existing(caller, (dir, name), rules, flags) {
                Err(error) if error.errno() == Errno::ENOENT => {}
                opened => return opened,
            }
        }
    }

    fn open_existing(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        rules: &Rules,
        flags: OpenFlags,
    ) -> Result<(Entry, Opened)> {
        let found = self.inner.lookup(caller, dir, name)?;
        let node = found.attributes.node;
        let open = || {
            match found.attributes.kind {
                FileKind::Regular => {}
                FileKind::Directory => return Err(Errno::EISDIR.into()),
                FileKind::Symlink => return Err(Errno::ELOOP.into()),
                _ => return Err(Errno::ENXIO.into()),
            }
            if self.judges {
                let read = if flags.read() { Access::READ.0 } else { 0 };
                let writes = flags.write() || flags.truncate();
                let write = if writes { Access::WRITE.0 } else { 0 };
                let shown = self.shown(caller, rules, found.attributes)?;
                caller.may(Access(read | write), &shown)?;
            }
            let opened = self.inner.open(caller, node, flags)?;
            // As they are after O_TRUNC.
            let attributes = self.inner.attributes(caller, node)?;
            Ok((Entry { attributes }, opened))
        };
        open().inspect_err(|_| self.inner.forget(node, 1))
    }
}
