//! renameat2(2): a container moves with its shadows; where the hash of its new name asks for
//! another canonical back end, it moves there.

use super::filesystem::PlfsFs;
use super::host;
use super::layout::{self, HOSTDIR};
use super::object::Object;
use super::setup::unused;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, OpenFlags, RenameFlags, Result};
use culvert_sys::raw::general as linux;

impl PlfsFs {
    /// Renames `from` to `to`.
    pub fn move_to(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        if flags.whiteout() || flags.0 & !3 != 0 || flags.no_replace() && flags.exchange() {
            return Err(Errno::EINVAL.into());
        }
        self.new_name(to)?;
        if from
            .strip_prefix(to)
            .is_some_and(|rest| rest.starts_with(b"/"))
        {
            return Err(Errno::ENOTEMPTY.into());
        }
        let old = self.object(from)?;
        let new = match self.object(to) {
            Err(error) if error.errno() == Errno::ENOENT => None,
            found => Some(found?),
        };
        self.move_found((from, &old), (to, new.as_ref()), flags)?;
        let tell = |object: &Object, from: &[u8], to: &[u8]| {
            let is_directory = matches!(object.kind(), Ok(FileKind::Directory));
            let inode = self.inode(&object.status);
            self.setup.shared.moved(inode, from, to, is_directory);
        };
        tell(&old, from, to);
        if let Some(new) = new.filter(|_| flags.exchange()) {
            tell(&new, to, from);
        }
        Ok(())
    }

