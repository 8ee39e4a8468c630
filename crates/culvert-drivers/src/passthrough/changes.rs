//! Names made, moved and removed, files opened.

use super::attributes::{Target, attributes, change};
use super::filesystem::PassthroughFs;
use super::inotify::{CREATE, DELETE, MOVED_FROM, MOVED_TO};
use super::kernel::{
    self, Name, O_CLOEXEC, O_CREAT, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_PATH, O_TMPFILE,
};
use super::named::{Named, changed};
use super::object::Object;
use core::ffi::CStr;
use culvert::{
    Attributes, Caller, Entry, Errno, FileKind, Node, OpenFlags, Opened, RenameFlags, Result,
    Rights, SetAttributes,
};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::{O_RDWR, O_TRUNC, O_WRONLY};
use culvert_sys::{fs, process};

/// Flags of open(2) that say how, and not what or where: the others are the callers' here.
const KEPT: u32 = !(O_CREAT | O_EXCL | kernel::O_DIRECTORY | O_PATH | OpenFlags::LENDS.0);

/// What was made and removed again before anybody could look at it. No inode has this number.
pub(super) const GONE: Node = Node(u64::MAX);

/// The entry of [`GONE`].
fn gone(kind: FileKind) -> Entry {
    let attributes = Attributes {
        node: GONE,
        inode: GONE.0,
        links: 0,
        uid: process::geteuid(),
        gid: process::getegid(),
        ..Attributes::new(kind, 0)
    };
    Entry { attributes }
}

