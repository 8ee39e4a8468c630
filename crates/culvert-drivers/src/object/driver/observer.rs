//! Changes by others, that a library tells of.

use alloc::sync::Arc;
use core::ffi::{CStr, c_char, c_int};
use culvert::library::{abi, change};
use culvert::path::{PathChange, PathObserver};

/// Whom the library tells of changes.
#[repr(C)]
pub(super) struct Observer {
    head: abi::Observer,
    observer: Arc<dyn PathObserver>,
}

/// # Safety
/// One of `Observer`, and a string.
unsafe extern "C" fn tell(observer: *const abi::Observer, what: c_int, path: *const c_char) {
    // SAFETY: the caller's promise; the head is its first member.
    let (observer, path) = unsafe {
        let path = match path.is_null() {
            true => &[],
            false => CStr::from_ptr(path).to_bytes(),
        };
        (&*observer.cast::<Observer>(), path)
    };
    // Of a change that there is not nobody knows how much it is.
    observer
        .observer
        .tell(change(what, path).unwrap_or(PathChange::Everything));
}

impl Observer {
    /// One that stays where it is.
    pub(super) fn new(observer: Arc<dyn PathObserver>) -> Arc<Self> {
        let head = abi::Observer { tell };
        Arc::new(Self { head, observer })
    }

    pub(super) const fn head(&self) -> *const abi::Observer {
        core::ptr::from_ref(self).cast()
    }
}
