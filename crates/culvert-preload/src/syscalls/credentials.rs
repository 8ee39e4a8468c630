//! Calls that change on whose behalf a thread acts, and under which filters.

use crate::answer::{Answer, FORWARD};
use crate::lifecycle::credentials::{NEW_USER, changing, entering};
use crate::lifecycle::filters::installing;
use crate::process::Process;
use culvert_intercept::Call;
use culvert_intercept::filters::Filter;
use culvert_sys::BorrowedFd;
use culvert_sys::nr;
use culvert_sys::raw::prctl::PR_SET_SECUREBITS;

/// setuid(2), capset(2) and all the others that change credentials.
pub fn changes(process: &Process, call: &mut Call) -> Answer {
    let asks = matches!(call.number, nr::SETFSUID | nr::SETFSGID);
    if asks && call.args[0] as u32 == u32::MAX {
        return Err(FORWARD);
    }
    changing(process, call.number, || call.execute())
}

/// `CLONE_NEWNS`.
const NEW_MOUNTS: usize = 0x2_0000;

/// setns(2)
pub fn setns(process: &Process, call: &mut Call) -> Answer {
    let kinds = match call.args[1] {
        0 => kind_of_namespace(call.args[0]),
        kinds => kinds,
    };
    // There it may have other mounts at the targets, or none.
    if kinds & NEW_MOUNTS != 0 || kinds == 0 {
        process.forget_what_kernel_sees();
    }
    match kinds & NEW_USER {
        0 => Err(FORWARD),
        _ => entering(process, kinds, || call.execute()),
    }
}

/// Which namespace a descriptor is of, as a flag of clone(2) (ioctl_nsfs(2)); 0: none.
fn kind_of_namespace(fd: usize) -> usize {
    culvert_sys::ioctl::kind_of_namespace(BorrowedFd::number(fd as i32)).unwrap_or(0)
}

/// prctl(2), seccomp(2): a filter may be coming.
pub fn confine(process: &Process, call: &mut Call) -> Answer {
    const NEW_LISTENER: usize = 1 << 3;
    const TSYNC: usize = 1;
    if call.number == nr::PRCTL && call.args[0] as u32 == PR_SET_SECUREBITS {
        let answer = call.execute();
        culvert_run::task::credentials::forget_credentials();
        return answer;
    }
    let filter = may_install(call).ok_or(FORWARD)?;
    let of_all = call.number == nr::SECCOMP && call.args[1] & TSYNC != 0;
    let counts_threads = of_all && call.args[1] & NEW_LISTENER == 0;
    installing(process, filter, of_all, counts_threads, || call.execute())
}

/// The filter that `call` may install: programs ask with others, and with none given, what the
/// kernel knows (libseccomp, systemd, OpenSSH).
fn may_install(call: &Call) -> Option<Filter> {
    const PR_SET_SECCOMP: usize = 22;
    // SECCOMP_SET_MODE_STRICT and SECCOMP_SET_MODE_FILTER; of prctl they are larger by one
    // (include/uapi/linux/seccomp.h).
    const STRICT: u32 = 0;
    const FILTER: u32 = 1;
    let [first, second, third, ..] = call.args;
    let (mode, filter) = match call.number {
        nr::SECCOMP => (first as u32, third),
        _ if first as u32 as usize == PR_SET_SECCOMP => ((second as u32).wrapping_sub(1), third),
        _ => return None,
    };
    match mode {
        STRICT => Some(Filter::strict()),
        FILTER => Filter::read(filter),
        _ => None,
    }
}
