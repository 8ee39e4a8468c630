//! The kernel's caches are the machine's: who drops them does not while somebody counts what they
//! save.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CACHES: RwLock<()> = RwLock::new(());

/// Until the guard is dropped, no test drops the caches.
pub fn caches_stay() -> RwLockReadGuard<'static, ()> {
    CACHES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Until the guard is dropped, no test counts on the caches.
pub fn caches_may_go() -> RwLockWriteGuard<'static, ()> {
    CACHES.write().unwrap_or_else(PoisonError::into_inner)
}
