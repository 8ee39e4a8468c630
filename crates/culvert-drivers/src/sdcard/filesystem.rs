//! The file system under the layer.

use super::{
    core::{Core, DIRECTORY, FILE, allowed},
    derive::{Derived, Kind},
    file::SdFile,
    options::Settings,
    packages::PackageList,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, Error, FileKind,
    FileSystem, Layer, LayeredFile, Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result,
    SetAttributes, Touches,
};

/// A file system as Android's sdcard daemon shows it.
pub struct SdcardFs(Arc<Core>);

impl SdcardFs {
    /// Shows `inner`, which finds names in whatever case.
    pub fn new(inner: Box<dyn FileSystem>, settings: Settings) -> Self {
        Self(Arc::new(Core {
            inner,
            packages: PackageList::new(settings.packages.clone()),
            settings,
        }))
    }

    /// `EACCES` for names that nobody has. What is derived of the directory.
    fn check(&self, dir: Node, name: &[u8]) -> Result<Derived> {
        let derived = self.0.derived(dir);
        match derived.refuses(name) {
            true => Err(Error::because(
                Errno::EACCES,
                "Android refuses this name at the root of a storage",
            )),
            false => Ok(derived),
        }
    }

    /// What a change that there is not is answered with.
    fn lacks(&self, errno: Errno) -> Error {
        match self.capabilities().read_only {
            true => Errno::EROFS.into(),
            false => errno.into(),
        }
    }

    /// Whether `caller` may open what is called `name` in `dir`; false if it is not there.
    fn may_open(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        flags: OpenFlags,
    ) -> Result<bool> {
        let Ok(there) = self.inner().lookup(&self.0.server(caller), dir, name) else {
            return Ok(false);
        };
        let shown = self.0.seen(there.attributes);
        self.inner().forget(there.attributes.node, 1);
        let wanted = |bit: Access, wanted| if wanted { bit.0 } else { 0 };
        let read = wanted(Access::READ, flags.read());
        let write = wanted(Access::WRITE, flags.write() || flags.truncate());
        caller.may(Access(read | write), &shown)?;
        Ok(true)
    }

    /// What was `made` belongs to who is said to make files, whoever the process is that did.
    fn given(&self, made: Entry) -> Result<Entry> {
        let (settings, found) = (&self.0.settings, made.attributes);
        let node = found.node;
        let (uid, gid) = match settings.derives_groups {
            true => {
                let (uid, gid) = self.0.stored(node, found.kind);
                (Some(uid), Some(gid))
            }
            false => (settings.uid, settings.lower_gid),
        };
        let changes = SetAttributes {
            uid: uid.filter(|uid| *uid != found.uid),
            gid: gid.filter(|gid| *gid != found.gid),
            ..SetAttributes::default()
        };
        if changes.is_empty() {
            return Ok(made);
        }
        let given = self.inner().set_attributes(&Caller::SYSTEM, node, &changes);
        let given = given.inspect_err(|_| self.inner().forget(node, 1));
        let attributes = given.map_err(|error| error.within("options uid, gid and derivegid"))?;
        Ok(Entry { attributes })
    }

    /// With `derivegid`: what is called `name` in `dir` now belongs to whom its place says. It has
    /// its new name already, so that this cannot fail any more, as in the original.
    fn give_again(&self, server: &Caller<'_>, dir: Node, name: &[u8]) {
        if !self.0.settings.derives_groups {
            return;
        }
        let found = self.inner().lookup(server, dir, name);
        if let Ok(given) = found.and_then(|found| self.given(found)) {
            self.inner().forget(given.attributes.node, 1);
        }
    }

    /// The new directory `made`, in one of which `above` is derived, says that it holds no media,
    /// if it is one for data of apps.
    fn hide_media(
        &self,
        server: &Caller<'_>,
        (above, name): (Derived, &[u8]),
        made: Entry,
    ) -> Result<Entry> {
        let named = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if above.kind != Kind::Android || !named("data") && !named("obb") {
            return Ok(made);
        }
        let (dir, flags) = (made.attributes.node, OpenFlags::READ_WRITE);
        let hidden = self.inner().create(server, dir, b".nomedia", flags, FILE);
        let (file, _) = hidden.map_err(|error| error.within(".nomedia"))?;
        let file = self.given(file)?;
        self.inner().forget(file.attributes.node, 1);
        let attributes = self.inner().attributes(server, dir)?;
        Ok(Entry { attributes })
    }
}

