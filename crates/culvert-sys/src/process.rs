//! Calls about this process and its threads.

use crate::fd::{AsFd, OwnedFd};
use crate::plain::{Packed, Plain, filled};
use crate::table::calls;
use crate::{Errno, nr, syscall};
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::ptr::{from_mut, from_ref, null};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use linux_raw_sys::general as linux;

macro_rules! infallible {
    ($($(#[$note:meta])* $name:ident($($argument:ident)?) = $number:ident;)*) => { $(
        $(#[$note])*
        #[inline]
        pub fn $name($($argument: u32)?) -> u32 {
            // SAFETY: takes a number at most and touches no memory. It never fails, at worst
            // nothing changes.
            unsafe { syscall::raw(nr::$number, syscall::six([$($argument as usize)?])) as u32 }
        }
    )* };
}

infallible! {
    /// getpid(2).
    getpid() = GETPID;
    /// gettid(2).
    gettid() = GETTID;
    /// geteuid(2).
    geteuid() = GETEUID;
    /// getegid(2).
    getegid() = GETEGID;
    /// getuid(2).
    getuid() = GETUID;
    /// getgid(2).
    getgid() = GETGID;
    /// umask(2): the mask before.
    umask(new) = UMASK;
    /// setfsuid(2), of this thread: who it was before.
    setfsuid(new) = SETFSUID;
    /// setfsgid(2), of this thread: what it was before.
    setfsgid(new) = SETFSGID;
}

/// Who the calling thread is: real, effective, saved and file system's user.
pub fn users() -> [u32; 4] {
    let [mut real, mut effective, mut saved] = [u32::MAX; 3];
    let _ = getresuid(&mut real, &mut effective, &mut saved);
    // No such user: nothing changes.
    [real, effective, saved, setfsuid(u32::MAX)]
}

/// Soft and hard limit (`struct rlimit64`), `u64::MAX` for none.
pub type Limits = [u64; 2];

calls! {
    fn prlimit64(process: u32, resource: u32, new: *const Limits, old: *mut Limits) -> ()
        = PRLIMIT64[process, resource, new, old];
    fn get(resource: u32, into: &mut Limits) -> () = GETRLIMIT[resource, from_mut(into)];
    /// setrlimit(2).
    pub fn setrlimit(resource: u32, new: &Limits) -> () = SETRLIMIT[resource, from_ref(new)];
    fn capget_into(header: &mut [u32; 2], sets: &mut Capabilities) -> ()
        = CAPGET[from_mut(header), from_mut(sets)];
    fn capset_from(header: &mut [u32; 2], sets: &Capabilities) -> ()
        = CAPSET[from_mut(header), from_ref(sets)];
    /// getgroups(2): how many there are; EINVAL where `into` has not the room.
    pub fn getgroups(into: &mut [u32]) -> usize = GETGROUPS[into.len(), into.as_mut_ptr()];
    fn getresuid(real: &mut u32, effective: &mut u32, saved: &mut u32) -> ()
        = GETRESUID[from_mut(real), from_mut(effective), from_mut(saved)];
    /// tkill(2): a signal to a thread of this process.
    pub fn tkill(thread: u32, signal: u32) -> () = TKILL[thread, signal];
    /// tgkill(2).
    pub fn tgkill(process: u32, thread: u32, signal: u32) -> () = TGKILL[process, thread, signal];
    /// kill(2).
    pub fn kill(process: i32, signal: u32) -> () = KILL[process, signal];
    /// setsid(2).
    pub fn setsid() -> i32 = SETSID[];
    /// setgroups(2), of this thread alone.
    pub fn setgroups(groups: &[u32]) -> () = SETGROUPS[groups.len(), groups.as_ptr()];
    /// unshare(2): what this thread has for itself from here on, a set of `CLONE_` flags.
    pub fn unshare(what: u32) -> () = UNSHARE[what];
    /// sched_getscheduler(2).
    pub fn sched_getscheduler(thread: u32) -> u32 = SCHED_GETSCHEDULER[thread];
    fn setscheduler(thread: u32, class: u32, priority: &u32) -> ()
        = SCHED_SETSCHEDULER[thread, class, from_ref(priority)];
    fn action(signal: u32, new: *const [usize; 4], old: *mut [usize; 4]) -> ()
        = RT_SIGACTION[signal, new, old, 8usize];
    fn exec(path: &CStr, arguments: *const *const c_char, environment: *const *const c_char) -> ()
        = EXECVE[path.as_ptr(), arguments, environment];
    /// pidfd_send_signal(2), as kill(2) would.
    pub fn pidfd_send_signal(process: impl AsFd, signal: u32) -> ()
        = PIDFD_SEND_SIGNAL[process.as_fd(), signal, 0, 0];
    /// pidfd_open(2).
    pub fn pidfd_open(process: u32) -> OwnedFd = PIDFD_OPEN[process, 0];
    /// clock_gettime(2).
    fn clock(clock: u32, into: &mut linux::timespec) -> () = CLOCK_GETTIME[clock, from_mut(into)];
    /// wait4(2) of child `id`, without its status.
    fn wait4(id: u32, status: usize, options: u32, usage: usize) -> u32
        = WAIT4[id, status, options, usage];
    fn usage_into(who: u32, into: &mut [u64; 18]) -> () = GETRUSAGE[who, from_mut(into)];
    fn sysinfo_into(into: &mut SysInfo) -> () = SYSINFO[from_mut(into)];
    /// getrandom(2): how many bytes were filled.
    pub fn getrandom(into: &mut [u8], flags: u32) -> usize
        = GETRANDOM[into.as_mut_ptr(), into.len(), flags];
    /// poll(2); the time in milliseconds, none for -1.
    pub fn poll(waited: &mut [linux::pollfd], time: i32) -> usize
        = POLL[waited.as_mut_ptr(), waited.len(), time];
    fn pending_into(into: &mut u64) -> () = RT_SIGPENDING[from_mut(into), 8usize];
    fn wait_for_signal(set: &u64, info: usize, time: *const linux::timespec) -> u32
        = RT_SIGTIMEDWAIT[from_ref(set), info, time, 8usize];
    fn signals(how: u32, new: *const u64, old: *mut u64) -> () = RT_SIGPROCMASK[how, new, old, 8usize];
    /// pidfd_getfd(2): a duplicate of a descriptor of another process.
    pub fn pidfd_getfd(process: impl AsFd, number: i32) -> OwnedFd
        = PIDFD_GETFD[process.as_fd(), number, 0];
    fn sleep(time: *const linux::timespec, left: *mut linux::timespec) -> () = NANOSLEEP[time, left];
    fn vector_into(option: u32, into: *mut u8, length: usize) -> usize
        = PRCTL[option, into, length, 0, 0];
    fn end(status: i32) -> () = EXIT_GROUP[status];
    fn robust_list_into(thread: u32, start: &mut usize, length: &mut usize) -> ()
        = GET_ROBUST_LIST[thread, from_mut(start), from_mut(length)];
    fn robust_list_at(start: usize, length: usize) -> () = SET_ROBUST_LIST[start, length];
    /// membarrier(2).
    pub fn membarrier(command: u32) -> () = MEMBARRIER[command, 0, 0];
    fn number_option(option: u32, argument: usize) -> usize = PRCTL[option, argument, 0, 0, 0];
}

/// get_robust_list(2) of this thread: where the list begins, and the size of that.
pub fn robust_list() -> Result<[usize; 2], Errno> {
    let [mut start, mut length] = [0; 2];
    robust_list_into(0, &mut start, &mut length)?;
    Ok([start, length])
}

/// set_robust_list(2) of this thread.
///
/// # Safety
/// What the list leads to may be written when the thread ends: its futex words, where they hold the
/// thread's number.
pub unsafe fn set_robust_list([start, length]: [usize; 2]) -> Result<(), Errno> {
    robust_list_at(start, length)
}

/// prlimit(2) of this process: the limits before.
pub fn prlimit(resource: u32, new: Option<&Limits>) -> Result<Limits, Errno> {
    let mut old = [u64::MAX; 2];
    prlimit64(0, resource, new.map_or(null(), from_ref), &raw mut old)?;
    Ok(old)
}

/// getrlimit(2).
pub fn getrlimit(resource: u32) -> Result<Limits, Errno> {
    let mut limits = [u64::MAX; 2];
    get(resource, &mut limits)?;
    Ok(limits)
}

/// The capabilities of a thread: effective, permitted and inheritable, of each the lower 32 and
/// then the upper ones.
pub type Capabilities = [[u32; 3]; 2];

/// `_LINUX_CAPABILITY_VERSION_3`, and the calling thread.
const OF_THREAD: [u32; 2] = [linux::_LINUX_CAPABILITY_VERSION_3, 0];

/// capget(2) of the calling thread.
pub fn capget() -> Result<Capabilities, Errno> {
    let mut sets = [[0; 3]; 2];
    capget_into(&mut { OF_THREAD }, &mut sets)?;
    Ok(sets)
}

/// capset(2) of the calling thread.
pub fn capset(sets: &Capabilities) -> Result<(), Errno> {
    capset_from(&mut { OF_THREAD }, sets)
}

/// clock_gettime(2).
pub fn clock_gettime(which: u32) -> Result<linux::timespec, Errno> {
    filled(|into| clock(which, into))
}

/// rt_sigprocmask(2) of this thread: the signals that were blocked before. The handler of one that
/// is not blocked any more may run here and now.
#[inline]
pub fn sigprocmask(how: u32, set: u64) -> Result<u64, Errno> {
    let mut old = 0;
    signals(how, &raw const set, &raw mut old)?;
    Ok(old)
}

/// rt_sigpending(2).
pub fn pending_signals() -> Result<u64, Errno> {
    let mut set = 0;
    pending_into(&mut set).map(|()| set)
}

/// Takes one signal of `set` that is pending, all blocked ones (rt_sigtimedwait(2)): its number.
/// EAGAIN: there is none.
pub fn take_signal(set: u64) -> Result<u32, Errno> {
    wait_for_signal(&set, 0, &of_nanoseconds(0))
}

/// Waits for a signal of `set`, all blocked ones, and takes it: its number (rt_sigtimedwait(2)).
pub fn sigwait(set: u64) -> Result<u32, Errno> {
    wait_for_signal(&set, 0, null())
}

/// sigaction(2) without a handler: `signal` is ignored, or does what it does by default. Whether it
/// was ignored before.
pub fn set_ignored(signal: u32, ignored: bool) -> Result<bool, Errno> {
    let mut old = [0; 4];
    action(signal, &[ignored.into(), 0, 0, 0], &mut old)?;
    Ok(old[0] == 1)
}

/// sched_setscheduler(2), for classes without a priority.
pub fn sched_setscheduler(thread: u32, class: u32) -> Result<(), Errno> {
    setscheduler(thread, class, &0)
}

/// execve(2): comes back only with the reason why not.
pub fn execve<S: AsRef<CStr>>(path: &CStr, arguments: &[S], environment: &[S]) -> Errno {
    let ended = |strings: &[S]| -> Vec<*const c_char> {
        let places = strings.iter().map(|string| string.as_ref().as_ptr());
        places.chain([null()]).collect()
    };
    let (arguments, environment) = (ended(arguments), ended(environment));
    let done = exec(path, arguments.as_ptr(), environment.as_ptr());
    done.err().unwrap_or(Errno::ENOEXEC)
}

/// nanosleep(2): what is left of the time when a signal came.
pub fn nanosleep(nanoseconds: u64) -> Result<(), Errno> {
    let time = of_nanoseconds(nanoseconds);
    sleep(&raw const time, core::ptr::null_mut())
}

fn of_nanoseconds(nanoseconds: u64) -> linux::timespec {
    linux::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    }
}

/// How many bytes a file may have that this process writes (RLIMIT_FSIZE); 0 where that is not
/// told.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: u32 = 1;
    getrlimit(RLIMIT_FSIZE).map_or(0, |[soft, _]| soft)
}

