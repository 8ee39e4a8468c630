//! A description as the cache of pages knows it.

use super::Description;
use culvert::{Errno, File};
use culvert_cache::{OpenFile, orphan_file::OrphanFile};
use culvert_run::{ShadowName, node_locks::NodeLock};

impl OpenFile for Description {
    #[inline]
    fn name(&self) -> ShadowName {
        self.name()
    }

    #[inline]
    fn changes(&self) -> bool {
        self.changes
    }

    fn file(&self) -> Result<&dyn File, Errno> {
        self.file()
    }

    fn readable(&self) -> Result<&dyn File, Errno> {
        self.readable()
    }

    fn writable(&self) -> Result<&dyn File, Errno> {
        self.writable()
    }

    fn orphan(&self) -> Option<&OrphanFile> {
        self.orphan()
    }

    fn lock(&self) -> Option<NodeLock<'static>> {
        self.lock_node()
    }
}