impl Layer for SdcardFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.0.inner
    }

    fn touches(&self) -> Touches {
        Touches::NO_DATA
    }

    /// Rights are judged by what is shown.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            checks_permissions: false,
            xattrs: false,
            hard_links: false,
            ..self.inner().capabilities()
        }
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        self.0.seen(attributes)
    }

    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(file) => {
                let file = SdFile::new(file, Arc::clone(&self.0));
                Opened::Driven(Box::new(LayeredFile(file)))
            }
            backed => backed,
        }
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.check(dir, name)?;
        let server = self.0.server(caller);
        let found = self.inner().lookup(&server, dir, name)?;
        Ok(self.seen_entry(caller, found))
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let found = self.inner().attributes(&self.0.server(caller), node)?;
        Ok(self.seen(caller, found))
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        use FileKind::{Directory, Regular, Symlink};
        let found = self.attributes(caller, node)?;
        let stored = matches!(found.kind, Regular | Directory | Symlink);
        if access.write() && stored && self.capabilities().read_only {
            return Err(Errno::EROFS.into());
        }
        caller.may(access, &found)
    }

    /// As the original, which has no such operation: links in the source lead nowhere.
    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let found = self.inner().attributes(&self.0.server(caller), node)?;
        Err(match found.kind {
            FileKind::Symlink => Errno::ENOSYS.into(),
            _ => Errno::EINVAL.into(),
        })
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let server = self.0.server(caller);
        let opened = self.inner().open(&server, node, flags)?;
        Ok(self.opened(node, flags, opened))
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let server = self.0.server(caller);
        self.inner().open_directory(&server, dir, flags)
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let server = self.0.server(caller);
        self.inner().read_directory(&server, dir, from, sink)
    }

    fn get_xattr(&self, _: &Caller<'_>, _: Node, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn list_xattr(&self, _: &Caller<'_>, _: Node) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn set_xattr(&self, _: &Caller<'_>, _: Node, _: &[u8], _: &[u8], _: u32) -> Result<()> {
        Err(self.lacks(Errno::EOPNOTSUPP))
    }

    fn remove_xattr(&self, _: &Caller<'_>, _: Node, _: &[u8]) -> Result<()> {
        Err(self.lacks(Errno::EOPNOTSUPP))
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let Some(changes) = allowed(changes) else {
            return match self.capabilities().read_only {
                true => Err(Errno::EROFS.into()),
                false => self.attributes(caller, node),
            };
        };
        let server = self.0.server(caller);
        let changed = self.inner().set_attributes(&server, node, &changes)?;
        Ok(self.seen(caller, changed))
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        _: u32,
    ) -> Result<(Entry, Opened)> {
        self.check(dir, name)?;
        let is_there = !flags.exclusive() && self.may_open(caller, (dir, name), flags)?;
        let server = self.0.server(caller);
        let (mut entry, opened) = self.inner().create(&server, dir, name, flags, FILE)?;
        if !is_there {
            entry = self.given(entry)?;
        }
        let opened = self.opened(entry.attributes.node, flags, opened);
        Ok((self.seen_entry(caller, entry), opened))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], _: u32) -> Result<Entry> {
        let above = self.check(dir, name)?;
        let server = self.0.server(caller);
        let made = self.given(self.inner().mkdir(&server, dir, name, DIRECTORY)?)?;
        let node = made.attributes.node;
        let made = self.hide_media(&server, (above, name), made);
        let made = made.inspect_err(|_| self.inner().forget(node, 1))?;
        Ok(self.seen_entry(caller, made))
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        self.check(dir, name)?;
        let (server, mode) = (self.0.server(caller), mode & !0o777 | FILE);
        let made = self.given(self.inner().mknod(&server, dir, name, mode, rdev)?)?;
        Ok(self.seen_entry(caller, made))
    }

    fn symlink(&self, _: &Caller<'_>, dir: Node, name: &[u8], _: &[u8]) -> Result<Entry> {
        self.check(dir, name)?;
        Err(self.lacks(Errno::EPERM))
    }

    fn link(&self, _: &Caller<'_>, _: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.check(dir, name)?;
        Err(self.lacks(Errno::EPERM))
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.check(dir, name)?;
        self.inner().unlink(&self.0.server(caller), dir, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.check(dir, name)?;
        self.inner().rmdir(&self.0.server(caller), dir, name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.check(from.0, from.1)?;
        self.check(to.0, to.1)?;
        if flags != RenameFlags::default() {
            return Err(self.lacks(Errno::EINVAL));
        }
        let server = self.0.server(caller);
        self.inner().rename(&server, from, to, flags)?;
        self.give_again(&server, to.0, to.1);
        Ok(())
    }

    fn tmpfile(&self, _: &Caller<'_>, _: Node, _: OpenFlags, _: u32) -> Result<(Entry, Opened)> {
        Err(self.lacks(Errno::EOPNOTSUPP))
    }
}
