//! What happens to every system call of x86-64: the one table from which calls are dispatched. A
//! call that has no row, since it is newer than the table, is the kernel's.

use crate::answer::Answer;
use crate::fuse_server;
use crate::process::Process;
use crate::rings::{self, Dispatch};
use crate::syscalls::arguments::At;
use crate::syscalls::{
    access, advice, aio, attributes, changes, credentials, cwd, descriptor, descriptor_arguments,
    directory, file, io, locks, mappings, mounting, open, polling, process, seek, socket,
    socket_paths, stat, transfer, two_paths, unix_sockets, xattr,
};
use crate::vfs::native::AT_SYMLINK_NOFOLLOW;
use Interest::{Always, Bytes0, Bytes01, Bytes02, Descriptor0};
use Treatment::{Forwarded, Handled, RefusedInside, RefusedOn, Submits};
use culvert::Errno;
use culvert_intercept::{Call, Interest, Outcome};
use culvert_mounts::resolver::LastStep;
use culvert_sys::raw::general::*;

/// What answers a call.
pub type Handler = fn(&Process, &mut Call) -> Answer;

/// What answers a call that has others answered.
pub type Submitter = fn(&Process, &mut Call, Dispatch) -> Outcome;

/// What happens to a call.
#[derive(Clone, Copy)]
pub enum Treatment {
    /// A function answers it, when the interest says so; what has nothing to do with a mount it
    /// hands to the kernel.
    Handled(Interest, Handler),
    /// A function answers it, which has other calls answered in the same way.
    Submits(Submitter),
    /// The kernel gets it, perhaps through the interception engine.
    Forwarded,
    /// It fails with this errno when its path is in a mount; else the kernel gets it.
    RefusedInside(At, Errno),
    /// It fails with this errno when argument 0 is a descriptor of ours; else the kernel gets it.
    RefusedOn(Errno),
}

/// The engine executes it on the untouched stack; descriptions are promoted before.
const CLONES: Treatment = Forwarded;
/// The engine virtualises signals, and forwards with the real mask.
const SIGNALS: Treatment = Forwarded;
/// The GS base is the engine's while a call is answered.
const GS_BASE: Treatment = Forwarded;
/// System V and POSIX queues, shared memory and semaphores have no paths.
const QUEUES: Treatment = Forwarded;
/// The old calls of epoll(7), which the kernel does not have.
const OLD_POLLED: Treatment = Forwarded;
/// A watch descriptor belongs to its inotify descriptor.
const WATCHES: Treatment = Forwarded;
/// Asynchronous I/O contexts without files.
const CONTEXTS: Treatment = Forwarded;
/// Kernel keys, modules and images.
const KERNEL: Treatment = Forwarded;
/// It makes a descriptor of the kernel's own.
const FOREIGN: Treatment = Forwarded;
/// Memory that is mapped is the kernel's, mapped files are shadows.
const MEMORY: Treatment = Forwarded;
/// Never implemented or removed: the kernel says ENOSYS.
const NO_CALL: Treatment = Forwarded;
/// Processes, threads and signals are the kernel's.
const PROCESSES: Treatment = Forwarded;
/// It reads or sets credentials, limits, times or the system's state.
const STATE: Treatment = Forwarded;
/// Sockets are the kernel's.
const SOCKETS: Treatment = Forwarded;
/// Whole file systems of the kernel; a mount has nothing of its own to write back.
const FILE_SYSTEMS: Treatment = Forwarded;

/// The path in this argument, in which links are followed.
const fn path(argument: usize) -> At {
    At::new(argument, LastStep::Follow)
}

/// The path below the descriptor in argument `directory`, in which links are followed unless `bit`
/// is in argument `flags`.
const fn below(directory: usize, flags: usize, bit: usize) -> At {
    At::below(directory, LastStep::Follow).turned_by(flags, bit)
}

/// FAN_MARK_DONT_FOLLOW of fanotify_mark(2).
const FAN_MARK_DONT_FOLLOW: usize = 4;

