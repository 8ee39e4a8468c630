//! References that are replaced while others read them.

use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// An `Option<&'static T>` that is read and replaced at once, without a lock. All zeroes: none.
#[repr(transparent)]
pub struct AtomicRef<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T> AtomicRef<T> {
    /// None.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()), PhantomData)
    }

    #[inline]
    fn pointer(value: Option<&'static T>) -> *mut T {
        value.map_or(null_mut(), |value| from_ref(value).cast_mut())
    }

    #[inline]
    fn reference(pointer: *mut T) -> Option<&'static T> {
        // SAFETY: null, or made of such a reference: nothing else is stored.
        unsafe { pointer.as_ref() }
    }

    /// What was stored last.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        Self::reference(self.0.load(Acquire))
    }

    /// Whether there is any, without looking at it.
    #[inline]
    pub fn is_some(&self) -> bool {
        !self.0.load(Relaxed).is_null()
    }

    /// Stores `value`.
    pub fn set(&self, value: Option<&'static T>) {
        self.0.store(Self::pointer(value), Release);
    }

    /// Stores `value`: what was there.
    pub fn replace(&self, value: Option<&'static T>) -> Option<&'static T> {
        Self::reference(self.0.swap(Self::pointer(value), AcqRel))
    }

    /// Stores `value` if there is none; else what somebody was faster to store.
    pub fn set_first(&self, value: &'static T) -> Result<(), &'static T> {
        let new = Self::pointer(Some(value));
        match self.0.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(first) => Err(Self::reference(first).unwrap_or(value)),
        }
    }

    /// Makes `value` the first of a list; what was the first goes into its `next`.
    pub fn push(&self, value: &'static T, next: &Self) {
        let _ = self.0.fetch_update(AcqRel, Acquire, |first| {
            next.0.store(first, Relaxed);
            Some(Self::pointer(Some(value)))
        });
    }
}

impl<T> Default for AtomicRef<T> {
    fn default() -> Self {
        Self::new()
    }
}
