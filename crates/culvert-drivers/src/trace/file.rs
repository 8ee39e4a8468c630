//! Open files under the layer.

use super::{log::Log, noted};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{any::Any, task::Waker};
use culvert::{
    Attributes, Caching, File, Lock, LockKind, LockOwner, Readiness, Result, SetAttributes, Sink,
    Source, Wait, Whence,
};

/// A file whose calls are written down.
pub struct TracedFile {
    inner: Box<dyn File>,
    log: Arc<Log>,
    number: u64,
}

impl TracedFile {
    /// `inner`, as file `number`.
    pub fn new(inner: Box<dyn File>, log: Arc<Log>, number: u64) -> Self {
        Self { inner, log, number }
    }

    fn note(&self, method: &str) {
        self.log.line(format_args!("file {} {method}", self.number));
    }
}

impl Drop for TracedFile {
    fn drop(&mut self) {
        self.note("closed");
    }
}

/// In front of what the file below has saved.
pub const SAVED: usize = 8;

impl File for TracedFile {
    noted! {
        fn read_at(offset: u64, out: &mut dyn Sink) -> Result<usize>;
        fn write_at(offset: u64, from: &mut dyn Source) -> Result<usize>;
        fn append(from: &mut dyn Source) -> Result<(u64, usize)>;
        fn attributes() -> Result<Attributes>;
        fn set_attributes(changes: &SetAttributes) -> Result<Attributes>;
        fn sync(data_only: bool) -> Result<()>;
        fn allocate(mode: u32, offset: u64, length: u64) -> Result<()>;
        fn seek(offset: u64, whence: Whence) -> Result<u64>;
        fn copy_range(offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64>;
        fn as_any() -> Option<&dyn Any>;
        fn descriptor() -> Option<i32>;
        fn continued_by() -> Option<i32>;
        fn with_kernel_file(
            range: (u64, u64),
            stores: bool,
            map: &mut dyn FnMut(i32),
        ) -> Result<bool>;
        fn caching() -> Caching;
        fn shared();
        fn confined();
        fn flush() -> Result<()>;
        fn reports_at_close() -> bool;
        fn ioctl(request: u32, argument: &mut [u8]) -> Result<usize>;
        fn poll(waker: Option<&Waker>) -> Result<Readiness>;
        fn get_lock(owner: LockOwner, lock: &Lock) -> Result<Option<Lock>>;
        fn set_lock(owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()>;
        fn flock(owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()>;
    }

    /// The file's number, then what the one below saves.
    fn save(&self) -> Result<Vec<u8>> {
        self.note("save");
        let below = self.inner.save()?;
        Ok([&self.number.to_ne_bytes()[..], &below].concat())
    }
}
