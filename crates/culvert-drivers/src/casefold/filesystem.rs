//! The file system under the layer.

use super::{
    fold::{Folding, is_valid},
    listings::Listings,
};
use crate::name_changes::{Changing, NameChanges};
use alloc::{borrow::Cow, boxed::Box, vec::Vec};
use culvert::{
    Caller, Capabilities, DirectoryPlusSink, Entry, Errno, Error, FileKind, FileSystem, Layer,
    Node, OpenFlags, Opened, Reached, RenameFlags, Result, Touches, Walked,
};

/// How often a name that vanished between the listing and its use is looked for anew.
const TRIES: usize = 3;

/// A file system whose names are the same in whatever case.
pub struct CasefoldFs {
    inner: Box<dyn FileSystem>,
    names: NameChanges,
    listings: Listings,
    strict: bool,
}

/// A name in a directory.
type Place<'a> = (Node, &'a [u8]);

impl CasefoldFs {
    /// `inner`, with names that `folding` finds the same; with `strict` such names only that it can
    /// fold.
    pub fn new(
        inner: Box<dyn FileSystem>,
        folding: Folding,
        strict: bool,
        names: NameChanges,
    ) -> Self {
        Self {
            inner,
            names,
            listings: Listings::new(folding),
            strict,
        }
    }

    /// `EINVAL` for a name that there cannot be.
    fn check(&self, name: &[u8]) -> Result<()> {
        match self.strict && !is_valid(name) {
            true => Err(Errno::EINVAL.into()),
            false => Ok(()),
        }
    }

    /// The name that is the same as that of `place` but for its case, in a directory that has not
    /// that one.
    fn other(&self, caller: &Caller<'_>, place: Place<'_>) -> Result<Option<Vec<u8>>> {
        let count = self.names.count();
        let found = self.listings.find(&*self.inner, caller, count, place);
        found.or_else(|error| match error.errno() {
            Errno::ENOENT => Ok(None),
            // A directory that may be searched, but not listed.
            Errno::EACCES => Err(error.within("names of another case are found by listing")),
            _ => Err(error),
        })
    }

    /// What `place` is called, if it is there in whatever case.
    fn actual<'a>(&self, caller: &Caller<'_>, place: Place<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        match self.inner.lookup(caller, place.0, place.1) {
            Ok(entry) => {
                self.inner.forget(entry.attributes.node, 1);
                Ok(Some(Cow::Borrowed(place.1)))
            }
            Err(error) if error.errno() == Errno::ENOENT => {
                Ok(self.other(caller, place)?.map(Cow::Owned))
            }
            Err(error) => Err(error),
        }
    }

    /// Does `work` on the name of `place` as it is; on any other where it is not there.
    fn finding<T>(
        &self,
        caller: &Caller<'_>,
        place: Place<'_>,
        mut work: impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.check(place.1)?;
        let mut done = work(place.1);
        for _ in 0..TRIES {
            match &done {
                Err(error) if error.errno() == Errno::ENOENT => {}
                _ => return done,
            }
            let Some(other) = self.other(caller, place)? else {
                return done;
            };
            done = work(&other);
            if matches!(&done, Err(error) if error.errno() == Errno::ENOENT) {
                self.listings.forget(place.0);
            }
        }
        done
    }

    /// Makes what is to be at `place` by `work`, under the name that is there or, if there is none,
    /// under its own.
    fn making<T>(
        &self,
        caller: &Caller<'_>,
        place: Place<'_>,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.check(place.1)?;
        let changing = self.names.change();
        match self.actual(caller, place)? {
            Some(name) => work(&name),
            None => {
                let made = work(place.1)?;
                self.note(&changing, &[], &[place]);
                Ok(made)
            }
        }
    }

    /// Removes the name of `place` by `work`.
    fn removing(
        &self,
        caller: &Caller<'_>,
        place: Place<'_>,
        work: impl Fn(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let changing = self.names.change();
        let mut removed = Vec::new();
        self.finding(caller, place, |name| {
            work(name)?;
            removed = name.to_vec();
            Ok(())
        })?;
        self.note(&changing, &[(place.0, &removed)], &[]);
        Ok(())
    }

    /// Names were changed, which all processes of the run must know.
    fn note(&self, changing: &Changing<'_>, removed: &[Place<'_>], added: &[Place<'_>]) {
        let count = changing.note();
        self.listings.changed(&*self.inner, count, removed, added);
    }

    /// Whether both are the same name of the same directory.
    fn is_same(&self, one: Place<'_>, other: Place<'_>) -> bool {
        let key = |name| self.listings.folding().key(name);
        one.0 == other.0
            && (one.1 == other.1 || key(one.1).is_some_and(|k| Some(k) == key(other.1)))
    }
}

