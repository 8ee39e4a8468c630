//! Open files and directories of a path-based driver.

use super::{PathDirectory, PathEntry, PathFileSystem, state::AdapterState};
use crate::{
    Attributes, Caching, Caller, Directory, DirectoryEntry, DirectorySink, Errno, File, Lock,
    LockKind, LockOwner, Node, Opened, OwnedFd, Readiness, Result, SetAttributes, Sink, Source,
    Wait, Whence, read_through, sync::Mutex, write_through,
};
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::{any::Any, task::Waker};

/// Largest piece that is read or written at once, bytes: bounds what a call allocates.
const PIECE: usize = 128 << 10;

pub(super) struct PathFile<T: PathFileSystem> {
    shared: Arc<AdapterState<T>>,
    node: Node,
    /// None only while being dropped.
    handle: Option<T::Handle>,
}

impl<T: PathFileSystem> PathFile<T> {
    pub(super) fn new(shared: Arc<AdapterState<T>>, node: Node, handle: T::Handle) -> Self {
        Self {
            shared,
            node,
            handle: Some(handle),
        }
    }

    fn handle(&self) -> Result<&T::Handle> {
        Ok(self.handle.as_ref().ok_or(Errno::EBADF)?)
    }

    /// The file has changed by this description.
    fn changed(&self, handle: &T::Handle) {
        let driver = &self.shared.driver;
        self.shared
            .changed(self.node, || driver.handle_attributes(handle));
    }
}

impl<T: PathFileSystem + 'static> File for PathFile<T> {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let handle = self.handle()?;
        if let Some(done) = self.shared.driver.read_to(handle, offset, out) {
            return done;
        }
        if let Some(fd) = self.shared.driver.descriptor(handle) {
            // Nothing: the end, or a reason that the driver's own reads will tell.
            let read = out.read_from(fd, offset, out.remaining());
            if read > 0 {
                return Ok(read);
            }
        }
        let mut piece = vec![0; out.remaining().min(PIECE)];
        read_through(out, &mut piece, |_, done, piece| {
            let mut filled = 0;
            // A short read is not the end.
            while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                let at = offset.saturating_add(done + filled as u64);
                match self.shared.driver.read(handle, at, rest) {
                    Err(error) if filled == 0 => return Err(error),
                    Err(_) | Ok(0) => break,
                    Ok(count) => filled += count,
                }
            }
            Ok(filled)
        })
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let handle = self.handle()?;
        if let Some(done) = self.shared.driver.write_from(handle, offset, from) {
            self.changed(handle);
            return done;
        }
        let direct = self.shared.driver.descriptor(handle);
        let direct = direct.map_or(0, |fd| from.write_to(fd, offset, from.remaining()));
        let done = match direct {
            0 => {
                let mut piece = vec![0; from.remaining().min(PIECE)];
                write_through(from, &mut piece, |_, done, bytes| {
                    let at = offset.saturating_add(done);
                    self.shared.driver.write(handle, at, bytes)
                })
            }
            direct => Ok(direct),
        };
        self.changed(handle);
        done
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let handle = self.handle()?;
        if let Some(done) = self.shared.driver.append_from(handle, from) {
            self.changed(handle);
            return done;
        }
        let _appending = self.shared.appending.lock();
        let mut bytes = vec![0; from.remaining()];
        let count = from.take(&mut bytes)?;
        let end = self.attributes(&Caller::SYSTEM)?.size;
        let done = self.shared.driver.append(handle, end, &bytes[..count]);
        self.changed(handle);
        done
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        let Some(own) = self.shared.driver.handle_attributes(self.handle()?) else {
            return self.shared.attributes(self.node);
        };
        self.shared.own_attributes(self.node, own?)
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        match self
            .shared
            .driver
            .set_handle_attributes(self.handle()?, changes)
        {
            Some(done) => {
                self.changed(self.handle()?);
                done.and_then(|()| self.attributes(caller))
            }
            None => self.shared.change(None, self.node, changes),
        }
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let driver = &self.shared.driver;
        let done = driver.allocate(self.handle()?, mode, offset, length);
        self.changed(self.handle()?);
        done
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let size = self.attributes(&Caller::SYSTEM)?.size;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        match self.shared.driver.seek(self.handle()?, offset, whence) {
            Some(found) => found,
            None if whence == Whence::Data => Ok(offset),
            None => Ok(size),
        }
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.shared.driver.sync(self.handle()?, data_only)
    }

    fn flush(&self) -> Result<()> {
        self.shared.driver.flush(self.handle()?)
    }

    fn caching(&self) -> Caching {
        // Without a handle the file is being dropped.
        self.handle
            .as_ref()
            .map_or(Caching::Never, |handle| self.shared.driver.caching(handle))
    }

    fn save(&self) -> Result<Vec<u8>> {
        self.shared.driver.save(self.handle()?)
    }

    fn with_kernel_file(&self, _: (u64, u64), _: bool, map: &mut dyn FnMut(i32)) -> Result<bool> {
        let found = self.shared.driver.descriptor(self.handle()?);
        Ok(found.map(map).is_some())
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let other = to.as_any().and_then(|to| to.downcast_ref::<Self>());
        let other = other.filter(|other| Arc::ptr_eq(&self.shared, &other.shared));
        let other = other.ok_or(Errno::EXDEV)?;
        let (from, to) = ((self.handle()?, offset), (other.handle()?, to_offset));
        let done = self.shared.driver.copy_range(from, to, length);
        other.changed(to.0);
        done
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        let driver = &self.shared.driver;
        driver.ioctl(self.handle()?, request, argument)
    }

    fn poll(&self, waker: Option<&Waker>) -> Result<Readiness> {
        self.shared.driver.poll(self.handle()?, waker)
    }

    fn get_lock(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.shared.driver.get_lock(self.handle()?, owner, lock)
    }

    fn set_lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        let driver = &self.shared.driver;
        driver.set_lock(self.handle()?, owner, lock, wait)
    }

    fn flock(&self, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        self.shared.driver.flock(self.handle()?, owner, kind, wait)
    }

    fn lock_file(&self, make: bool) -> Result<Option<OwnedFd>> {
        self.shared.driver.lock_file(self.handle()?, make)
    }

    fn locked(&self) {
        if let Ok(handle) = self.handle() {
            self.shared.driver.locked(handle);
        }
    }

    fn before_unlock(&self) -> Result<()> {
        self.shared.driver.before_unlock(self.handle()?)
    }
}

