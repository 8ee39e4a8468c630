//! The maps of a mount's extension that a library is given, as Rust has them.

use super::abi;
use crate::{Errno, Maps, Result};
use alloc::ffi::CString;
use core::ffi::c_int;
use core::ptr;

/// Maps of C's.
pub(super) struct ForeignMaps(*const abi::Maps);

// SAFETY: the header: its functions are called by any thread.
unsafe impl Send for ForeignMaps {}
// SAFETY: as above.
unsafe impl Sync for ForeignMaps {}

impl ForeignMaps {
    /// # Safety
    /// They are there until `finalize` has returned, behind which the driver is not.
    pub(super) const unsafe fn new(maps: *const abi::Maps) -> Self {
        Self(maps)
    }

    const fn functions(&self) -> &abi::Maps {
        // SAFETY: the promise of `new`.
        unsafe { &*self.0 }
    }
}

fn done(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        errno => Err(Errno::new(errno).into()),
    }
}

fn named(map: &str) -> Result<CString> {
    CString::new(map).map_err(|_| Errno::ENXIO.into())
}

impl Maps for ForeignMaps {
    fn sizes(&self, map: &str) -> Result<[usize; 2]> {
        let (map, [mut key, mut value]) = (named(map)?, [0; 2]);
        let sizes = self.functions().sizes;
        // SAFETY: the header: a string, and where to put sizes.
        done(unsafe { sizes(self.0, map.as_ptr(), &raw mut key, &raw mut value) })?;
        Ok([key, value])
    }

    fn get(&self, map: &str, key: &[u8], value: &mut [u8]) -> Result<()> {
        let (map, get) = (named(map)?, self.functions().get);
        let (from, room) = ((key.as_ptr(), key.len()), (value.as_mut_ptr(), value.len()));
        // SAFETY: the header: a string, and bytes with their lengths.
        done(unsafe { get(self.0, map.as_ptr(), from.0, from.1, room.0, room.1) })
    }

    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let (map, put) = (named(map)?, self.functions().put);
        let (key, value) = ((key.as_ptr(), key.len()), (value.as_ptr(), value.len()));
        // SAFETY: as above.
        done(unsafe { put(self.0, map.as_ptr(), key.0, key.1, value.0, value.1) })
    }

    fn remove(&self, map: &str, key: &[u8]) -> Result<()> {
        let (map, remove) = (named(map)?, self.functions().remove);
        // SAFETY: as above.
        done(unsafe { remove(self.0, map.as_ptr(), key.as_ptr(), key.len()) })
    }

    fn next(&self, map: &str, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        let (map, function) = (named(map)?, self.functions().next);
        if key.is_some_and(|key| key.len() != next.len()) {
            return Err(Errno::EINVAL.into());
        }
        let key = key.map_or(ptr::null(), <[u8]>::as_ptr);
        // SAFETY: as above; null, or as many bytes as there is room for.
        done(unsafe { function(self.0, map.as_ptr(), key, next.as_mut_ptr(), next.len()) })
    }
}
