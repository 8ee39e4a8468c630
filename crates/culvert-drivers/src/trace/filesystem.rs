//! The file system under the layer. What the kernel would do by itself, on a tree of its own, is
//! not offered: nobody would see it.

use super::{
    file::{SAVED, TracedFile},
    log::Log,
};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::{
    Access, Caller, DirectoryPlusSink, FileSystem, Layer, LayeredFile, Node, OpenFlags, Opened,
    Reached, Result, Walked,
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

    fn traced(&self, opened: Opened, number: u64) -> Opened {
        match opened {
            Opened::Backed(fd) => Opened::Backed(fd),
            Opened::Driven(file) => {
                let file = TracedFile::new(file, Arc::clone(&self.log), number);
                Opened::Driven(Box::new(LayeredFile(file)))
            }
        }
    }

    fn next(&self) -> u64 {
        self.opens.fetch_add(1, Relaxed) + 1
    }
}

impl Layer for TracedFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn called(&self, method: &'static str) {
        // It is said there which file that is.
        if method != "restore" {
            self.log.line(format_args!("{method}"));
        }
    }

    /// With the next number.
    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        match opened {
            Opened::Backed(fd) => Opened::Backed(fd),
            driven => self.traced(driven, self.next()),
        }
    }

    /// With the number that the program before had for it.
    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let Some((number, below)) = state.split_first_chunk::<SAVED>() else {
            self.log.line(format_args!("restore"));
            let opened = self.inner.restore(caller, node, flags, state)?;
            return Ok(self.opened(node, flags, opened));
        };
        let number = u64::from_ne_bytes(*number);
        self.log.line(format_args!("restore file {number}"));
        self.opens.fetch_max(number, Relaxed);
        let opened = self.inner.restore(caller, node, flags, below)?;
        Ok(self.traced(opened, number))
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        self.inner.walk(caller, from, path)
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        self.inner.reach(caller, from, path)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.inner.access(caller, node, access)
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

    fn kernel_node(&self, node: Node) -> Option<i32> {
        self.inner.kernel_node(node)
    }
}
