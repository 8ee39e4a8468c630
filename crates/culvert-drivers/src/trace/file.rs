//! Open files under the layer.

use super::log::Log;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{File, FileLayer, Result};

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
}

impl Drop for TracedFile {
    fn drop(&mut self) {
        self.called("closed");
    }
}

/// In front of what the file below has saved.
pub const SAVED: usize = 8;

impl FileLayer for TracedFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn called(&self, method: &'static str) {
        self.log.line(format_args!("file {} {method}", self.number));
    }

    fn descriptor(&self) -> Option<i32> {
        self.inner.descriptor()
    }

    /// It is to hear of each close.
    fn reports_at_close(&self) -> bool {
        self.called("reports_at_close");
        true
    }

    fn with_kernel_file(
        &self,
        range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        self.inner.with_kernel_file(range, stores, map)
    }

    /// The file's number, then what the one below saves.
    fn save(&self) -> Result<Vec<u8>> {
        let below = self.inner.save()?;
        Ok([&self.number.to_ne_bytes()[..], &below].concat())
    }
}
