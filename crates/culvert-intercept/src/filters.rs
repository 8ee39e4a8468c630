//! What the program's own seccomp filters say of a call, asked before anybody else answers it.
//!
//! The kernel runs a filter on the calls that reach it, so a call that a handler answers would get
//! around the program's sandbox; and a call that the kernel refuses in the middle of a hook would
//! raise its SIGSYS there. So the filters that a thread installs are kept here, in a chain as the
//! kernel's (`struct seccomp_filter`, kernel/seccomp.c), and evaluated first. What they refuse is
//! executed at the program's own instruction, where the kernel refuses it as natively.
//!
//! Filters from before the program began are not known here.

pub use crate::seccomp::Filter;

use crate::{
    Call, SiteRecord,
    seccomp::{COMMON, refused},
    thread::{self, ThreadBlock},
};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::*;
use culvert_sys::{sync::Mutex, syscall};

/// Chains are read and written under it where several threads are concerned.
static CHANGES: Mutex<()> = Mutex::new(());

impl Filter {
    /// The kernel has installed it for the calling thread, and for all others where `everywhere`.
    pub fn installed(mut self, everywhere: bool) {
        let block = thread::current();
        let _changes = CHANGES.lock();
        self.previous = block.filters.load(Relaxed);
        // Kept for ever, as others may be evaluating it.
        let chain = Box::into_raw(Box::new(self));
        block.filters.store(chain, Release);
        syscall::ask_first(permit);
        if !block.is_vfork_child() && (everywhere || thread::used() == 1) {
            COMMON.store(chain, Release);
            for other in thread::all().filter(|other| other.is_used()) {
                other.filters.store(chain, Release);
            }
        }
    }
}

/// A new thread has the filters of its maker.
pub(crate) fn inherit(block: &ThreadBlock, child: &ThreadBlock) {
    let _changes = CHANGES.lock();
    child.filters.store(block.filters.load(Relaxed), Release);
}

/// Whether the kernel will refuse this call of the thread's, without ever executing it.
#[cold]
pub(crate) fn refuse(block: &ThreadBlock, call: &Call, record: &SiteRecord) -> bool {
    refused(block.filters.load(Acquire), call, record.behind())
}

/// Whether the filters of the calling thread allow a call of the engine's own, or of the
/// embedder's.
fn permit(number: usize, args: &[usize; 6]) -> bool {
    let filters = |block: &ThreadBlock| block.filters.load(Acquire);
    let call = Call {
        number,
        args: *args,
    };
    thread::own().is_none_or(|block| !refused(filters(block), &call, 0))
}