/// All system calls, in the order of their numbers.
pub const TABLE: &[(u32, Treatment)] = &[
    (__NR_read, Handled(Bytes0, io::read::<__NR_read>)),
    (__NR_write, Handled(Bytes0, io::write::<__NR_write>)),
    (__NR_open, Handled(Always, open::open)),
    (__NR_close, Handled(Descriptor0, descriptor::close)),
    (__NR_stat, Handled(Always, stat::stat)),
    (__NR_fstat, Handled(Always, stat::fstat)),
    (__NR_lstat, Handled(Always, stat::stat)),
    (__NR_poll, Handled(Always, polling::poll)),
    (__NR_lseek, Handled(Bytes0, seek::lseek)),
    (__NR_mmap, Handled(Always, rings::mmap)),
    (__NR_mprotect, Handled(Always, mappings::mprotect)),
    (__NR_munmap, Handled(Always, mappings::munmap)),
    (__NR_brk, MEMORY),
    (__NR_rt_sigaction, SIGNALS),
    (__NR_rt_sigprocmask, SIGNALS),
    (__NR_rt_sigreturn, SIGNALS),
    (__NR_ioctl, Handled(Always, descriptor_arguments::ioctl)),
    (__NR_pread64, Handled(Bytes0, io::read::<__NR_pread64>)),
    (__NR_pwrite64, Handled(Bytes0, io::write::<__NR_pwrite64>)),
    (__NR_readv, Handled(Bytes0, io::read::<__NR_readv>)),
    (__NR_writev, Handled(Bytes0, io::write::<__NR_writev>)),
    (__NR_access, Handled(Always, access::access)),
    (__NR_pipe, FOREIGN),
    (__NR_select, Handled(Always, polling::select)),
    (__NR_sched_yield, PROCESSES),
    (__NR_mremap, Handled(Always, mappings::mremap)),
    (__NR_msync, Handled(Always, mappings::msync)),
    (__NR_mincore, MEMORY),
    (__NR_madvise, Handled(Always, advice::madvise)),
    (__NR_shmget, QUEUES),
    (__NR_shmat, QUEUES),
    (__NR_shmctl, QUEUES),
    (__NR_dup, Handled(Descriptor0, descriptor::dup)),
    (__NR_dup2, Handled(Always, descriptor::dup_to)),
    (__NR_pause, PROCESSES),
    (__NR_nanosleep, PROCESSES),
    (__NR_getitimer, STATE),
    (__NR_alarm, STATE),
    (__NR_setitimer, STATE),
    (__NR_getpid, PROCESSES),
    (__NR_sendfile, Handled(Bytes01, transfer::sendfile)),
    (__NR_socket, FOREIGN),
    (__NR_connect, Handled(Always, socket_paths::connect_path)),
    (__NR_accept, Handled(Always, unix_sockets::with_peer)),
    (__NR_sendto, Handled(Always, socket_paths::sendto)),
    (__NR_recvfrom, Handled(Always, unix_sockets::with_peer)),
    (__NR_sendmsg, Handled(Always, socket::sendmsg)),
    (__NR_recvmsg, Handled(Always, socket::recvmsg)),
    (__NR_shutdown, SOCKETS),
    (__NR_bind, Handled(Always, socket_paths::bind_path)),
    (__NR_listen, SOCKETS),
    (__NR_getsockname, Handled(Always, unix_sockets::socket_name)),
    (__NR_getpeername, Handled(Always, unix_sockets::socket_name)),
    (__NR_socketpair, FOREIGN),
    (__NR_setsockopt, SOCKETS),
    (__NR_getsockopt, SOCKETS),
    (__NR_clone, CLONES),
    (__NR_fork, CLONES),
    (__NR_vfork, CLONES),
    (__NR_execve, Handled(Always, process::execve)),
    (__NR_exit, Handled(Always, process::exit)),
    (__NR_wait4, PROCESSES),
    (__NR_kill, PROCESSES),
    (__NR_uname, STATE),
    (__NR_semget, QUEUES),
    (__NR_semop, QUEUES),
    (__NR_semctl, QUEUES),
    (__NR_shmdt, QUEUES),
    (__NR_msgget, QUEUES),
    (__NR_msgsnd, QUEUES),
    (__NR_msgrcv, QUEUES),
    (__NR_msgctl, QUEUES),
    (__NR_fcntl, Handled(Descriptor0, descriptor::fcntl)),
    (__NR_flock, Handled(Descriptor0, locks::flock)),
    (__NR_fsync, Handled(Descriptor0, file::sync)),
    (__NR_fdatasync, Handled(Descriptor0, file::sync)),
    (__NR_truncate, Handled(Always, attributes::truncate)),
    (__NR_ftruncate, Handled(Descriptor0, file::ftruncate)),
    (__NR_getdents, Handled(Always, directory::getdents)),
    (__NR_getcwd, Handled(Always, cwd::getcwd)),
    (__NR_chdir, Handled(Always, cwd::chdir)),
    (__NR_fchdir, Handled(Always, cwd::fchdir)),
    (__NR_rename, Handled(Always, two_paths::rename)),
    (__NR_mkdir, Handled(Always, changes::mkdir)),
    (__NR_rmdir, Handled(Always, changes::unlink)),
    (__NR_creat, Handled(Always, open::open)),
    (__NR_link, Handled(Always, two_paths::link)),
    (__NR_unlink, Handled(Always, changes::unlink)),
    (__NR_symlink, Handled(Always, changes::symlink)),
    (__NR_readlink, Handled(Always, stat::readlink)),
    (__NR_chmod, Handled(Always, attributes::chmod)),
    (__NR_fchmod, Handled(Descriptor0, attributes::fchmod)),
    (__NR_chown, Handled(Always, attributes::chown)),
    (__NR_fchown, Handled(Descriptor0, attributes::fchown)),
    (__NR_lchown, Handled(Always, attributes::chown)),
    (__NR_umask, Handled(Always, process::umask)),
    (__NR_gettimeofday, STATE),
    (__NR_getrlimit, STATE),
    (__NR_getrusage, STATE),
    (__NR_sysinfo, STATE),
    (__NR_times, STATE),
    (__NR_ptrace, PROCESSES),
    (__NR_getuid, STATE),
    (__NR_syslog, STATE),
    (__NR_getgid, STATE),
    (__NR_setuid, Handled(Always, credentials::changes)),
    (__NR_setgid, Handled(Always, credentials::changes)),
    (__NR_geteuid, STATE),
    (__NR_getegid, STATE),
    (__NR_setpgid, PROCESSES),
    (__NR_getppid, PROCESSES),
    (__NR_getpgrp, PROCESSES),
    (__NR_setsid, PROCESSES),
    (__NR_setreuid, Handled(Always, credentials::changes)),
    (__NR_setregid, Handled(Always, credentials::changes)),
    (__NR_getgroups, STATE),
    (__NR_setgroups, Handled(Always, credentials::changes)),
    (__NR_setresuid, Handled(Always, credentials::changes)),
    (__NR_getresuid, STATE),
    (__NR_setresgid, Handled(Always, credentials::changes)),
    (__NR_getresgid, STATE),
    (__NR_getpgid, PROCESSES),
    (__NR_setfsuid, Handled(Always, credentials::changes)),
    (__NR_setfsgid, Handled(Always, credentials::changes)),
    (__NR_getsid, PROCESSES),
    (__NR_capget, PROCESSES),
    (__NR_capset, Handled(Always, credentials::changes)),
    (__NR_rt_sigpending, PROCESSES),
    (__NR_rt_sigtimedwait, SIGNALS),
    (__NR_rt_sigqueueinfo, PROCESSES),
    (__NR_rt_sigsuspend, SIGNALS),
    (__NR_sigaltstack, SIGNALS),
    (__NR_utime, Handled(Always, attributes::old_times)),
    (__NR_mknod, Handled(Always, changes::mknod)),
    // Obsolete.
    (__NR_uselib, RefusedInside(path(0), Errno::ENOSYS)),
    (__NR_personality, PROCESSES),
    (__NR_ustat, FILE_SYSTEMS),
    (__NR_statfs, Handled(Always, stat::statfs)),
    (__NR_fstatfs, Handled(Descriptor0, stat::fstatfs)),
    (__NR_sysfs, FILE_SYSTEMS),
    (__NR_getpriority, PROCESSES),
    (__NR_setpriority, PROCESSES),
    (__NR_sched_setparam, PROCESSES),
    (__NR_sched_getparam, PROCESSES),
    (__NR_sched_setscheduler, PROCESSES),
    (__NR_sched_getscheduler, PROCESSES),
    (__NR_sched_get_priority_max, PROCESSES),
    (__NR_sched_get_priority_min, PROCESSES),
    (__NR_sched_rr_get_interval, PROCESSES),
    (__NR_mlock, MEMORY),
    (__NR_munlock, MEMORY),
    (__NR_mlockall, MEMORY),
    (__NR_munlockall, MEMORY),
    (__NR_vhangup, STATE),
    (__NR_modify_ldt, PROCESSES),
    (__NR_pivot_root, Handled(Always, cwd::pivot_root)),
    (__NR__sysctl, NO_CALL),
    (__NR_prctl, Handled(Always, descriptor_arguments::prctl)),
    (__NR_arch_prctl, GS_BASE),
    (__NR_adjtimex, STATE),
    (__NR_setrlimit, Handled(Always, process::limits)),
    (__NR_chroot, Handled(Always, cwd::chroot)),
    (__NR_sync, Handled(Always, file::sync_all)),
    // Accounting needs a kernel file.
    (__NR_acct, RefusedInside(path(0), Errno::EACCES)),
    (__NR_settimeofday, STATE),
    (__NR_mount, Handled(Always, mounting::mount)),
    (__NR_umount2, Handled(Always, mounting::umount)),
    // Swap needs a kernel file.
    (__NR_swapon, RefusedInside(path(0), Errno::EINVAL)),
    // Swap needs a kernel file.
    (__NR_swapoff, RefusedInside(path(0), Errno::EINVAL)),
    (__NR_reboot, STATE),
    (__NR_sethostname, STATE),
    (__NR_setdomainname, STATE),
    (__NR_iopl, PROCESSES),
    (__NR_ioperm, PROCESSES),
    (__NR_create_module, NO_CALL),
    (__NR_init_module, KERNEL),
    (__NR_delete_module, KERNEL),
    (__NR_get_kernel_syms, NO_CALL),
    (__NR_query_module, NO_CALL),
    // Quotas are for block devices.
    (__NR_quotactl, RefusedInside(path(1), Errno::ENOTBLK)),
    (__NR_nfsservctl, NO_CALL),
    (__NR_getpmsg, NO_CALL),
    (__NR_putpmsg, NO_CALL),
    (__NR_afs_syscall, NO_CALL),
    (__NR_tuxcall, NO_CALL),
    (__NR_security, NO_CALL),
    (__NR_gettid, PROCESSES),
    (__NR_readahead, Handled(Bytes0, file::advice)),
    (__NR_setxattr, Handled(Always, xattr::by_path)),
    (__NR_lsetxattr, Handled(Always, xattr::by_path)),
    (__NR_fsetxattr, Handled(Descriptor0, xattr::by_descriptor)),
    (__NR_getxattr, Handled(Always, xattr::by_path)),
    (__NR_lgetxattr, Handled(Always, xattr::by_path)),
    (__NR_fgetxattr, Handled(Descriptor0, xattr::by_descriptor)),
    (__NR_listxattr, Handled(Always, xattr::by_path)),
    (__NR_llistxattr, Handled(Always, xattr::by_path)),
    (__NR_flistxattr, Handled(Descriptor0, xattr::by_descriptor)),
    (__NR_removexattr, Handled(Always, xattr::by_path)),
    (__NR_lremovexattr, Handled(Always, xattr::by_path)),
    (
        __NR_fremovexattr,
        Handled(Descriptor0, xattr::by_descriptor),
    ),
    (__NR_tkill, PROCESSES),
    (__NR_time, STATE),
    (__NR_futex, PROCESSES),
    (
        __NR_sched_setaffinity,
        Handled(Always, fuse_server::processors::set),
    ),
    (
        __NR_sched_getaffinity,
        Handled(Always, fuse_server::processors::get),
    ),
    (__NR_set_thread_area, PROCESSES),
    (__NR_io_setup, CONTEXTS),
    (__NR_io_destroy, CONTEXTS),
    (__NR_io_getevents, CONTEXTS),
    (__NR_io_submit, Handled(Always, aio::io_submit)),
    (__NR_io_cancel, CONTEXTS),
    (__NR_get_thread_area, PROCESSES),
    (__NR_lookup_dcookie, NO_CALL),
    (__NR_epoll_create, FOREIGN),
    (__NR_epoll_ctl_old, OLD_POLLED),
    (__NR_epoll_wait_old, OLD_POLLED),
    (
        __NR_remap_file_pages,
        Handled(Always, mappings::remap_file_pages),
    ),
    (__NR_getdents64, Handled(Always, directory::getdents)),
    (__NR_set_tid_address, PROCESSES),
    (__NR_restart_syscall, PROCESSES),
    (__NR_semtimedop, QUEUES),
    (__NR_fadvise64, Handled(Bytes0, file::advice)),
    (__NR_timer_create, STATE),
    (__NR_timer_settime, STATE),
    (__NR_timer_gettime, STATE),
    (__NR_timer_getoverrun, STATE),
    (__NR_timer_delete, STATE),
    (__NR_clock_settime, STATE),
    (__NR_clock_gettime, STATE),
    (__NR_clock_getres, STATE),
    (__NR_clock_nanosleep, STATE),
    (__NR_exit_group, Handled(Always, process::exit_group)),
    (__NR_epoll_wait, Handled(Descriptor0, polling::epoll_wait)),
    (__NR_epoll_ctl, Handled(Always, polling::epoll_ctl)),
    (__NR_tgkill, PROCESSES),
    (__NR_utimes, Handled(Always, attributes::old_times)),
    (__NR_vserver, NO_CALL),
    (__NR_mbind, MEMORY),
    (__NR_set_mempolicy, MEMORY),
    (__NR_get_mempolicy, MEMORY),
    (__NR_mq_open, FOREIGN),
    (__NR_mq_unlink, QUEUES),
    (__NR_mq_timedsend, QUEUES),
    (__NR_mq_timedreceive, QUEUES),
    (__NR_mq_notify, QUEUES),
    (__NR_mq_getsetattr, QUEUES),
    (__NR_kexec_load, KERNEL),
    (__NR_waitid, PROCESSES),
    (__NR_add_key, KERNEL),
    (__NR_request_key, KERNEL),
    (__NR_keyctl, KERNEL),
    (__NR_ioprio_set, PROCESSES),
    (__NR_ioprio_get, PROCESSES),
    (__NR_inotify_init, FOREIGN),
    (
        __NR_inotify_add_watch,
        Handled(Always, access::inotify_add_watch),
    ),
    (__NR_inotify_rm_watch, WATCHES),
    (__NR_migrate_pages, MEMORY),
    (__NR_openat, Handled(Always, open::open)),
    (__NR_mkdirat, Handled(Always, changes::mkdir)),
    (__NR_mknodat, Handled(Always, changes::mknod)),
    (__NR_fchownat, Handled(Always, attributes::fchownat)),
    (__NR_futimesat, Handled(Always, attributes::old_times)),
    (__NR_newfstatat, Handled(Always, stat::newfstatat)),
    (__NR_unlinkat, Handled(Always, changes::unlink)),
    (__NR_renameat, Handled(Always, two_paths::rename)),
    (__NR_linkat, Handled(Always, two_paths::link)),
    (__NR_symlinkat, Handled(Always, changes::symlink)),
    (__NR_readlinkat, Handled(Always, stat::readlink)),
    (__NR_fchmodat, Handled(Always, attributes::fchmodat)),
    (__NR_faccessat, Handled(Always, access::faccessat)),
    (__NR_pselect6, Handled(Always, polling::select)),
    (__NR_ppoll, Handled(Always, polling::ppoll)),
    (__NR_unshare, Handled(Always, process::unshare)),
    (__NR_set_robust_list, PROCESSES),
    (__NR_get_robust_list, PROCESSES),
    (__NR_splice, Handled(Bytes02, transfer::splice)),
    (__NR_tee, Handled(Bytes01, transfer::only_pipes)),
    (__NR_sync_file_range, Handled(Bytes0, file::sync)),
    (__NR_vmsplice, Handled(Bytes0, transfer::only_pipes)),
    (__NR_move_pages, MEMORY),
    (__NR_utimensat, Handled(Always, attributes::utimensat)),
    (__NR_epoll_pwait, Handled(Always, polling::epoll_wait)),
    (__NR_signalfd, SIGNALS),
    (__NR_timerfd_create, FOREIGN),
    (__NR_eventfd, FOREIGN),
    (__NR_fallocate, Handled(Bytes0, file::fallocate)),
    (__NR_timerfd_settime, STATE),
    (__NR_timerfd_gettime, STATE),
    (__NR_accept4, Handled(Always, unix_sockets::with_peer)),
    (__NR_signalfd4, SIGNALS),
    (__NR_eventfd2, FOREIGN),
    (__NR_epoll_create1, FOREIGN),
    (__NR_dup3, Handled(Always, descriptor::dup_to)),
    (__NR_pipe2, FOREIGN),
    (__NR_inotify_init1, FOREIGN),
    (__NR_preadv, Handled(Bytes0, io::read::<__NR_preadv>)),
    (__NR_pwritev, Handled(Bytes0, io::write::<__NR_pwritev>)),
    (__NR_rt_tgsigqueueinfo, PROCESSES),
    (__NR_perf_event_open, FOREIGN),
    (__NR_recvmmsg, Handled(Always, socket::recvmmsg)),
    (__NR_fanotify_init, FOREIGN),
    // Events of a mount do not reach the kernel.
    (
        __NR_fanotify_mark,
        RefusedInside(below(3, 1, FAN_MARK_DONT_FOLLOW), Errno::EOPNOTSUPP),
    ),
    (__NR_prlimit64, Handled(Always, process::limits)),
    (
        __NR_name_to_handle_at,
        Handled(Always, stat::name_to_handle_at),
    ),
    // Handles are none of a mount's.
    (__NR_open_by_handle_at, RefusedOn(Errno::ESTALE)),
    (__NR_clock_adjtime, STATE),
    (__NR_syncfs, Handled(Descriptor0, file::sync)),
    (__NR_sendmmsg, Handled(Always, socket::sendmmsg)),
    (__NR_setns, Handled(Always, credentials::setns)),
    (__NR_getcpu, PROCESSES),
    (__NR_process_vm_readv, PROCESSES),
    (__NR_process_vm_writev, PROCESSES),
    (__NR_kcmp, Handled(Always, descriptor::kcmp)),
    // Modules are for the kernel.
    (__NR_finit_module, RefusedOn(Errno::ENOEXEC)),
    (__NR_sched_setattr, PROCESSES),
    (__NR_sched_getattr, PROCESSES),
    (__NR_renameat2, Handled(Always, two_paths::rename)),
    (__NR_seccomp, Handled(Always, credentials::confine)),
    (__NR_getrandom, STATE),
    (__NR_memfd_create, FOREIGN),
    (
        __NR_kexec_file_load,
        Handled(Bytes01, descriptor_arguments::kexec_file_load),
    ),
    (__NR_bpf, FOREIGN),
    (__NR_execveat, Handled(Always, process::execveat)),
    (__NR_userfaultfd, FOREIGN),
    (__NR_membarrier, MEMORY),
    (__NR_mlock2, MEMORY),
    (
        __NR_copy_file_range,
        Handled(Bytes02, transfer::copy_file_range),
    ),
    (__NR_preadv2, Handled(Bytes0, io::read::<__NR_preadv2>)),
    (__NR_pwritev2, Handled(Bytes0, io::write::<__NR_pwritev2>)),
    (__NR_pkey_mprotect, Handled(Always, mappings::mprotect)),
    (__NR_pkey_alloc, MEMORY),
    (__NR_pkey_free, MEMORY),
    (__NR_statx, Handled(Always, stat::statx)),
    (__NR_io_pgetevents, CONTEXTS),
    (__NR_rseq, PROCESSES),
    (__NR_pidfd_send_signal, PROCESSES),
    (__NR_io_uring_setup, Handled(Always, rings::setup)),
    (__NR_io_uring_enter, Submits(rings::enter)),
    (__NR_io_uring_register, Handled(Always, rings::register)),
    // No kernel mount to clone.
    (
        __NR_open_tree,
        RefusedInside(below(0, 2, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP),
    ),
    // The kernel cannot mount on a mount of ours.
    (__NR_move_mount, Handled(Always, mounting::move_mount)),
    (__NR_fsopen, FOREIGN),
    (
        __NR_fsconfig,
        Handled(Always, descriptor_arguments::fsconfig),
    ),
    (__NR_fsmount, FOREIGN),
    // No kernel mount to configure.
    (
        __NR_fspick,
        RefusedInside(
            below(0, 2, FSPICK_SYMLINK_NOFOLLOW as usize),
            Errno::EOPNOTSUPP,
        ),
    ),
    (__NR_pidfd_open, FOREIGN),
    (__NR_clone3, CLONES),
    (__NR_close_range, Handled(Always, descriptor::close_range)),
    (__NR_openat2, Handled(Always, open::openat2)),
    (__NR_pidfd_getfd, Handled(Always, descriptor::pidfd_getfd)),
    (__NR_faccessat2, Handled(Always, access::faccessat)),
    (
        __NR_process_madvise,
        Handled(Always, advice::process_madvise),
    ),
    (__NR_epoll_pwait2, Handled(Always, polling::epoll_wait)),
    // No kernel mount to change.
    (
        __NR_mount_setattr,
        RefusedInside(below(0, 2, AT_SYMLINK_NOFOLLOW), Errno::EINVAL),
    ),
    // No quotas on mounts.
    (__NR_quotactl_fd, RefusedOn(Errno::ENOSYS)),
    (__NR_landlock_create_ruleset, FOREIGN),
    (__NR_landlock_add_rule, PROCESSES),
    (__NR_landlock_restrict_self, PROCESSES),
    (__NR_memfd_secret, FOREIGN),
    (__NR_process_mrelease, MEMORY),
    (__NR_futex_waitv, PROCESSES),
    (__NR_set_mempolicy_home_node, MEMORY),
    // The page cache does not hold our files.
    (__NR_cachestat, RefusedOn(Errno::EOPNOTSUPP)),
    (__NR_fchmodat2, Handled(Always, attributes::fchmodat)),
    (__NR_map_shadow_stack, MEMORY),
    (__NR_futex_wake, PROCESSES),
    (__NR_futex_wait, PROCESSES),
    (__NR_futex_requeue, PROCESSES),
    (__NR_statmount, FILE_SYSTEMS),
    (__NR_listmount, FILE_SYSTEMS),
    (__NR_lsm_get_self_attr, PROCESSES),
    (__NR_lsm_set_self_attr, PROCESSES),
    (__NR_lsm_list_modules, PROCESSES),
    (__NR_mseal, MEMORY),
    (__NR_setxattrat, Handled(Always, xattr::at)),
    (__NR_getxattrat, Handled(Always, xattr::at)),
    (__NR_listxattrat, Handled(Always, xattr::at)),
    (__NR_removexattrat, Handled(Always, xattr::at)),
    // No kernel mount to clone.
    (
        __NR_open_tree_attr,
        RefusedInside(below(0, 2, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP),
    ),
    // No inode flags.
    (
        __NR_file_getattr,
        RefusedInside(below(0, 4, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP),
    ),
    // No inode flags.
    (
        __NR_file_setattr,
        RefusedInside(below(0, 4, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP),
    ),
];

#[cfg(test)]
mod tests;
