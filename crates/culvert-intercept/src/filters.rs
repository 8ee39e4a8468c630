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
use culvert_sys::sync::Mutex;
use culvert_sys::syscall::{self, Gate};

/// Chains are read and written under it where several threads are concerned.
static CHANGES: Mutex<()> = Mutex::new(());

impl Filter {
    /// The kernel has installed it for the calling thread, and for all others where `everywhere`.
    pub fn installed(mut self, everywhere: bool) {
        let block = thread::current();
        let _changes = CHANGES.lock();
        self.previous = block.filters.get();
        // Kept for ever, as others may be evaluating it.
        let chain: Option<&Self> = Some(Box::leak(Box::new(self)));
        block.filters.set(chain);
        static PERMIT: Gate = permit;
        syscall::ask_first(&PERMIT);
        if !block.is_vfork_child() && (everywhere || thread::used() == 1) {
            COMMON.set(chain);
            for other in thread::all().filter(|other| other.is_used()) {
                other.filters.set(chain);
            }
        }
    }
}

/// A new thread has the filters of its maker.
pub(crate) fn inherit(block: &ThreadBlock, child: &ThreadBlock) {
    let _changes = CHANGES.lock();
    child.filters.set(block.filters.get());
}

/// Whether the kernel will refuse this call of the thread's, without ever executing it.
#[cold]
pub(crate) fn refuse(block: &ThreadBlock, call: &Call, record: &SiteRecord) -> bool {
    refused(block.filters.get(), call, record.behind())
}

/// Whether the filters of the calling thread allow a call of the engine's own, or of the
/// embedder's.
fn permit(number: usize, args: &[usize; 6]) -> bool {
    let call = Call {
        number,
        args: *args,
    };
    thread::own().is_none_or(|block| !refused(block.filters.get(), &call, 0))
}
