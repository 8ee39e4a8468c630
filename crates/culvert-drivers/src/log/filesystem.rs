//! The file system under the layer.

use super::{
    file::LogFile,
    pipe::Pipe,
    record::{Record, What},
    recorder::{Asks, Recorder, changed},
};
use alloc::{boxed::Box, sync::Arc};
use culvert::{
    Access, Attributes, Call, Caller, DirectoryPlusSink, Entry, Errno, FileKind, FileSystem, Layer,
    LayeredFile, Node, OpenFlags, Opened, Operation, Reached, RenameFlags, Result, SetAttributes,
    Touches, Walked,
};

/// A file system whose operations are logged.
pub struct LogFs {
    inner: Box<dyn FileSystem>,
    recorder: Recorder,
    /// Reads and writes are logged, too.
    data: bool,
}

impl LogFs {
    /// `inner`, whose operations go to `pipe`.
    pub fn new(
        inner: Box<dyn FileSystem>,
        pipe: Arc<Pipe>,
        caller: Option<Asks>,
        data: bool,
    ) -> Self {
        let recorder = Recorder::new(pipe, caller);
        Self {
            inner,
            recorder,
            data,
        }
    }

    /// The mode that is made of `mode`: where the kernel applies the umask, drivers get it without.
    fn masked(&self, caller: &Caller<'_>, mode: u32) -> u64 {
        u64::from(match self.inner.capabilities().checks_permissions {
            true => mode & !(caller.umask & 0o777),
            false => mode,
        })
    }

    /// An operation that finds or makes `name` in `dir`.
    fn entered(&self, record: Record<'_>, work: impl FnOnce() -> Result<Entry>) -> Result<Entry> {
        self.told(record, |entry: &Entry| *entry, work)
    }

    /// The same where the entry is a part of what comes back.
    fn told<T>(
        &self,
        record: Record<'_>,
        entry: impl FnOnce(&T) -> Entry,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let began = self.recorder.now();
        let done = work();
        let found = done
            .as_ref()
            .map_or(0, |made| entry(made).attributes.node.0);
        self.recorder
            .ended(Record { found, ..record }, began, &done);
        done
    }
}

fn named(operation: Operation, dir: Node, name: &[u8]) -> Record<'_> {
    Record {
        name,
        ..Record::new(What::Operation(operation), dir)
    }
}

/// The flags that the program gave.
fn given(flags: OpenFlags) -> u64 {
    u64::from(flags.without(OpenFlags::LENDS).0)
}

