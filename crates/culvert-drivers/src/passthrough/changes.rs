//! Names made, moved and removed, files opened.

use super::filesystem::PassthroughFs;
use super::kernel::{self, Name, O_CREAT, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_PATH, O_TMPFILE};
use super::nodes::Object;
use culvert::{Entry, Errno, FileKind, Node, OpenFlags, Opened, RenameFlags, Result};
use culvert_sys::nr;

/// Flags of open(2) that say how, and not what or where: the others are the callers' here.
const KEPT: u32 = !(O_CREAT | O_EXCL | kernel::O_DIRECTORY | O_PATH);

impl PassthroughFs {
    /// Opens what `object` is.
    pub(super) fn open_object(&self, object: &Object, flags: OpenFlags) -> Result<Opened> {
        match object.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            // Opening may wait, or do what nobody asked for.
            _ => return Err(Errno::ENXIO.into()),
        }
        // The magic link is a link.
        let flags = flags.0 & KEPT & !O_NOFOLLOW | O_NOCTTY;
        self.opened(kernel::reopen(object.fd(), flags)?)
    }

    /// Makes a file, or opens the one that has the name.
    pub(super) fn create_file(
        &self,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let object = self.directory(dir)?;
        let name = Name::new(name)?;
        loop {
            let new = flags.0 & KEPT | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY;
            match kernel::open_at(object.fd(), &name, new, mode) {
                Ok(file) => {
                    let place = kernel::reopen(file.raw(), O_PATH)?;
                    return Ok((self.entry(place, Some(dir))?, self.opened(file)?));
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
            let opened = self.nodes.get(node);
            let opened = opened.and_then(|found| self.open_object(&found, flags));
            return match opened {
                Ok(opened) => Ok((entry, opened)),
                Err(error) => {
                    self.nodes.forget(node, 1);
                    Err(error)
                }
            };
        }
    }

    /// A file without a name.
    pub(super) fn create_unnamed(
        &self,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let object = self.directory(dir)?;
        // O_EXCL keeps it from ever getting one.
        let flags = flags.0 & (KEPT | O_EXCL) & !O_NOFOLLOW | O_TMPFILE | O_NOCTTY;
        let file = kernel::open_here(object.fd(), flags, mode)?;
        let place = kernel::reopen(file.raw(), O_PATH)?;
        Ok((self.entry(place, None)?, self.opened(file)?))
    }

    /// Makes a name by `call` and finds what it is.
    pub(super) fn make(
        &self,
        dir: Node,
        name: &[u8],
        call: impl FnOnce(i32, &Name) -> Result<()>,
    ) -> Result<Entry> {
        let object = self.directory(dir)?;
        let name = Name::new(name)?;
        call(object.fd(), &name)?;
        self.find(dir, &object, &name)
    }

    /// Removes a name.
    pub(super) fn remove(&self, dir: Node, name: &[u8], flags: u32) -> Result<()> {
        let object = self.directory(dir)?;
        let name = Name::new(name)?;
        kernel::name_call(nr::UNLINKAT, object.fd(), &name, [flags as usize, 0])
    }

    /// Moves a name.
    pub(super) fn move_name(
        &self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let (old, new) = (self.directory(from.0)?, self.directory(to.0)?);
        let names = (Name::new(from.1)?, Name::new(to.1)?);
        kernel::rename((old.fd(), &names.0), (new.fd(), &names.1), flags.0)
    }

    /// Whether `path`, below the root and passing no link, leads to `object`.
    pub(super) fn leads_to(&self, path: &[u8], object: &Object) -> bool {
        let root = self.nodes.root().1.fd();
        kernel::open_below(root, path)
            .and_then(|found| kernel::status(found.raw(), None))
            .is_ok_and(|status| super::nodes::identity(&status) == object.identity)
    }
}