    fn move_found(
        &self,
        (from, old): (&[u8], &Object),
        (to, new): (&[u8], Option<&Object>),
        flags: RenameFlags,
    ) -> Result<()> {
        let (is, was) = (old.kind()?, new.map(Object::kind).transpose()?);
        if flags.exchange() {
            return match (new, is, was) {
                (None, ..) => Err(Errno::ENOENT.into()),
                // Shadows of the two would have to change places at the same moment.
                _ if self.setup.backends.len() > 1 => Err(Errno::EINVAL.into()),
                _ => self.both(old.at, from, to, linux::RENAME_EXCHANGE),
            };
        }
        match (is, was) {
            (_, Some(_)) if flags.no_replace() => return Err(Errno::EEXIST.into()),
            (FileKind::Directory, Some(was)) if was != FileKind::Directory => {
                return Err(Errno::ENOTDIR.into());
            }
            (FileKind::Directory, was) => {
                if was.is_some() {
                    self.may_replace(from, to)?;
                }
                return self.move_all(old.at, from, to);
            }
            (_, Some(FileKind::Directory)) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        if self.setup.canonical_of(to) != old.at {
            return self.move_over(from, to, old, new);
        }
        if let Some(new) = new {
            if self.inode(&new.status) == self.inode(&old.status) {
                return Ok(());
            }
            // At no moment does the new name mean nothing. One back end's shadows would not move
            // along.
            let plain = old.access.is_none() && new.access.is_none();
            if !plain {
                let exchanged = match self.setup.backends.len() {
                    1 => self.both(old.at, from, to, linux::RENAME_EXCHANGE),
                    _ => Err(Errno::EINVAL.into()),
                };
                return match exchanged {
                    Ok(()) => self.remove_file(from).inspect_err(|_| {
                        // As it was.
                        let _ = self.both(old.at, from, to, linux::RENAME_EXCHANGE);
                    }),
                    Err(error) if error.errno() == Errno::EINVAL => {
                        self.in_place_of(to, Some(new), || self.move_all(old.at, from, to))
                    }
                    Err(error) => Err(error),
                };
            }
        }
        self.move_all(old.at, from, to)
    }

    /// ENOTEMPTY where the directory `to` has a name on some back end: one that was replaced on
    /// another by then would not come back. rename(2) itself says the rest.
    fn may_replace(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let below = to.strip_prefix(from);
        let is_itself = below.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        let backends = self.setup.backends.len();
        let has_names = |at| {
            let place = host::place(self.setup.root(at), to);
            place.is_ok_and(|dir| host::names(&dir).is_ok_and(|names| !names.is_empty()))
        };
        match backends > 1 && !is_itself && (0..backends).any(has_names) {
            true => Err(Errno::ENOTEMPTY.into()),
            false => Ok(()),
        }
    }

    pub fn both(&self, at: usize, from: &[u8], to: &[u8], flags: u32) -> Result<()> {
        let root = self.setup.root(at);
        let ((dir, name), (other, new)) = (host::above(root, from)?, host::above(root, to)?);
        Ok(host::rename(
            (&dir, name.bytes()),
            (&other, new.bytes()),
            flags,
        )?)
    }

    /// Runs `moving`, which gives `to` to another file, while the file that is there, `new`, is set
    /// aside: it is removed when that was done, and is there again when it was not.
    fn in_place_of<T>(
        &self,
        to: &[u8],
        new: Option<&Object>,
        moving: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(new) = new else {
            return moving();
        };
        // While it is open no other run takes it for one that nobody needs.
        let _held = new
            .access
            .and_then(|_| self.container(new, Some(OpenFlags::READ)).ok());
        let target = self.set_aside(to, new)?;
        match moving() {
            Ok(done) => {
                self.finish_removal(&target, new);
                Ok(done)
            }
            Err(error) => {
                self.bring_back(&target, to, new);
                Err(error)
            }
        }
    }

    /// On back end `first`, then its shadows on all others, or a directory; on all or on none.
    fn move_all(&self, first: usize, from: &[u8], to: &[u8]) -> Result<()> {
        self.both(first, from, to, 0)?;
        for at in (0..self.setup.backends.len()).filter(|at| *at != first) {
            if let Err(error) = self.move_shadow(at, from, to) {
                for back in (0..at).chain([first]) {
                    let _ = self.both(back, to, from, 0);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Where there is one.
    fn move_shadow(&self, at: usize, from: &[u8], to: &[u8]) -> Result<()> {
        match self.both(at, from, to, 0) {
            Err(error) if error.errno() == Errno::ENOENT => {
                match host::place(self.setup.root(at), from) {
                    // The directory above `to` is not on this back end: mv(1) copies.
                    Ok(_) => Err(Errno::EXDEV.into()),
                    Err(_) => Ok(()),
                }
            }
            moved => moved,
        }
    }

    /// To another canonical back end, of the same file system: `EXDEV` otherwise, and mv(1) copies.
    fn move_over(&self, from: &[u8], to: &[u8], old: &Object, new: Option<&Object>) -> Result<()> {
        let at = self.setup.canonical_of(to);
        let (first, second) = (self.setup.root(old.at), self.setup.root(at));
        let device = |fd| {
            Ok::<_, culvert::Error>(
                crate::passthrough::kernel::identity(&crate::passthrough::kernel::status(
                    fd, None,
                )?)
                .0,
            )
        };
        if device(first)? != device(second)? {
            return Err(Errno::EXDEV.into());
        }
        // rename(2) itself replaces a plain file by another one.
        let new = new.filter(|new| old.access.is_some() || new.access.is_some() || new.at != at);
        let beside = self.in_place_of(to, new, || self.move_canonical(from, to, old))?;
        match old.access {
            Some(_) => self.join(from, to, old, beside.as_deref()),
            None => Ok(()),
        }
    }

    /// The first step: the directory, or plain file, on the canonical back end. The name, beside
    /// `to`, of the shadow that was there.
    fn move_canonical(&self, from: &[u8], to: &[u8], old: &Object) -> Result<Option<Vec<u8>>> {
        let (first, second) = (
            self.setup.root(old.at),
            self.setup.root(self.setup.canonical_of(to)),
        );
        let ((dir, name), (other, target)) = (host::above(first, from)?, host::above(second, to)?);
        // The file's shadow there becomes a part of the container.
        let (beside, shadow) = (unused(), host::above(second, from));
        let shadow = match (old.access.is_some(), shadow) {
            (true, Ok((dir, name))) => {
                match host::rename((&dir, name.bytes()), (&other, &beside), 0) {
                    Ok(()) => true,
                    Err(Errno::ENOENT) => false,
                    Err(errno) => return Err(errno.into()),
                }
            }
            _ => false,
        };
        if let Err(errno) = host::rename((&dir, name.bytes()), (&other, target.bytes()), 0) {
            if shadow && let Ok((dir, name)) = host::above(second, from) {
                let _ = host::rename((&other, &beside), (&dir, name.bytes()), 0);
            }
            return Err(errno.into());
        }
        Ok(shadow.then_some(beside))
    }

    /// The second step of a container's: `beside`, which was its shadow, becomes a part of it, and
    /// the other shadows follow.
    fn join(&self, from: &[u8], to: &[u8], old: &Object, beside: Option<&[u8]>) -> Result<()> {
        let at = self.setup.canonical_of(to);
        let second = self.setup.root(at);
        let place = host::place(second, to)?;
        if let Some(beside) = beside {
            let (other, _) = host::above(second, to)?;
            let parts = host::open(&other, beside, linux::O_PATH | linux::O_DIRECTORY, 0)?;
            for (name, _) in host::names(&parts)? {
                let text = host::read_link(&place, &name);
                let leads_here = text.is_ok_and(|text| {
                    layout::metalink(&text)
                        .is_some_and(|(_, target)| target == self.setup.backends[at].path)
                });
                // All else is of a file that had this name: see hostdir.rs.
                if leads_here {
                    host::unlink(&place, &name, false)?;
                    host::rename((&parts, &name), (&place, &name), 0)?;
                }
            }
            host::remove_tree(&other, beside, 2)?;
        }
        for back in (0..self.setup.backends.len()).filter(|back| ![old.at, at].contains(back)) {
            self.move_shadow(back, from, to)?;
        }
        // Metalinks say how long the path of their own back end is.
        let length = host::decimal(self.setup.backends[at].path.len() as u64);
        for (name, _) in host::names(&place)? {
            let link = name.starts_with(HOSTDIR);
            if !link || !host::status(&place, &name).is_ok_and(|status| host::is_link(&status)) {
                continue;
            }
            let text = host::read_link(&place, &name)?;
            if let Some((_, target)) = layout::metalink(&text) {
                let temporary: Vec<u8> = unused();
                host::symlink(&[&length[..], target].concat(), &place, &temporary)?;
                host::rename((&place, &temporary), (&place, &name), 0)?;
            }
        }
        for known in self.all_known(old) {
            known.moved(at);
        }
        Ok(())
    }
}