impl Layer for LogFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    /// It must hear of everything, though it changes nothing.
    fn touches(&self) -> Touches {
        Touches {
            data: self.data,
            ..Touches::ALL
        }
    }

    fn opened(&self, node: Node, _: OpenFlags, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(file) => {
                let file = LogFile::new(file, self.recorder.clone(), node, self.data);
                Opened::Driven(Box::new(LayeredFile(file)))
            }
            backed => backed,
        }
    }

    /// Names are those of the driver below.
    fn kernel_node(&self, node: Node) -> Option<i32> {
        self.inner.kernel_node(node)
    }

    /// Of operations that say no more than what they are about.
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let record = named(call.operation, call.node, call.name.unwrap_or_default());
        self.recorder.around(record, &mut work)
    }

    /// Of what the front end asks for itself nothing is told.
    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let call = Call::of(Operation::Attributes, node).by(caller);
        match caller.is_system() {
            true => self.inner.attributes(caller, node),
            false => self.around(call, || self.inner.attributes(caller, node)),
        }
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.entered(named(Operation::Lookup, dir, name), || {
            self.inner.lookup(caller, dir, name)
        })
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let began = self.recorder.now();
        let done = self.inner.walk(caller, from, path);
        let passed = done.as_ref().map_or(path.len(), |walked| walked.consumed);
        let entry = done.as_ref().ok().and_then(|walked| walked.entry);
        let record = Record {
            found: entry.map_or(0, |entry| entry.attributes.node.0),
            ..named(Operation::Lookup, from, path.get(..passed).unwrap_or(path))
        };
        self.recorder.ended(record, began, &done);
        done
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        let began = self.recorder.now();
        let done = self.inner.reach(caller, from, path)?;
        let entry = done.as_ref().ok().and_then(|reached| reached.entry);
        let mut record = named(Operation::Lookup, from, path);
        match entry {
            Some(entry) => record.found = entry.attributes.node.0,
            // A missing last component is no error of the driver's; it is one of the lookup.
            None => record.errno = Errno::ENOENT.raw() as u16,
        }
        self.recorder.reached(record, began, &done);
        Some(done)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        let record = Record {
            numbers: [u64::from(access.0), 0, 0, 0],
            ..Record::new(What::Operation(Operation::Access), node)
        };
        self.recorder
            .around(record, || self.inner.access(caller, node, access))
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let record = Record {
            numbers: [given(flags), 0, 0, 0],
            ..Record::new(What::Operation(Operation::Open), node)
        };
        let opened = self
            .recorder
            .around(record, || self.inner.open(caller, node, flags))?;
        Ok(self.opened(node, flags, opened))
    }

    fn get_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
    ) -> Result<alloc::vec::Vec<u8>> {
        let record = Record {
            other: name,
            ..Record::new(What::Operation(Operation::GetXattr), node)
        };
        self.recorder
            .around(record, || self.inner.get_xattr(caller, node, name))
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let record = Record {
            other: name,
            numbers: [value.len() as u64, 0, 0, 0],
            ..Record::new(What::Operation(Operation::SetXattr), node)
        };
        self.recorder.around(record, || {
            self.inner.set_xattr(caller, node, name, value, flags)
        })
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let record = Record {
            other: name,
            ..Record::new(What::Operation(Operation::RemoveXattr), node)
        };
        self.recorder
            .around(record, || self.inner.remove_xattr(caller, node, name))
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.recorder.changing(changed(node, changes), || {
            self.inner.set_attributes(caller, node, changes)
        })
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let record = Record {
            numbers: [
                given(flags),
                self.masked(caller, FileKind::Regular as u32 | mode),
                0,
                0,
            ],
            ..named(Operation::Create, dir, name)
        };
        let (entry, opened) = self.told(
            record,
            |(entry, _)| *entry,
            || self.inner.create(caller, dir, name, flags, mode),
        )?;
        Ok((entry, self.opened(entry.attributes.node, flags, opened)))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let record = Record {
            numbers: [self.masked(caller, mode), 0, 0, 0],
            ..named(Operation::Mkdir, dir, name)
        };
        self.entered(record, || self.inner.mkdir(caller, dir, name, mode))
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let record = Record {
            numbers: [self.masked(caller, mode), rdev, 0, 0],
            ..named(Operation::Mknod, dir, name)
        };
        self.entered(record, || self.inner.mknod(caller, dir, name, mode, rdev))
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let record = Record {
            other: target,
            ..named(Operation::Symlink, dir, name)
        };
        self.entered(record, || self.inner.symlink(caller, dir, name, target))
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let record = Record {
            node2: node.0,
            ..named(Operation::Link, dir, name)
        };
        self.entered(record, || self.inner.link(caller, node, dir, name))
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let record = Record {
            node2: to.0.0,
            other: to.1,
            numbers: [u64::from(flags.0), 0, 0, 0],
            ..named(Operation::Rename, from.0, from.1)
        };
        self.recorder
            .around(record, || self.inner.rename(caller, from, to, flags))
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let record = Record {
            numbers: [given(flags), self.masked(caller, mode), 0, 0],
            ..Record::new(What::Operation(Operation::Tmpfile), dir)
        };
        let (entry, opened) = self.told(
            record,
            |(entry, _)| *entry,
            || self.inner.tmpfile(caller, dir, flags, mode),
        )?;
        Ok((entry, self.opened(entry.attributes.node, flags, opened)))
    }

    /// A record of the listing, and one for each name that was found on the way, by which its path
    /// is known.
    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        let record = Record::new(What::Operation(Operation::ReadDirectory), dir);
        self.recorder.around(record, || {
            self.inner
                .read_directory_plus(caller, dir, from, &mut |entry, found| {
                    let name = entry.name;
                    let taken = sink(entry, found);
                    if let (true, Some(found)) = (taken, found) {
                        let record = Record {
                            found: found.attributes.node.0,
                            ..named(Operation::Lookup, dir, name)
                        };
                        self.recorder.ended(record, self.recorder.now(), &Ok(()));
                    }
                    taken
                })
        })
    }

    fn forked(&self, shared_descriptors: bool) {
        self.inner.forked(shared_descriptors);
        self.recorder.forked();
    }
}
