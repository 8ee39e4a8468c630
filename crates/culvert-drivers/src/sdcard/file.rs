//! Open files: of their attributes some are derived, and not to be changed.

use super::core::{Core, allowed};
use alloc::{boxed::Box, sync::Arc};
use culvert::{Attributes, Caller, File, FileLayer, Result, SetAttributes};

/// An open file.
pub struct SdFile {
    inner: Box<dyn File>,
    core: Arc<Core>,
}

impl SdFile {
    /// `inner`, of the file system of `core`.
    pub fn new(inner: Box<dyn File>, core: Arc<Core>) -> Self {
        Self { inner, core }
    }
}

impl FileLayer for SdFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn touches_data(&self) -> bool {
        false
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        self.core.seen(attributes)
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let server = self.core.server(caller);
        let changed = match allowed(changes) {
            Some(changes) => self.inner.set_attributes(&server, &changes)?,
            None => self.inner.attributes(&server)?,
        };
        Ok(self.core.seen(changed))
    }
}