impl Layer for CasefoldFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn forked(&self, shared_descriptors: bool) {
        self.names.forked();
        self.inner.forked(shared_descriptors);
    }

    fn touches(&self) -> Touches {
        Touches {
            names: true,
            ..Touches::NOTHING
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            case_insensitive: true,
            ..self.inner.capabilities()
        }
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.finding(caller, (dir, name), |name| {
            self.inner.lookup(caller, dir, name)
        })
    }

    /// As the driver below walks, where it finds each name as it is; else one component, from which
    /// the front end goes on.
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        if !self.strict || is_valid(path) {
            match self.inner.walk(caller, from, path) {
                Err(error) if error.errno() == Errno::ENOENT => {}
                done => return done,
            }
        }
        let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
        let entry = self.lookup(caller, from, name)?;
        let leads_on = matches!(
            entry.attributes.kind,
            FileKind::Directory | FileKind::Symlink
        );
        if name.len() < path.len() && !leads_on {
            self.inner.forget(entry.attributes.node, 1);
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Walked {
            entry: Some(entry),
            parent: from,
            consumed: name.len(),
        })
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        if self.strict && !is_valid(path) {
            return None;
        }
        match self.inner.reach(caller, from, path)? {
            Ok(reached) if reached.entry.is_none() => {
                // Perhaps under another name.
                if reached.parent != from {
                    self.inner.forget(reached.parent, 1);
                }
                None
            }
            Err(error) if error.errno() == Errno::ENOENT => None,
            done => Some(done),
        }
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        self.inner.read_directory_plus(caller, dir, from, sink)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.making(caller, (dir, name), |name| {
            self.inner.create(caller, dir, name, flags, mode)
        })
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        self.making(caller, (dir, name), |name| {
            self.inner.mkdir(caller, dir, name, mode)
        })
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        self.making(caller, (dir, name), |name| {
            self.inner.mknod(caller, dir, name, mode, rdev)
        })
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        self.making(caller, (dir, name), |name| {
            self.inner.symlink(caller, dir, name, target)
        })
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.making(caller, (dir, name), |name| {
            self.inner.link(caller, node, dir, name)
        })
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.removing(caller, (dir, name), |name| {
            self.inner.unlink(caller, dir, name)
        })
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.removing(caller, (dir, name), |name| {
            self.inner.rmdir(caller, dir, name)
        })
    }

    /// Onto the name that is there, in whatever case; to the same name in another case, that case
    /// changes.
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.check(from.1)?;
        self.check(to.1)?;
        let changing = self.names.change();
        let old = self.actual(caller, from)?;
        let old = old.ok_or_else(|| Error::from(Errno::ENOENT))?;
        let there = match self.is_same(from, to) {
            // The file itself, which is there.
            true if flags.0 & (RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE) != 0 => {
                Some(old.clone())
            }
            true => None,
            false => self.actual(caller, to)?,
        };
        let new = there.as_deref().unwrap_or(to.1);
        self.inner
            .rename(caller, (from.0, &old), (to.0, new), flags)?;
        if !flags.exchange() {
            // Of two names of one file both stay.
            let removed = [(from.0, &*old)];
            let stays = match self.inner.lookup(caller, from.0, &old) {
                Ok(entry) => {
                    self.inner.forget(entry.attributes.node, 1);
                    true
                }
                Err(_) => false,
            };
            let removed = if stays { &[][..] } else { &removed[..] };
            self.note(&changing, removed, &[(to.0, new)]);
        }
        Ok(())
    }
}
