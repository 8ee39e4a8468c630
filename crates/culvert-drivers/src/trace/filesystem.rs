//! The file system under the layer.

use super::{
    file::{SAVED, TracedFile},
    log::Log,
    noted,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::{
    Access, Attributes, Backing, Caller, Capabilities, DirectoryPlusSink, DirectorySink, Entry,
    FileSystem, Node, Observed, Observer, OpenFlags, Opened, OpenedDirectory, Reached, RenameFlags,
    Result, SetAttributes, StatFs, Validity, Walked,
};

/// A file system whose calls are written down.
pub struct TracedFs {
    inner: Box<dyn FileSystem>,
    log: Arc<Log>,
    opens: AtomicU64,
}

impl TracedFs {
    /// `inner`, with `log`.
    pub fn new(inner: Box<dyn FileSystem>, log: Log) -> Self {
        Self {
            inner,
            log: Arc::new(log),
            opens: AtomicU64::new(0),
        }
    }

    fn note(&self, method: &str) {
        self.log.line(format_args!("{method}"));
    }

    /// What was opened, with the next number, or with that which the program before had for it.
    fn traced(&self, opened: Opened, number: Option<u64>) -> Opened {
        match opened {
            Opened::Backed(fd) => Opened::Backed(fd),
            Opened::Driven(file) => {
                let number = number.unwrap_or_else(|| self.opens.fetch_add(1, Relaxed) + 1);
                self.opens.fetch_max(number, Relaxed);
                let file = TracedFile::new(file, Arc::clone(&self.log), number);
                Opened::Driven(Box::new(file))
            }
        }
    }

    fn traced_new(&self, (entry, opened): (Entry, Opened)) -> (Entry, Opened) {
        (entry, self.traced(opened, None))
    }
}

impl FileSystem for TracedFs {
    noted! {
        fn capabilities() -> Capabilities;
        fn root() -> Node;
        fn lookup(caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry>;
        fn walk(caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked>;
        fn reach(caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>>;
        fn parent(dir: Node) -> Result<Node>;
        fn path_of(node: Node) -> Result<Vec<u8>>;
        fn attributes(node: Node) -> Result<Attributes>;
        fn access(caller: &Caller<'_>, node: Node, access: Access) -> Result<()>;
        fn readlink(node: Node) -> Result<Vec<u8>>;
        fn is_open_for_writing(node: Node) -> Result<bool>;
        fn open_directory(
            caller: &Caller<'_>,
            dir: Node,
            flags: OpenFlags,
        ) -> Result<OpenedDirectory>;
        fn read_directory(dir: Node, from: u64, sink: &mut DirectorySink<'_>) -> Result<()>;
        fn read_directory_plus(
            caller: &Caller<'_>,
            dir: Node,
            from: u64,
            sink: &mut DirectoryPlusSink<'_>,
        ) -> Result<()>;
        fn sync_directory(dir: Node, data_only: bool) -> Result<()>;
        fn statfs() -> Result<StatFs>;
        fn validity() -> Validity;
        fn observe(observer: Arc<dyn Observer>) -> Observed;
        fn look();
        fn is_unobserved(node: Node) -> bool;
        fn get_xattr(node: Node, name: &[u8]) -> Result<Vec<u8>>;
        fn list_xattr(node: Node) -> Result<Vec<u8>>;
        fn set_xattr(
            caller: &Caller<'_>,
            node: Node,
            name: &[u8],
            value: &[u8],
            flags: u32,
        ) -> Result<()>;
        fn remove_xattr(caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()>;
        fn set_attributes(
            caller: &Caller<'_>,
            node: Node,
            changes: &SetAttributes,
        ) -> Result<Attributes>;
        fn mkdir(caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry>;
        fn mknod(
            caller: &Caller<'_>,
            dir: Node,
            name: &[u8],
            mode: u32,
            rdev: u64,
        ) -> Result<Entry>;
        fn symlink(caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry>;
        fn link(caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry>;
        fn unlink(caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()>;
        fn rmdir(caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()>;
        fn rename(
            caller: &Caller<'_>,
            from: (Node, &[u8]),
            to: (Node, &[u8]),
            flags: RenameFlags,
        ) -> Result<()>;
        fn forget(node: Node, count: u64);
        fn hold(node: Node) -> Result<()>;
        fn release(node: Node);
        fn sync() -> Result<()>;
        fn kernel_node(node: Node) -> Option<i32>;
        fn handed_down(node: Node) -> Option<i32>;
        fn identify(fd: i32) -> Result<Entry>;
        fn forked(shared_descriptors: bool);
        fn finish();
    }

    /// None: what the kernel does by itself nobody would see.
    fn backing(&self) -> Option<Backing> {
        self.note("backing");
        None
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.note("open");
        Ok(self.traced(self.inner.open(caller, node, flags)?, None))
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let (number, below) = match state.split_first_chunk::<SAVED>() {
            Some((number, below)) => (Some(u64::from_ne_bytes(*number)), below),
            None => (None, state),
        };
        match number {
            Some(number) => self.log.line(format_args!("restore file {number}")),
            None => self.note("restore"),
        }
        let opened = self.inner.restore(caller, node, flags, below)?;
        Ok(self.traced(opened, number))
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.note("create");
        let made = self.inner.create(caller, dir, name, flags, mode)?;
        Ok(self.traced_new(made))
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.note("tmpfile");
        let made = self.inner.tmpfile(caller, dir, flags, mode)?;
        Ok(self.traced_new(made))
    }

    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        self.note("adopt");
        Ok(self.traced_new(self.inner.adopt(caller, fd, flags)?))
    }
}
