//! What happens to every system call of x86-64: the one table from which calls are dispatched and
//! `docs/system-calls.md` is made.

use crate::process::Process;
use crate::rings::{self, Dispatch};
use crate::syscalls;
use crate::syscalls::arguments::At;
use culvert::Errno;
use culvert_intercept::{Call, Interest, Outcome};
use culvert_mounts::resolver::LastStep;
use culvert_sys::nr;

// Flags that say what happens to a link at the end of a path (man pages of their calls).
const AT_SYMLINK_NOFOLLOW: usize = 0x100;
const FAN_MARK_DONT_FOLLOW: usize = 4;
const FSPICK_SYMLINK_NOFOLLOW: usize = 2;
const MOVE_MOUNT_T_SYMLINKS: usize = 0x10;

/// What answers a call.
pub type Handler = fn(&Process, &mut Call) -> Outcome;

/// What happens to a call.
#[derive(Clone, Copy)]
pub enum Treatment {
    /// A function answers it, when the interest says so; what has nothing to do with a mount it
    /// hands to the kernel.
    Handled(Interest, Handler),
    /// A function answers it, which has other calls answered in the same way.
    Submits(fn(&Process, &mut Call, Dispatch) -> Outcome),
    /// The interception engine needs it for itself, for this purpose.
    Engine(&'static str),
    /// The kernel gets it, for this reason.
    Forwarded(&'static str),
    /// It fails with this errno when its path is in a mount, for this reason; else the kernel gets
    /// it.
    RefusedInside(At, Errno, &'static str),
    /// It fails with this errno when argument 0 is a descriptor of ours, for this reason; else the
    /// kernel gets it.
    RefusedOn(Errno, &'static str),
}

/// One line of the table.
pub struct Row {
    /// The number.
    pub number: usize,
    /// The name of its man page.
    pub name: &'static str,
    /// What happens.
    pub treatment: Treatment,
}

macro_rules! table {
    ($($constant:ident $name:ident => $treatment:ident $arguments:tt;)*) => {
        /// All system calls, in the order of their numbers.
        pub static TABLE: &[Row] = &[$(Row { number: nr::$constant, name: stringify!($name), treatment: table!(@ $treatment $arguments) },)*];
    };
    (@ Handled ($interest:expr, $function:expr)) => { Treatment::Handled($interest, $function) };
    (@ Submits ($function:expr)) => { Treatment::Submits($function) };
    (@ Engine ($why:expr)) => { Treatment::Engine($why) };
    (@ Forwarded ($why:expr)) => { Treatment::Forwarded($why) };
    (@ RefusedInside ($at:expr, $errno:expr, $why:expr)) => { Treatment::RefusedInside($at, $errno, $why) };
    (@ RefusedOn ($errno:expr, $why:expr)) => { Treatment::RefusedOn($errno, $why) };
}

table! {
    READ read => Handled(Interest::Descriptor0, syscalls::io::read);
    WRITE write => Handled(Interest::Descriptor0, syscalls::io::write);
    OPEN open => Handled(Interest::Always, syscalls::open::open);
    CLOSE close => Handled(Interest::Descriptor0, syscalls::descriptor::close);
    STAT stat => Handled(Interest::Always, syscalls::stat::stat);
    FSTAT fstat => Handled(Interest::Always, syscalls::stat::fstat);
    LSTAT lstat => Handled(Interest::Always, syscalls::stat::lstat);
    POLL poll => Handled(Interest::Always, syscalls::mount_tables::poll);
    LSEEK lseek => Handled(Interest::Descriptor0, syscalls::seek::lseek);
    MMAP mmap => Handled(Interest::Always, rings::mmap);
    MPROTECT mprotect => Handled(Interest::Always, syscalls::mappings::mprotect);
    MUNMAP munmap => Handled(Interest::Always, syscalls::mappings::munmap);
    BRK brk => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    RT_SIGACTION rt_sigaction => Engine("signals are virtualised; forwarded with the real mask");
    RT_SIGPROCMASK rt_sigprocmask => Engine("signals are virtualised; forwarded with the real mask");
    RT_SIGRETURN rt_sigreturn => Engine("signals are virtualised; forwarded with the real mask");
    IOCTL ioctl => Handled(Interest::Always, syscalls::descriptor_arguments::ioctl);
    PREAD64 pread64 => Handled(Interest::Descriptor0, syscalls::io::pread64);
    PWRITE64 pwrite64 => Handled(Interest::Descriptor0, syscalls::io::pwrite64);
    READV readv => Handled(Interest::Descriptor0, syscalls::io::readv);
    WRITEV writev => Handled(Interest::Descriptor0, syscalls::io::writev);
    ACCESS access => Handled(Interest::Always, syscalls::access::access);
    PIPE pipe => Forwarded("makes a descriptor of the kernel's own");
    SELECT select => Forwarded("a private descriptor is a regular memfd, a shared one its shadow: both poll as regular files do");
    SCHED_YIELD sched_yield => Forwarded("processes, threads and signals are the kernel's");
    MREMAP mremap => Handled(Interest::Always, syscalls::mappings::mremap);
    MSYNC msync => Handled(Interest::Always, syscalls::mappings::msync);
    MINCORE mincore => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MADVISE madvise => Handled(Interest::Always, syscalls::advice::madvise);
    SHMGET shmget => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    SHMAT shmat => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    SHMCTL shmctl => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    DUP dup => Handled(Interest::Descriptor0, syscalls::descriptor::dup);
    DUP2 dup2 => Handled(Interest::Always, syscalls::descriptor::dup_to);
    PAUSE pause => Forwarded("processes, threads and signals are the kernel's");
    NANOSLEEP nanosleep => Forwarded("processes, threads and signals are the kernel's");
    GETITIMER getitimer => Forwarded("reads credentials, limits, times or the system's state");
    ALARM alarm => Forwarded("reads credentials, limits, times or the system's state");
    SETITIMER setitimer => Forwarded("reads credentials, limits, times or the system's state");
    GETPID getpid => Forwarded("processes, threads and signals are the kernel's");
    SENDFILE sendfile => Handled(Interest::Descriptors01, syscalls::transfer::sendfile);
    SOCKET socket => Forwarded("makes a descriptor of the kernel's own");
    CONNECT connect => Handled(Interest::Always, syscalls::socket_paths::connect_path);
    ACCEPT accept => Handled(Interest::Always, syscalls::unix_sockets::with_peer);
    SENDTO sendto => Handled(Interest::Always, syscalls::socket_paths::sendto);
    RECVFROM recvfrom => Handled(Interest::Always, syscalls::unix_sockets::with_peer);
    SENDMSG sendmsg => Handled(Interest::Always, syscalls::socket::sendmsg);
    RECVMSG recvmsg => Handled(Interest::Always, syscalls::socket::recvmsg);
    SHUTDOWN shutdown => Forwarded("sockets are the kernel's");
    BIND bind => Handled(Interest::Always, syscalls::socket_paths::bind_path);
    LISTEN listen => Forwarded("sockets are the kernel's");
    GETSOCKNAME getsockname => Handled(Interest::Always, syscalls::unix_sockets::socket_name);
    GETPEERNAME getpeername => Handled(Interest::Always, syscalls::unix_sockets::socket_name);
    SOCKETPAIR socketpair => Forwarded("makes a descriptor of the kernel's own");
    SETSOCKOPT setsockopt => Forwarded("sockets are the kernel's");
    GETSOCKOPT getsockopt => Forwarded("sockets are the kernel's");
    CLONE clone => Engine("executed by the engine on the untouched stack; descriptions are promoted before");
    FORK fork => Engine("executed by the engine on the untouched stack; descriptions are promoted before");
    VFORK vfork => Engine("executed by the engine on the untouched stack; descriptions are promoted before");
    EXECVE execve => Handled(Interest::Always, syscalls::process::execve);
    EXIT exit => Handled(Interest::Always, syscalls::process::exit);
    WAIT4 wait4 => Forwarded("processes, threads and signals are the kernel's");
    KILL kill => Forwarded("processes, threads and signals are the kernel's");
    UNAME uname => Forwarded("reads credentials, limits, times or the system's state");
    SEMGET semget => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    SEMOP semop => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    SEMCTL semctl => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    SHMDT shmdt => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MSGGET msgget => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MSGSND msgsnd => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MSGRCV msgrcv => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MSGCTL msgctl => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    FCNTL fcntl => Handled(Interest::Descriptor0, syscalls::descriptor::fcntl);
    FLOCK flock => Handled(Interest::Descriptor0, syscalls::locks::flock);
    FSYNC fsync => Handled(Interest::Descriptor0, syscalls::file::sync);
    FDATASYNC fdatasync => Handled(Interest::Descriptor0, syscalls::file::sync);
    TRUNCATE truncate => Handled(Interest::Always, syscalls::attributes::truncate);
    FTRUNCATE ftruncate => Handled(Interest::Descriptor0, syscalls::file::ftruncate);
    GETDENTS getdents => Handled(Interest::Always, syscalls::directory::getdents);
    GETCWD getcwd => Handled(Interest::Always, syscalls::cwd::getcwd);
    CHDIR chdir => Handled(Interest::Always, syscalls::cwd::chdir);
    FCHDIR fchdir => Handled(Interest::Always, syscalls::cwd::fchdir);
    RENAME rename => Handled(Interest::Always, syscalls::two_paths::rename);
    MKDIR mkdir => Handled(Interest::Always, syscalls::changes::mkdir);
    RMDIR rmdir => Handled(Interest::Always, syscalls::changes::rmdir);
    CREAT creat => Handled(Interest::Always, syscalls::open::creat);
    LINK link => Handled(Interest::Always, syscalls::two_paths::link);
    UNLINK unlink => Handled(Interest::Always, syscalls::changes::unlink);
    SYMLINK symlink => Handled(Interest::Always, syscalls::changes::symlink);
    READLINK readlink => Handled(Interest::Always, syscalls::stat::readlink);
    CHMOD chmod => Handled(Interest::Always, syscalls::attributes::chmod);
    FCHMOD fchmod => Handled(Interest::Descriptor0, syscalls::attributes::fchmod);
    CHOWN chown => Handled(Interest::Always, syscalls::attributes::chown);
    FCHOWN fchown => Handled(Interest::Descriptor0, syscalls::attributes::fchown);
    LCHOWN lchown => Handled(Interest::Always, syscalls::attributes::lchown);
    UMASK umask => Handled(Interest::Always, syscalls::process::umask);
    GETTIMEOFDAY gettimeofday => Forwarded("reads credentials, limits, times or the system's state");
    GETRLIMIT getrlimit => Forwarded("reads credentials, limits, times or the system's state");
    GETRUSAGE getrusage => Forwarded("reads credentials, limits, times or the system's state");
    SYSINFO sysinfo => Forwarded("reads credentials, limits, times or the system's state");
    TIMES times => Forwarded("reads credentials, limits, times or the system's state");
    PTRACE ptrace => Forwarded("processes, threads and signals are the kernel's");
    GETUID getuid => Forwarded("reads credentials, limits, times or the system's state");
    SYSLOG syslog => Forwarded("reads credentials, limits, times or the system's state");
    GETGID getgid => Forwarded("reads credentials, limits, times or the system's state");
    SETUID setuid => Handled(Interest::Always, syscalls::credentials::changes);
    SETGID setgid => Handled(Interest::Always, syscalls::credentials::changes);
    GETEUID geteuid => Forwarded("reads credentials, limits, times or the system's state");
    GETEGID getegid => Forwarded("reads credentials, limits, times or the system's state");
    SETPGID setpgid => Forwarded("processes, threads and signals are the kernel's");
    GETPPID getppid => Forwarded("processes, threads and signals are the kernel's");
    GETPGRP getpgrp => Forwarded("processes, threads and signals are the kernel's");
    SETSID setsid => Forwarded("processes, threads and signals are the kernel's");
    SETREUID setreuid => Handled(Interest::Always, syscalls::credentials::changes);
    SETREGID setregid => Handled(Interest::Always, syscalls::credentials::changes);
    GETGROUPS getgroups => Forwarded("reads credentials, limits, times or the system's state");
    SETGROUPS setgroups => Handled(Interest::Always, syscalls::credentials::changes);
    SETRESUID setresuid => Handled(Interest::Always, syscalls::credentials::changes);
    GETRESUID getresuid => Forwarded("reads credentials, limits, times or the system's state");
    SETRESGID setresgid => Handled(Interest::Always, syscalls::credentials::changes);
    GETRESGID getresgid => Forwarded("reads credentials, limits, times or the system's state");
    GETPGID getpgid => Forwarded("processes, threads and signals are the kernel's");
    SETFSUID setfsuid => Handled(Interest::Always, syscalls::credentials::changes);
    SETFSGID setfsgid => Handled(Interest::Always, syscalls::credentials::changes);
    GETSID getsid => Forwarded("processes, threads and signals are the kernel's");
    CAPGET capget => Forwarded("processes, threads and signals are the kernel's");
    CAPSET capset => Handled(Interest::Always, syscalls::credentials::changes);
    RT_SIGPENDING rt_sigpending => Forwarded("processes, threads and signals are the kernel's");
    RT_SIGTIMEDWAIT rt_sigtimedwait => Engine("signals are virtualised; forwarded with the real mask");
    RT_SIGQUEUEINFO rt_sigqueueinfo => Forwarded("processes, threads and signals are the kernel's");
    RT_SIGSUSPEND rt_sigsuspend => Engine("signals are virtualised; forwarded with the real mask");
    SIGALTSTACK sigaltstack => Engine("signals are virtualised; forwarded with the real mask");
    UTIME utime => Handled(Interest::Always, syscalls::attributes::old_times);
    MKNOD mknod => Handled(Interest::Always, syscalls::changes::mknod);
    USELIB uselib => RefusedInside(At::new(0, LastStep::Follow), Errno::ENOSYS, "obsolete");
    PERSONALITY personality => Forwarded("processes, threads and signals are the kernel's");
    USTAT ustat => Forwarded("whole file systems of the kernel; a mount has nothing of its own to write back");
    STATFS statfs => Handled(Interest::Always, syscalls::stat::statfs);
    FSTATFS fstatfs => Handled(Interest::Descriptor0, syscalls::stat::fstatfs);
    SYSFS sysfs => Forwarded("whole file systems of the kernel; a mount has nothing of its own to write back");
    GETPRIORITY getpriority => Forwarded("processes, threads and signals are the kernel's");
    SETPRIORITY setpriority => Forwarded("processes, threads and signals are the kernel's");
    SCHED_SETPARAM sched_setparam => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GETPARAM sched_getparam => Forwarded("processes, threads and signals are the kernel's");
    SCHED_SETSCHEDULER sched_setscheduler => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GETSCHEDULER sched_getscheduler => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GET_PRIORITY_MAX sched_get_priority_max => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GET_PRIORITY_MIN sched_get_priority_min => Forwarded("processes, threads and signals are the kernel's");
    SCHED_RR_GET_INTERVAL sched_rr_get_interval => Forwarded("processes, threads and signals are the kernel's");
    MLOCK mlock => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MUNLOCK munlock => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MLOCKALL mlockall => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MUNLOCKALL munlockall => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    VHANGUP vhangup => Forwarded("reads credentials, limits, times or the system's state");
    MODIFY_LDT modify_ldt => Forwarded("processes, threads and signals are the kernel's");
    PIVOT_ROOT pivot_root => Handled(Interest::Always, syscalls::cwd::pivot_root);
    SYSCTL _sysctl => Forwarded("never implemented or removed: the kernel says ENOSYS");
    PRCTL prctl => Handled(Interest::Always, syscalls::descriptor_arguments::prctl);
    ARCH_PRCTL arch_prctl => Engine("the GS base is ours while a call is answered");
    ADJTIMEX adjtimex => Forwarded("reads credentials, limits, times or the system's state");
    SETRLIMIT setrlimit => Handled(Interest::Always, syscalls::process::limits);
    CHROOT chroot => Handled(Interest::Always, syscalls::cwd::chroot);
    SYNC sync => Handled(Interest::Always, syscalls::file::sync_all);
    ACCT acct => RefusedInside(At::new(0, LastStep::Follow), Errno::EACCES, "accounting needs a kernel file");
    SETTIMEOFDAY settimeofday => Forwarded("reads credentials, limits, times or the system's state");
    MOUNT mount => Handled(Interest::Always, syscalls::mounting::mount);
    UMOUNT2 umount2 => Handled(Interest::Always, syscalls::mounting::umount);
    SWAPON swapon => RefusedInside(At::new(0, LastStep::Follow), Errno::EINVAL, "swap needs a kernel file");
    SWAPOFF swapoff => RefusedInside(At::new(0, LastStep::Follow), Errno::EINVAL, "swap needs a kernel file");
    REBOOT reboot => Forwarded("reads credentials, limits, times or the system's state");
    SETHOSTNAME sethostname => Forwarded("reads credentials, limits, times or the system's state");
    SETDOMAINNAME setdomainname => Forwarded("reads credentials, limits, times or the system's state");
    IOPL iopl => Forwarded("processes, threads and signals are the kernel's");
    IOPERM ioperm => Forwarded("processes, threads and signals are the kernel's");
    CREATE_MODULE create_module => Forwarded("never implemented or removed: the kernel says ENOSYS");
    INIT_MODULE init_module => Forwarded("kernel keys, modules and images");
    DELETE_MODULE delete_module => Forwarded("kernel keys, modules and images");
    GET_KERNEL_SYMS get_kernel_syms => Forwarded("never implemented or removed: the kernel says ENOSYS");
    QUERY_MODULE query_module => Forwarded("never implemented or removed: the kernel says ENOSYS");
    QUOTACTL quotactl => RefusedInside(At::new(1, LastStep::Follow), Errno::ENOTBLK, "quotas are for block devices");
    NFSSERVCTL nfsservctl => Forwarded("never implemented or removed: the kernel says ENOSYS");
    GETPMSG getpmsg => Forwarded("never implemented or removed: the kernel says ENOSYS");
    PUTPMSG putpmsg => Forwarded("never implemented or removed: the kernel says ENOSYS");
    AFS_SYSCALL afs_syscall => Forwarded("never implemented or removed: the kernel says ENOSYS");
    TUXCALL tuxcall => Forwarded("never implemented or removed: the kernel says ENOSYS");
    SECURITY security => Forwarded("never implemented or removed: the kernel says ENOSYS");
    GETTID gettid => Forwarded("processes, threads and signals are the kernel's");
    READAHEAD readahead => Handled(Interest::Descriptor0, syscalls::file::advice);
    SETXATTR setxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    LSETXATTR lsetxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    FSETXATTR fsetxattr => Handled(Interest::Descriptor0, syscalls::xattr::by_descriptor);
    GETXATTR getxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    LGETXATTR lgetxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    FGETXATTR fgetxattr => Handled(Interest::Descriptor0, syscalls::xattr::by_descriptor);
    LISTXATTR listxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    LLISTXATTR llistxattr => Handled(Interest::Always, syscalls::xattr::by_path);
    FLISTXATTR flistxattr => Handled(Interest::Descriptor0, syscalls::xattr::by_descriptor);
    REMOVEXATTR removexattr => Handled(Interest::Always, syscalls::xattr::by_path);
    LREMOVEXATTR lremovexattr => Handled(Interest::Always, syscalls::xattr::by_path);
    FREMOVEXATTR fremovexattr => Handled(Interest::Descriptor0, syscalls::xattr::by_descriptor);
    TKILL tkill => Forwarded("processes, threads and signals are the kernel's");
    TIME time => Forwarded("reads credentials, limits, times or the system's state");
    FUTEX futex => Forwarded("processes, threads and signals are the kernel's");
    SCHED_SETAFFINITY sched_setaffinity => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GETAFFINITY sched_getaffinity => Forwarded("processes, threads and signals are the kernel's");
    SET_THREAD_AREA set_thread_area => Forwarded("processes, threads and signals are the kernel's");
    IO_SETUP io_setup => Forwarded("asynchronous I/O contexts without files");
    IO_DESTROY io_destroy => Forwarded("asynchronous I/O contexts without files");
    IO_GETEVENTS io_getevents => Forwarded("asynchronous I/O contexts without files");
    IO_SUBMIT io_submit => Handled(Interest::Always, syscalls::aio::io_submit);
    IO_CANCEL io_cancel => Forwarded("asynchronous I/O contexts without files");
    GET_THREAD_AREA get_thread_area => Forwarded("processes, threads and signals are the kernel's");
    LOOKUP_DCOOKIE lookup_dcookie => Forwarded("never implemented or removed: the kernel says ENOSYS");
    EPOLL_CREATE epoll_create => Forwarded("makes a descriptor of the kernel's own");
    EPOLL_CTL_OLD epoll_ctl_old => Forwarded("a private descriptor is a regular memfd, a shared one its shadow: both poll as regular files do");
    EPOLL_WAIT_OLD epoll_wait_old => Forwarded("a private descriptor is a regular memfd, a shared one its shadow: both poll as regular files do");
    REMAP_FILE_PAGES remap_file_pages => Handled(Interest::Always, syscalls::mappings::remap_file_pages);
    GETDENTS64 getdents64 => Handled(Interest::Always, syscalls::directory::getdents);
    SET_TID_ADDRESS set_tid_address => Forwarded("processes, threads and signals are the kernel's");
    RESTART_SYSCALL restart_syscall => Forwarded("processes, threads and signals are the kernel's");
    SEMTIMEDOP semtimedop => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    FADVISE64 fadvise64 => Handled(Interest::Descriptor0, syscalls::file::advice);
    TIMER_CREATE timer_create => Forwarded("reads credentials, limits, times or the system's state");
    TIMER_SETTIME timer_settime => Forwarded("reads credentials, limits, times or the system's state");
    TIMER_GETTIME timer_gettime => Forwarded("reads credentials, limits, times or the system's state");
    TIMER_GETOVERRUN timer_getoverrun => Forwarded("reads credentials, limits, times or the system's state");
    TIMER_DELETE timer_delete => Forwarded("reads credentials, limits, times or the system's state");
    CLOCK_SETTIME clock_settime => Forwarded("reads credentials, limits, times or the system's state");
    CLOCK_GETTIME clock_gettime => Forwarded("reads credentials, limits, times or the system's state");
    CLOCK_GETRES clock_getres => Forwarded("reads credentials, limits, times or the system's state");
    CLOCK_NANOSLEEP clock_nanosleep => Forwarded("reads credentials, limits, times or the system's state");
    EXIT_GROUP exit_group => Handled(Interest::Always, syscalls::process::exit_group);
    EPOLL_WAIT epoll_wait => Forwarded("a private descriptor is a regular memfd, a shared one its shadow: both poll as regular files do");
    EPOLL_CTL epoll_ctl => Handled(Interest::Always, syscalls::mount_tables::epoll_ctl);
    TGKILL tgkill => Forwarded("processes, threads and signals are the kernel's");
    UTIMES utimes => Handled(Interest::Always, syscalls::attributes::old_times);
    VSERVER vserver => Forwarded("never implemented or removed: the kernel says ENOSYS");
    MBIND mbind => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    SET_MEMPOLICY set_mempolicy => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    GET_MEMPOLICY get_mempolicy => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MQ_OPEN mq_open => Forwarded("makes a descriptor of the kernel's own");
    MQ_UNLINK mq_unlink => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MQ_TIMEDSEND mq_timedsend => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MQ_TIMEDRECEIVE mq_timedreceive => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MQ_NOTIFY mq_notify => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    MQ_GETSETATTR mq_getsetattr => Forwarded("System V and POSIX queues, shared memory and semaphores have no paths");
    KEXEC_LOAD kexec_load => Forwarded("kernel keys, modules and images");
    WAITID waitid => Forwarded("processes, threads and signals are the kernel's");
    ADD_KEY add_key => Forwarded("kernel keys, modules and images");
    REQUEST_KEY request_key => Forwarded("kernel keys, modules and images");
    KEYCTL keyctl => Forwarded("kernel keys, modules and images");
    IOPRIO_SET ioprio_set => Forwarded("processes, threads and signals are the kernel's");
    IOPRIO_GET ioprio_get => Forwarded("processes, threads and signals are the kernel's");
    INOTIFY_INIT inotify_init => Forwarded("makes a descriptor of the kernel's own");
    INOTIFY_ADD_WATCH inotify_add_watch => Handled(Interest::Always, syscalls::access::inotify_add_watch);
    INOTIFY_RM_WATCH inotify_rm_watch => Forwarded("a watch descriptor belongs to its inotify descriptor");
    MIGRATE_PAGES migrate_pages => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    OPENAT openat => Handled(Interest::Always, syscalls::open::openat);
    MKDIRAT mkdirat => Handled(Interest::Always, syscalls::changes::mkdir);
    MKNODAT mknodat => Handled(Interest::Always, syscalls::changes::mknod);
    FCHOWNAT fchownat => Handled(Interest::Always, syscalls::attributes::fchownat);
    FUTIMESAT futimesat => Handled(Interest::Always, syscalls::attributes::old_times);
    NEWFSTATAT newfstatat => Handled(Interest::Always, syscalls::stat::newfstatat);
    UNLINKAT unlinkat => Handled(Interest::Always, syscalls::changes::unlinkat);
    RENAMEAT renameat => Handled(Interest::Always, syscalls::two_paths::rename);
    LINKAT linkat => Handled(Interest::Always, syscalls::two_paths::link);
    SYMLINKAT symlinkat => Handled(Interest::Always, syscalls::changes::symlink);
    READLINKAT readlinkat => Handled(Interest::Always, syscalls::stat::readlinkat);
    FCHMODAT fchmodat => Handled(Interest::Always, syscalls::attributes::fchmodat);
    FACCESSAT faccessat => Handled(Interest::Always, syscalls::access::faccessat);
    PSELECT6 pselect6 => Engine("signals are virtualised; forwarded with the real mask");
    PPOLL ppoll => Engine("signals are virtualised; forwarded with the real mask");
    UNSHARE unshare => Handled(Interest::Always, syscalls::process::unshare);
    SET_ROBUST_LIST set_robust_list => Forwarded("processes, threads and signals are the kernel's");
    GET_ROBUST_LIST get_robust_list => Forwarded("processes, threads and signals are the kernel's");
    SPLICE splice => Handled(Interest::Descriptors02, syscalls::transfer::splice);
    TEE tee => Handled(Interest::Descriptors01, syscalls::transfer::only_pipes);
    SYNC_FILE_RANGE sync_file_range => Handled(Interest::Descriptor0, syscalls::file::sync);
    VMSPLICE vmsplice => Handled(Interest::Descriptor0, syscalls::transfer::only_pipes);
    MOVE_PAGES move_pages => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    UTIMENSAT utimensat => Handled(Interest::Always, syscalls::attributes::utimensat);
    EPOLL_PWAIT epoll_pwait => Engine("signals are virtualised; forwarded with the real mask");
    SIGNALFD signalfd => Engine("signals are virtualised; forwarded with the real mask");
    TIMERFD_CREATE timerfd_create => Forwarded("makes a descriptor of the kernel's own");
    EVENTFD eventfd => Forwarded("makes a descriptor of the kernel's own");
    FALLOCATE fallocate => Handled(Interest::Descriptor0, syscalls::file::fallocate);
    TIMERFD_SETTIME timerfd_settime => Forwarded("reads credentials, limits, times or the system's state");
    TIMERFD_GETTIME timerfd_gettime => Forwarded("reads credentials, limits, times or the system's state");
    ACCEPT4 accept4 => Handled(Interest::Always, syscalls::unix_sockets::with_peer);
    SIGNALFD4 signalfd4 => Engine("signals are virtualised; forwarded with the real mask");
    EVENTFD2 eventfd2 => Forwarded("makes a descriptor of the kernel's own");
    EPOLL_CREATE1 epoll_create1 => Forwarded("makes a descriptor of the kernel's own");
    DUP3 dup3 => Handled(Interest::Always, syscalls::descriptor::dup_to);
    PIPE2 pipe2 => Forwarded("makes a descriptor of the kernel's own");
    INOTIFY_INIT1 inotify_init1 => Forwarded("makes a descriptor of the kernel's own");
    PREADV preadv => Handled(Interest::Descriptor0, syscalls::io::preadv);
    PWRITEV pwritev => Handled(Interest::Descriptor0, syscalls::io::pwritev);
    RT_TGSIGQUEUEINFO rt_tgsigqueueinfo => Forwarded("processes, threads and signals are the kernel's");
    PERF_EVENT_OPEN perf_event_open => Forwarded("makes a descriptor of the kernel's own");
    RECVMMSG recvmmsg => Handled(Interest::Always, syscalls::socket::recvmmsg);
    FANOTIFY_INIT fanotify_init => Forwarded("makes a descriptor of the kernel's own");
    FANOTIFY_MARK fanotify_mark => RefusedInside(At::below(3, LastStep::Follow).turned_by(1, FAN_MARK_DONT_FOLLOW), Errno::EOPNOTSUPP, "events of a mount do not reach the kernel");
    PRLIMIT64 prlimit64 => Handled(Interest::Always, syscalls::process::limits);
    NAME_TO_HANDLE_AT name_to_handle_at => Handled(Interest::Always, syscalls::stat::name_to_handle_at);
    OPEN_BY_HANDLE_AT open_by_handle_at => RefusedOn(Errno::ESTALE, "handles are none of a mount's");
    CLOCK_ADJTIME clock_adjtime => Forwarded("reads credentials, limits, times or the system's state");
    SYNCFS syncfs => Handled(Interest::Descriptor0, syscalls::file::sync);
    SENDMMSG sendmmsg => Handled(Interest::Always, syscalls::socket::sendmmsg);
    SETNS setns => Handled(Interest::Always, syscalls::credentials::setns);
    GETCPU getcpu => Forwarded("processes, threads and signals are the kernel's");
    PROCESS_VM_READV process_vm_readv => Forwarded("processes, threads and signals are the kernel's");
    PROCESS_VM_WRITEV process_vm_writev => Forwarded("processes, threads and signals are the kernel's");
    KCMP kcmp => Handled(Interest::Always, syscalls::descriptor::kcmp);
    FINIT_MODULE finit_module => RefusedOn(Errno::ENOEXEC, "modules are for the kernel");
    SCHED_SETATTR sched_setattr => Forwarded("processes, threads and signals are the kernel's");
    SCHED_GETATTR sched_getattr => Forwarded("processes, threads and signals are the kernel's");
    RENAMEAT2 renameat2 => Handled(Interest::Always, syscalls::two_paths::rename);
    SECCOMP seccomp => Handled(Interest::Always, syscalls::credentials::confine);
    GETRANDOM getrandom => Forwarded("reads credentials, limits, times or the system's state");
    MEMFD_CREATE memfd_create => Forwarded("makes a descriptor of the kernel's own");
    KEXEC_FILE_LOAD kexec_file_load => Handled(Interest::Descriptors01, syscalls::descriptor_arguments::kexec_file_load);
    BPF bpf => Forwarded("makes a descriptor of the kernel's own");
    EXECVEAT execveat => Handled(Interest::Always, syscalls::process::execveat);
    USERFAULTFD userfaultfd => Forwarded("makes a descriptor of the kernel's own");
    MEMBARRIER membarrier => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    MLOCK2 mlock2 => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    COPY_FILE_RANGE copy_file_range => Handled(Interest::Descriptors02, syscalls::transfer::copy_file_range);
    PREADV2 preadv2 => Handled(Interest::Descriptor0, syscalls::io::preadv2);
    PWRITEV2 pwritev2 => Handled(Interest::Descriptor0, syscalls::io::pwritev2);
    PKEY_MPROTECT pkey_mprotect => Handled(Interest::Always, syscalls::mappings::mprotect);
    PKEY_ALLOC pkey_alloc => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    PKEY_FREE pkey_free => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    STATX statx => Handled(Interest::Always, syscalls::stat::statx);
    IO_PGETEVENTS io_pgetevents => Forwarded("asynchronous I/O contexts without files");
    RSEQ rseq => Forwarded("processes, threads and signals are the kernel's");
    PIDFD_SEND_SIGNAL pidfd_send_signal => Forwarded("processes, threads and signals are the kernel's");
    IO_URING_SETUP io_uring_setup => Handled(Interest::Always, rings::setup);
    IO_URING_ENTER io_uring_enter => Submits(rings::enter);
    IO_URING_REGISTER io_uring_register => Handled(Interest::Always, rings::register);
    OPEN_TREE open_tree => RefusedInside(At::below(0, LastStep::Follow).turned_by(2, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP, "no kernel mount to clone");
    MOVE_MOUNT move_mount => RefusedInside(At::below(2, LastStep::NoFollow).turned_by(4, MOVE_MOUNT_T_SYMLINKS), Errno::EOPNOTSUPP, "the kernel cannot mount on a mount of ours");
    FSOPEN fsopen => Forwarded("makes a descriptor of the kernel's own");
    FSCONFIG fsconfig => Handled(Interest::Always, syscalls::descriptor_arguments::fsconfig);
    FSMOUNT fsmount => Forwarded("makes a descriptor of the kernel's own");
    FSPICK fspick => RefusedInside(At::below(0, LastStep::Follow).turned_by(2, FSPICK_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP, "no kernel mount to configure");
    PIDFD_OPEN pidfd_open => Forwarded("makes a descriptor of the kernel's own");
    CLONE3 clone3 => Engine("executed by the engine on the untouched stack; descriptions are promoted before");
    CLOSE_RANGE close_range => Handled(Interest::Always, syscalls::descriptor::close_range);
    OPENAT2 openat2 => Handled(Interest::Always, syscalls::open::openat2);
    PIDFD_GETFD pidfd_getfd => Handled(Interest::Always, syscalls::descriptor::pidfd_getfd);
    FACCESSAT2 faccessat2 => Handled(Interest::Always, syscalls::access::faccessat);
    PROCESS_MADVISE process_madvise => Handled(Interest::Always, syscalls::advice::process_madvise);
    EPOLL_PWAIT2 epoll_pwait2 => Engine("signals are virtualised; forwarded with the real mask");
    MOUNT_SETATTR mount_setattr => RefusedInside(At::below(0, LastStep::Follow).turned_by(2, AT_SYMLINK_NOFOLLOW), Errno::EINVAL, "no kernel mount to change");
    QUOTACTL_FD quotactl_fd => RefusedOn(Errno::ENOSYS, "no quotas on mounts");
    LANDLOCK_CREATE_RULESET landlock_create_ruleset => Forwarded("makes a descriptor of the kernel's own");
    LANDLOCK_ADD_RULE landlock_add_rule => Forwarded("processes, threads and signals are the kernel's");
    LANDLOCK_RESTRICT_SELF landlock_restrict_self => Forwarded("processes, threads and signals are the kernel's");
    MEMFD_SECRET memfd_secret => Forwarded("makes a descriptor of the kernel's own");
    PROCESS_MRELEASE process_mrelease => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    FUTEX_WAITV futex_waitv => Forwarded("processes, threads and signals are the kernel's");
    SET_MEMPOLICY_HOME_NODE set_mempolicy_home_node => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    CACHESTAT cachestat => RefusedOn(Errno::EOPNOTSUPP, "the page cache does not hold our files");
    FCHMODAT2 fchmodat2 => Handled(Interest::Always, syscalls::attributes::fchmodat);
    MAP_SHADOW_STACK map_shadow_stack => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    FUTEX_WAKE futex_wake => Forwarded("processes, threads and signals are the kernel's");
    FUTEX_WAIT futex_wait => Forwarded("processes, threads and signals are the kernel's");
    FUTEX_REQUEUE futex_requeue => Forwarded("processes, threads and signals are the kernel's");
    STATMOUNT statmount => Forwarded("whole file systems of the kernel; a mount has nothing of its own to write back");
    LISTMOUNT listmount => Forwarded("whole file systems of the kernel; a mount has nothing of its own to write back");
    LSM_GET_SELF_ATTR lsm_get_self_attr => Forwarded("processes, threads and signals are the kernel's");
    LSM_SET_SELF_ATTR lsm_set_self_attr => Forwarded("processes, threads and signals are the kernel's");
    LSM_LIST_MODULES lsm_list_modules => Forwarded("processes, threads and signals are the kernel's");
    MSEAL mseal => Forwarded("memory that is mapped is the kernel's, mapped files are shadows");
    SETXATTRAT setxattrat => Handled(Interest::Always, syscalls::xattr::at);
    GETXATTRAT getxattrat => Handled(Interest::Always, syscalls::xattr::at);
    LISTXATTRAT listxattrat => Handled(Interest::Always, syscalls::xattr::at);
    REMOVEXATTRAT removexattrat => Handled(Interest::Always, syscalls::xattr::at);
    OPEN_TREE_ATTR open_tree_attr => RefusedInside(At::below(0, LastStep::Follow).turned_by(2, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP, "no kernel mount to clone");
    FILE_GETATTR file_getattr => RefusedInside(At::below(0, LastStep::Follow).turned_by(4, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP, "no inode flags");
    FILE_SETATTR file_setattr => RefusedInside(At::below(0, LastStep::Follow).turned_by(4, AT_SYMLINK_NOFOLLOW), Errno::EOPNOTSUPP, "no inode flags");
}

/// The table as a page of documentation (Markdown).
pub fn document() -> alloc::string::String {
    use core::fmt::Write;
    let mut page = alloc::string::String::from(
        "# System calls\n\nWhat happens to each system call of x86-64 in a program under `culvert run`. Generated from `crates/culvert-preload/src/table.rs`; do not edit.\n\n| number | call | what happens |\n|---|---|---|\n",
    );
    for row in TABLE {
        let _ = match row.treatment {
            Treatment::Handled(Interest::Always, _) | Treatment::Submits(_) => {
                writeln!(page, "| {} | {} | handled |", row.number, row.name)
            }
            Treatment::Handled(..) => writeln!(
                page,
                "| {} | {} | handled on descriptors of mounts |",
                row.number, row.name
            ),
            Treatment::Engine(why) => {
                writeln!(page, "| {} | {} | engine: {why} |", row.number, row.name)
            }
            Treatment::Forwarded(why) => {
                writeln!(page, "| {} | {} | forwarded: {why} |", row.number, row.name)
            }
            Treatment::RefusedInside(_, errno, why) => writeln!(
                page,
                "| {} | {} | on paths of mounts refused with {}: {why} |",
                row.number,
                row.name,
                errno.name()
            ),
            Treatment::RefusedOn(errno, why) => writeln!(
                page,
                "| {} | {} | on descriptors of mounts refused with {}: {why} |",
                row.number,
                row.name,
                errno.name()
            ),
        };
    }
    page
}

#[cfg(test)]
mod tests;
