//! An open directory for which a library keeps something.

use super::{Inner, Library, checked, string, unless_missing};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::ffi::{c_int, c_void};
use culvert::library::abi::Dirent;
use culvert::path::{PathDirectory, PathEntry};
use culvert::{Caller, Errno, Result};
use culvert_sys::waits::Holding;

struct Directory {
    directory: *mut c_void,
    of: Arc<Inner>,
}

// SAFETY: as of `Inner`, whose functions alone use it.
unsafe impl Send for Directory {}
// SAFETY: as above.
unsafe impl Sync for Directory {}

impl Library {
    /// The directory at `path`, open; none: the library keeps nothing of it, or lists none that is
    /// open.
    pub(super) fn directory(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
    ) -> Result<Option<Box<dyn PathDirectory>>> {
        if self.0.driver.opendir.is_none() || self.0.driver.listdir.is_none() {
            return Ok(None);
        }
        let (path, mut directory) = (string(path)?, core::ptr::null_mut());
        let asked = call!(
            &self.0,
            caller,
            opendir(path.as_ptr(), &raw mut directory),
            Errno::ENOSYS
        );
        let open = |()| {
            let of = Arc::clone(&self.0);
            Box::new(Directory { directory, of }) as Box<dyn PathDirectory>
        };
        unless_missing(asked)
            .map(|asked| asked.map(open))
            .transpose()
    }
}

impl PathDirectory for Directory {
    fn list(&self) -> Result<Vec<PathEntry>> {
        super::names(
            "listdir",
            super::NAMES,
            |entries: *mut Dirent, room, count| {
                call!(
                    &self.of,
                    &Caller::SYSTEM,
                    listdir(self.directory, entries, room, count),
                    Errno::ENOSYS
                )
            },
        )
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let inner = &self.of;
        match (inner.driver.syncdir, inner.driver.syncfs) {
            (None, None) => Ok(()),
            (None, Some(_)) => call!(inner, &Caller::SYSTEM, syncfs(), Errno::ENOSYS),
            (Some(_), _) => call!(
                inner,
                &Caller::SYSTEM,
                syncdir(self.directory, c_int::from(data_only)),
                Errno::ENOSYS
            ),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = call!(
            &self.of,
            &Caller::SYSTEM,
            closedir(self.directory),
            Errno::ENOSYS
        );
    }
}