/// Whether a seccomp filter is in force (prctl(2), `PR_GET_SECCOMP`).
pub fn is_filtered() -> bool {
    number_option(linux_raw_sys::prctl::PR_GET_SECCOMP, 0) != Ok(0)
}

/// prctl(2), `PR_GET_SECUREBITS`.
pub fn securebits() -> Result<usize, Errno> {
    number_option(linux_raw_sys::prctl::PR_GET_SECUREBITS, 0)
}

/// prctl(2), `PR_GET_MDWE`: what may not become of memory (Linux 6.3).
pub fn denied_protections() -> Result<usize, Errno> {
    number_option(linux_raw_sys::prctl::PR_GET_MDWE, 0)
}

/// prctl(2), `PR_SET_NAME`: of this thread, cut to 15 bytes.
pub fn set_name(name: &CStr) -> Result<(), Errno> {
    number_option(linux_raw_sys::prctl::PR_SET_NAME, name.as_ptr() as usize).map(drop)
}

/// wait4(2) of child `id`, whose status nobody wants: waits.
pub fn reap(id: u32, options: u32) -> Result<u32, Errno> {
    wait4(id, 0, options, 0)
}

/// What the auxiliary vector says of `kind` (getauxval(3)).
pub fn auxiliary(kind: usize) -> Option<usize> {
    let [value] = auxiliaries([kind]);
    value
}

