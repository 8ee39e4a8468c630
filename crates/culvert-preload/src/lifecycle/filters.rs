//! Filters of system calls (seccomp(2)): what may be called only before there is one.

use crate::answer::Answer;
use crate::process::Process;
use core::sync::atomic::Ordering::Relaxed;
use culvert_intercept::filters::Filter;

/// Runs `install`, which installs `filter`: for all threads if `of_all`, whose answer may then be
/// the number of a thread that has another filter, which is a failure too, where it
/// `counts_threads` (seccomp(2)).
pub fn installing(
    process: &Process,
    filter: Filter,
    of_all: bool,
    counts_threads: bool,
    install: impl FnOnce() -> Answer,
) -> Answer {
    // Before the call: a filter may be every thread's from the moment it is there
    // (SECCOMP_FILTER_FLAG_TSYNC).
    crate::strangers::are_there();
    process.confine();
    let answer = install();
    if answer.is_err() || counts_threads && answer != Ok(0) {
        culvert_run::task::is_not_confined();
        return answer;
    }
    filter.installed(of_all);
    if let Some(child) = culvert_run::task::vfork_child() {
        child.filters.fetch_add(1, Relaxed);
    }
    answer
}
