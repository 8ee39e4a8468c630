//! One place of the table: a reference to a description, or nothing.

use crate::description::{Description, Held};
use alloc::sync::Arc;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use culvert_sys::sync::MutexGuard;

/// A pointer of [`Arc::into_raw`], or null. It changes under the table's lock.
pub(super) struct Slot(AtomicPtr<Description>);

impl Slot {
    /// Whether nothing is there.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// What is there, in a process with one thread.
    #[inline]
    pub(super) fn alone(&self) -> Option<Held> {
        let found = self.0.load(Relaxed);
        (!found.is_null()).then_some(Held::Alone(found))
    }

    /// A reference to what is there.
    pub(super) fn counted(&self, _lock: &MutexGuard<'_, ()>) -> Option<Arc<Description>> {
        let found = self.0.load(Relaxed);
        (!found.is_null()).then(|| another(found))
    }

    /// Puts `new` there: what was there.
    pub(super) fn swap(
        &self,
        new: Option<Arc<Description>>,
        _lock: &MutexGuard<'_, ()>,
    ) -> Option<Arc<Description>> {
        let new = new.map_or(null_mut(), |new| Arc::into_raw(new).cast_mut());
        let old = self.0.swap(new, AcqRel);
        // SAFETY: the slot's reference, made by `Arc::into_raw`, and taken out here.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old.cast_const()) })
    }
}

/// A reference that outlives the hook.
pub(super) fn counted(held: Held) -> Arc<Description> {
    match held {
        Held::Counted(description) => description,
        Held::Alone(description) => another(description),
    }
}

/// One more reference to a description that a slot holds, and keeps meanwhile: because its lock is
/// held, or as this is the only thread.
fn another(description: *const Description) -> Arc<Description> {
    // SAFETY: the pointer came from `Arc::into_raw`, and its reference is still there.
    unsafe {
        Arc::increment_strong_count(description);
        Arc::from_raw(description)
    }
}