/// Where the kernel has put the auxiliary vector, as long as that is known.
static VECTOR: AtomicPtr<[usize; 2]> = AtomicPtr::new(core::ptr::null_mut());

/// The auxiliary vector is not asked for, but read on the stack, as long as this lives.
pub struct Auxiliary(());

impl Auxiliary {
    /// It lies at `vector`.
    ///
    /// # Safety
    /// It does, and nobody changes it meanwhile.
    pub unsafe fn at(vector: *const [usize; 2]) -> Self {
        VECTOR.store(vector.cast_mut(), Relaxed);
        Self(())
    }
}

impl Drop for Auxiliary {
    fn drop(&mut self) {
        VECTOR.store(core::ptr::null_mut(), Relaxed);
    }
}

/// What the auxiliary vector at `vector` says of `kind`.
///
/// # Safety
/// Pairs, of which AT_NULL is the last.
pub unsafe fn find_auxiliary(vector: *const [usize; 2], kind: usize) -> Option<usize> {
    const AT_NULL: usize = 0;
    (0..)
        // SAFETY: the caller's promise.
        .map(|i| unsafe { *vector.add(i) })
        .take_while(|[found, _]| *found != AT_NULL)
        .find_map(|[found, value]| (found == kind).then_some(value))
}

/// What the auxiliary vector says of each of `kinds`, which is read once.
pub fn auxiliaries<const N: usize>(kinds: [usize; N]) -> [Option<usize>; N] {
    let known = VECTOR.load(Relaxed);
    if !known.is_null() {
        // SAFETY: the promise of who has stored it.
        return kinds.map(|kind| unsafe { find_auxiliary(known, kind) });
    }
    const PR_GET_AUXV: u32 = 0x4155_5856; // Linux 6.4
    let mut vector = [[0usize; 2]; 64];
    let bytes = vector.bytes_mut();
    let read = vector_into(PR_GET_AUXV, bytes.as_mut_ptr(), bytes.len()).or_else(|_| {
        let file = crate::fs::open(c"/proc/self/auxv", crate::flags::OFlags::CLOEXEC, 0)?;
        crate::fs::read(&file, bytes)
    });
    let known = read.map_or(0, |read| read / size_of::<[usize; 2]>());
    let known = vector.get(..known).unwrap_or(&vector);
    kinds.map(|kind| {
        let found = known.iter().find(|[found, _]| *found == kind)?;
        Some(found[1])
    })
}