impl PassthroughFs {
    /// Opens what `object` is.
    pub(super) fn open_object(
        &self,
        node: Node,
        object: &Object,
        flags: OpenFlags,
    ) -> Result<Opened> {
        match object.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            // Opening may wait, or do what nobody asked for.
            _ => return Err(Errno::ENXIO.into()),
        }
        if flags.write() || flags.truncate() {
            self.writable()?;
        }
        // The magic link is a link.
        let how = flags.0 & KEPT & !O_NOFOLLOW | O_NOCTTY;
        let file = match kernel::reopen(object.fd(), self.readable(how)) {
            // The caller may write it, but not read it.
            Err(error) if error.errno() == Errno::EACCES => kernel::reopen(object.fd(), how),
            opened => opened,
        };
        Ok(self.opened_closed_on_exec(node, file?, flags))
    }

    /// The same of what is used by its name. None: it is to be opened by its descriptor.
    pub(super) fn open_named(
        &self,
        node: Node,
        named: &Named,
        flags: OpenFlags,
    ) -> Option<Result<Opened>> {
        if named.kind != FileKind::Regular {
            return None;
        }
        if (flags.write() || flags.truncate()) && self.options.read_only {
            return Some(Err(Errno::EROFS.into()));
        }
        // openat2(2) takes no flag that it does not know.
        const UNKNOWN: u32 = !0o37777703;
        // Nothing is emptied before it is known to be what is meant.
        let how = flags.0 & KEPT & !(O_NOFOLLOW | O_TRUNC | O_CLOEXEC) | O_NOCTTY;
        let how = how | self.on_exec(flags);
        // What is open for reading alone is emptied by open(2) only.
        if how & UNKNOWN != 0 || flags.truncate() && !flags.write() {
            return None;
        }
        let (dir, name) = (named.directory.fd(), &named.name);
        let file = match kernel::open_no_link(dir, name, self.readable(how)) {
            // The caller may write it, but not read it.
            Err(error) if error.errno() == Errno::EACCES && self.readable(how) != how => {
                kernel::open_no_link(dir, name, how)
            }
            opened => opened,
        };
        let file = match file {
            // There is no openat2(2), or a filter that does not know it; EPERM: O_NOATIME as well.
            Err(error) if matches!(error.errno(), Errno::ENOSYS | Errno::EPERM | Errno::EAGAIN) => {
                return None;
            }
            file => file.map_err(changed),
        };
        Some(file.and_then(|file| {
            if !named.is(&kernel::status(&file, None)?) {
                return Err(Errno::ESTALE.into());
            }
            if flags.truncate() {
                fs::ftruncate(&file, 0)?;
            }
            Ok(self.opened(node, file, flags))
        }))
    }

    /// Makes `changes` to what is used by its name. None: they are to be made by its descriptor.
    pub(super) fn change_named(
        &self,
        node: Node,
        named: &Named,
        changes: &SetAttributes,
    ) -> Option<Result<Attributes>> {
        if changes.size.is_some() || changes.is_empty() {
            return None;
        }
        let target = Target::Name(named.directory.fd(), &named.name);
        match change(target, changes) {
            // A call that is not there, or not to be had for links.
            Err(error)
                if matches!(
                    error.errno(),
                    Errno::ENOSYS | Errno::EPERM | Errno::EINVAL | Errno::EOPNOTSUPP
                ) =>
            {
                None
            }
            Err(error) => Some(Err(changed(error))),
            Ok(()) => Some(
                match kernel::status(named.directory.fd(), Some(&named.name)) {
                    // A link, perhaps, which was changed itself: it is to be followed.
                    Ok(status) if kernel::kind(&status).ok() != Some(named.kind) => {
                        Err(Errno::ESTALE.into())
                    }
                    Ok(status) if named.has_identity(&status) => attributes(node, &status),
                    // It was changed, whatever others have done to the name since.
                    _ => Ok(Attributes {
                        node,
                        permissions: changes.permissions.unwrap_or(0),
                        ..gone(named.kind).attributes
                    }),
                },
            ),
        }
    }

    /// New permissions for what is used by its name, where `changes` are no more. No link has any
    /// (`notify_change`, fs/attr.c), so that what was changed needs no second look. None: as
    /// [`Self::change_named`].
    pub(super) fn permit_named(
        &self,
        named: &Named,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        let permissions = changes.permissions?;
        let alone = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        if alone != *changes || named.kind == FileKind::Symlink {
            return None;
        }
        let target = Target::Name(named.directory.fd(), &named.name);
        match change(target, changes) {
            Ok(()) => Some(Ok(())),
            Err(error) => match error.errno() {
                Errno::ENOSYS | Errno::EPERM | Errno::EINVAL | Errno::EOPNOTSUPP => None,
                _ => Some(Err(changed(error))),
            },
        }
    }

    /// `flags` of a file without a descriptor to offer: what it holds is read, too, when a program
    /// that is not intercepted inherits a description for writing only.
    fn readable(&self, flags: u32) -> u32 {
        const ACCESS_MODE: u32 = 3;
        match self.options.no_descriptor && flags & ACCESS_MODE == O_WRONLY {
            true => flags & !ACCESS_MODE | O_RDWR,
            false => flags,
        }
    }

    /// `EROFS` on a mount that is to stay as it is.
    pub(super) fn writable(&self) -> Result<()> {
        match self.options.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// Makes a file, or opens the one that has the name.
    pub(super) fn create_file(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let object = self.directory(dir)?;
        let (called, name) = (name, Name::new(name)?);
        // The next program, which may not open it again at all, gets this very description. One
        // that may write can open it again, and until then what it holds can be read by the run.
        let unreadable = mode & 0o600 == 0 && !caller.has(Rights::DAC_OVERRIDE);
        let wanted = match unreadable {
            true => flags.0 & KEPT,
            false => self.readable(flags.0 & KEPT),
        };
        loop {
            // O_EXCL follows no link, and O_NOFOLLOW would show in F_GETFL.
            let new = wanted & !O_CLOEXEC | self.on_exec(flags) | O_CREAT | O_EXCL | O_NOCTTY;
            let own = [(dir, called, CREATE)];
            match self.doing(&own, || kernel::create_at(object.fd(), &name, new, mode)) {
                Ok(file) => {
                    let status = kernel::status(&file, None)?;
                    // A front end that takes the descriptor keeps no more than the open file.
                    let lends = flags.has(OpenFlags::LENDS);
                    let place = Some((dir, &name)).filter(|_| lends);
                    let seen = place.and_then(|place| self.nodes.see(&status, place));
                    let entry = match seen {
                        Some(node) => Entry {
                            attributes: attributes(node, &status)?,
                        },
                        None => {
                            let place = kernel::reopen(&file, O_PATH)?;
                            self.entry(place, Some((dir, &name)))?
                        }
                    };
                    return Ok((entry, self.opened(entry.attributes.node, file, flags)));
                }
                Err(error) if error.errno() == Errno::EEXIST && !flags.exclusive() => {}
                Err(error) => return Err(error),
            }
            // Not opened by its name: that may be a FIFO, which waits.
            let entry = match self.find(dir, &object, &name) {
                // Removed between the two: to be made once more.
                Err(error) if error.errno() == Errno::ENOENT => continue,
                found => found?,
            };
            let node = entry.attributes.node;
            let opened = self.object(node).and_then(|found| {
                let opened = self.open_object(node, &found, flags)?;
                // As they are after O_TRUNC.
                let attributes = attributes(node, &kernel::status(found.fd(), None)?)?;
                Ok((Entry { attributes }, opened))
            });
            return opened.inspect_err(|_| self.nodes.forget(node, 1));
        }
    }

    /// A file without a name.
    pub(super) fn create_unnamed(
        &self,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let object = self.directory(dir)?;
        // O_EXCL keeps it from ever getting one.
        let how = self.readable(flags.0 & (KEPT | O_EXCL)) | O_TMPFILE | O_NOCTTY;
        let file = kernel::open_directory(object.fd(), how, mode)?;
        let place = kernel::reopen(&file, O_PATH)?;
        let entry = self.entry(place, None)?;
        Ok((
            entry,
            self.opened_closed_on_exec(entry.attributes.node, file, flags),
        ))
    }

    /// Makes a name for something new of this `kind` by `call` and finds what it is.
    ///
    /// It was made, whatever another process has done to the name since: if it is gone or names
    /// something of another kind by now, the answer is [`GONE`], which no operation finds any more.
    pub(super) fn make(
        &self,
        dir: Node,
        name: &[u8],
        kind: FileKind,
        call: impl FnOnce(BorrowedFd<'_>, &CStr) -> core::result::Result<(), Errno>,
    ) -> Result<Entry> {
        self.writable()?;
        let object = self.directory(dir)?;
        let (called, name) = (name, Name::new(name)?);
        self.doing(&[(dir, called, CREATE)], || {
            Ok(call(object.fd(), name.terminated())?)
        })?;
        // It is new, so nobody can know it yet: not asked first.
        let made = kernel::open_place(object.fd(), &name)
            .and_then(|made| self.entry(made, Some((dir, &name))));
        match made {
            Ok(entry) if entry.attributes.kind == kind => Ok(entry),
            Ok(another) => {
                self.nodes.forget(another.attributes.node, 1);
                Ok(gone(kind))
            }
            Err(error) if error.errno() == Errno::ENOENT => Ok(gone(kind)),
            Err(error) => Err(error),
        }
    }

    /// Makes another name for `node`.
    pub(super) fn add_name(&self, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.writable()?;
        let object = self.object(node)?;
        if object.kind == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        let place = self.directory(dir)?;
        let (called, name) = (name, Name::new(name)?);
        self.doing(&[(dir, called, CREATE)], || {
            kernel::link(object.fd(), place.fd(), &name)
        })?;
        if let Some(watch) = self.watching() {
            watch.linked(node, dir);
        }
        // Not what the new name says, which may be another's by now.
        let status = kernel::status(object.fd(), None)?;
        // The object keeps the inode: whoever is known by its number is it.
        let now = self.nodes.now();
        match self.nodes.refer(&status, now, Some((dir, &name))) {
            Some(node) => Ok(Entry {
                attributes: attributes(node, &status)?,
            }),
            None => self.entry(kernel::reopen(object.fd(), O_PATH)?, Some((dir, &name))),
        }
    }

    /// Removes a name.
    pub(super) fn remove(&self, dir: Node, name: &[u8], flags: AtFlags) -> Result<()> {
        self.writable()?;
        let object = self.directory(dir)?;
        let (called, name) = (name, Name::new(name)?);
        let held = self.nodes.hold(object.fd(), &name);
        self.doing(&[(dir, called, DELETE)], || {
            Ok(fs::unlinkat(object.fd(), name.terminated(), flags)?)
        })?;
        self.nodes.unnamed(held, (dir, &name));
        if flags.contains(AtFlags::REMOVEDIR) {
            self.nodes.forget_recent();
        }
        Ok(())
    }

    /// Moves a name.
    pub(super) fn move_name(
        &self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.writable()?;
        let (old, new) = (self.directory(from.0)?, self.directory(to.0)?);
        let names = (Name::new(from.1)?, Name::new(to.1)?);
        let held = self.nodes.hold(new.fd(), &names.1);
        let call = || {
            let (from, to) = (names.0.terminated(), names.1.terminated());
            let how = culvert_sys::flags::RenameFlags::from_bits(flags.0);
            Ok(fs::renameat2(old.fd(), from, new.fd(), to, how)?)
        };
        let there = [
            (from.0, from.1, MOVED_FROM),
            (to.0, to.1, MOVED_TO),
            (to.0, to.1, MOVED_FROM),
            (from.0, from.1, MOVED_TO),
        ];
        let own = match flags.exchange() {
            false => &there[..2],
            true => &there,
        };
        match &self.watch {
            // Nothing happens between two names of one file.
            Some(_) if self.is_one((&old, &names.0), (&new, &names.1)) => call(),
            _ => self.doing(own, call),
        }?;
        self.nodes.unnamed(held, (to.0, &names.1));
        self.nodes.renamed(to.0, new.fd(), &names.1);
        if flags.exchange() {
            self.nodes.renamed(from.0, old.fd(), &names.0);
        }
        Ok(())
    }

    /// Whether two names are of one file.
    fn is_one(&self, left: (&Object, &Name), right: (&Object, &Name)) -> bool {
        let identity = |(dir, name): (&Object, &Name)| {
            let status = kernel::status(dir.fd(), Some(name)).ok()?;
            Some(super::kernel::identity(&status))
        };
        let left = identity(left);
        left.is_some() && left == identity(right)
    }

    /// Whether `path`, below the root and passing no link, leads to `object`.
    pub(super) fn leads_to(&self, path: &[u8], object: &Object) -> bool {
        let root = self.nodes.root().1.fd();
        kernel::open_below(root, path)
            .and_then(|found| kernel::status(&found, None))
            .is_ok_and(|status| super::kernel::identity(&status) == object.identity)
    }
}
