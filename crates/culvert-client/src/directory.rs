//! An open directory.

use crate::{
    connection::Who,
    core::Core,
    listing::{Ended, OpenedAt},
    words::CHANGE,
};
use alloc::sync::Arc;
use culvert::{Directory, DirectorySink, Result, sync::Mutex};

/// A directory's handle of the server's, in this process.
pub struct FuseDirectory {
    core: Arc<Core>,
    at: OpenedAt,
    who: Who,
    epoch: u32,
    ended: Mutex<Option<Ended>>,
}

impl FuseDirectory {
    /// The directory open as `at`.
    pub fn new(core: &Arc<Core>, at: OpenedAt, who: Who) -> Result<Self> {
        core.nodes.hold(at.node).inspect_err(|_| {
            core.close_listing(who, at);
        })?;
        Ok(Self {
            core: Arc::clone(core),
            at,
            who,
            epoch: core.epoch(),
            ended: Mutex::new(None),
        })
    }
}

impl Directory for FuseDirectory {
    fn read(&self, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        if self.epoch != self.core.epoch() {
            // The parent's handle may be closed at any time.
            let at = self.core.open_listing(self.who, self.at.node, 0)?;
            let listed = self.core.list(self.who, at, from, sink);
            self.core.close_listing(self.who, at);
            return listed.map(|_| ());
        }
        let changes = self.core.words().of_node(self.at.node) / CHANGE;
        let here = Ended { at: from, changes };
        // The call that gave the last names has heard already that there are no more.
        if self.ended.lock().take() == Some(here) {
            return Ok(());
        }
        let ended = self.core.list(self.who, self.at, from, sink)?;
        let ended = ended.filter(|_| self.core.words().is_shared);
        *self.ended.lock() = ended;
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        if self.epoch != self.core.epoch() {
            let at = self.core.open_listing(self.who, self.at.node, 0)?;
            let synced = self.core.sync_listing(self.who, at, data_only);
            self.core.close_listing(self.who, at);
            return synced;
        }
        self.core.sync_listing(self.who, self.at, data_only)
    }
}

impl Drop for FuseDirectory {
    fn drop(&mut self) {
        if self.epoch == self.core.epoch() {
            self.core.close_listing(self.who, self.at);
        }
        self.core.release(self.at.node);
    }
}
