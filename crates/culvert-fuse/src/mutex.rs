//! Locks that are taken whoever has died with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of `mutex`.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