/// What the machine has: the part of `struct sysinfo` that is asked for (sysinfo(2)).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SysInfo {
    uptime: [u64; 4],
    /// Bytes of memory.
    pub memory: u64,
    /// Memory of other kinds, free, shared and buffers.
    other: [u64; 3],
    /// Bytes of swap space, in all.
    pub swap: u64,
    rest: [u64; 5],
}

// SAFETY: integers.
unsafe impl Plain for SysInfo {}

/// sysinfo(2).
pub fn sysinfo() -> Result<SysInfo, Errno> {
    filled(sysinfo_into)
}

/// How many page faults of this process needed no input (`ru_minflt`, getrusage(2)).
pub fn minor_faults() -> Result<u64, Errno> {
    const SELF: u32 = 0;
    const MINOR: usize = 8;
    let used: [u64; 18] = filled(|into| usage_into(SELF, into))?;
    Ok(used[MINOR])
}

/// exit_group(2).
pub fn exit_group(status: i32) -> ! {
    loop {
        let _ = end(status);
    }
}

/// The same calls where they wait: other threads may fork meanwhile ([`crate::waits`]).
pub mod waiting {
    use super::*;

    calls! { waiting:
        fn sleep(time: *const linux::timespec, left: *mut linux::timespec) -> ()
            = NANOSLEEP[time, left];
        /// poll(2); the time in milliseconds, none for -1.
        pub fn poll(waited: &mut [linux::pollfd], time: i32) -> usize
            = POLL[waited.as_mut_ptr(), waited.len(), time];
    }

    /// nanosleep(2): how many of the nanoseconds have passed.
    pub fn nanosleep(nanoseconds: u64) -> u64 {
        let mut left = of_nanoseconds(nanoseconds);
        let place = &raw mut left;
        // Both arguments may be one structure.
        match sleep(place, place) {
            Err(Errno::EINTR) => {
                let left = left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64;
                nanoseconds.saturating_sub(left)
            }
            _ => nanoseconds,
        }
    }
}