impl<T: PathFileSystem> Drop for PathFile<T> {
    fn drop(&mut self) {
        self.handle = None;
        self.shared.closed(self.node);
    }
}

impl<T: PathFileSystem> AdapterState<T> {
    /// `handle` of `node` as an open file. By its path another file may have been opened, that took
    /// the name meanwhile: the handle says what it is, as `own` where that is known already, or the
    /// driver what is at `path` now.
    pub(super) fn opened(
        shared: &Arc<Self>,
        node: Node,
        handle: T::Handle,
        own: Option<Attributes>,
        path: Option<&[u8]>,
    ) -> Result<Opened>
    where
        T: 'static,
    {
        let asked = || {
            shared
                .driver
                .handle_attributes(&handle)
                .and_then(Result::ok)
        };
        match (own.or_else(asked), path) {
            (Some(own), _) => shared.table.lock().compare(node, &own)?,
            (None, Some(path)) => shared.verify(node, path)?,
            (None, None) => {}
        }
        shared.table.lock().get_mut(node)?.opens += 1;
        let file = PathFile::new(Arc::clone(shared), node, handle);
        Ok(Opened::Driven(Box::new(file)))
    }
}

/// Names by position, in order.
type Listing = Arc<Vec<(u64, PathEntry)>>;

/// An open directory: its names as they were when it was opened or rewound.
pub(super) struct Snapshot<T: PathFileSystem> {
    shared: Arc<AdapterState<T>>,
    dir: Node,
    /// What the driver keeps for this open.
    kept: Option<Box<dyn PathDirectory>>,
    entries: Mutex<Option<Listing>>,
}

impl<T: PathFileSystem> Snapshot<T> {
    pub(super) fn new(
        shared: Arc<AdapterState<T>>,
        dir: Node,
        kept: Option<Box<dyn PathDirectory>>,
    ) -> Self {
        Self {
            shared,
            dir,
            kept,
            entries: Mutex::new(None),
        }
    }
}

impl<T: PathFileSystem> Directory for Snapshot<T> {
    fn read(&self, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        let kept = self.entries.lock().clone().filter(|_| from != 0);
        let entries = match kept {
            Some(entries) => entries,
            None => {
                let entries = Arc::new(match &self.kept {
                    Some(kept) => self.shared.list_by(self.dir, |_| kept.list())?,
                    None => self.shared.list(self.dir)?,
                });
                *self.entries.lock() = Some(Arc::clone(&entries));
                entries
            }
        };
        let start = entries.partition_point(|(position, _)| *position <= from);
        for (position, entry) in &entries[start..] {
            let entry = DirectoryEntry {
                inode: entry.inode,
                next: *position,
                kind: entry.kind,
                name: &entry.name,
            };
            if !sink(entry) {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.sync(data_only),
            None => self.shared.sync_directory(self.dir, data_only),
        }
    }
}
