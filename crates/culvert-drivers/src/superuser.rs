//! Rights that a server has given up for whom it acts for.

use culvert::Rights;
use culvert_sys::process;

/// Runs `work` with the rights in `needed` that the calling thread, a server's, has given up for
/// the one that it acts for; its user and group stay those.
pub fn with<T>(needed: Rights, work: impl FnOnce() -> T) -> T {
    let Ok(before) = process::capget() else {
        return work();
    };
    let mut raised = before;
    let [effective, permitted, _] = &mut raised[0];
    *effective |= needed.0 as u32 & *permitted;
    if raised == before || process::capset(&raised).is_err() {
        return work();
    }
    let done = work();
    // To give up rights is never refused.
    let _ = process::capset(&before);
    done
}
