//! The numbers of the system calls that Culvert makes or tells apart, as `usize`; all numbers are
//! in [`crate::raw::general`].

macro_rules! numbers {
    ($($name:ident = $raw:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($raw), "`")]
            pub const $name: usize = linux_raw_sys::general::$raw as usize;
        )*
    };
}

numbers! {
    READ = __NR_read; WRITE = __NR_write; OPEN = __NR_open; CLOSE = __NR_close; STAT = __NR_stat;
    FSTAT = __NR_fstat; LSTAT = __NR_lstat; POLL = __NR_poll; LSEEK = __NR_lseek; MMAP = __NR_mmap;
    MPROTECT = __NR_mprotect; MUNMAP = __NR_munmap; BRK = __NR_brk;
    RT_SIGACTION = __NR_rt_sigaction; RT_SIGPROCMASK = __NR_rt_sigprocmask;
    RT_SIGRETURN = __NR_rt_sigreturn; IOCTL = __NR_ioctl; PREAD64 = __NR_pread64;
    PWRITE64 = __NR_pwrite64; READV = __NR_readv; WRITEV = __NR_writev; ACCESS = __NR_access;
    PIPE = __NR_pipe; SCHED_YIELD = __NR_sched_yield; MREMAP = __NR_mremap; MSYNC = __NR_msync;
    MINCORE = __NR_mincore; MADVISE = __NR_madvise; DUP = __NR_dup; DUP2 = __NR_dup2;
    NANOSLEEP = __NR_nanosleep; ALARM = __NR_alarm; GETPID = __NR_getpid; SOCKET = __NR_socket;
    CONNECT = __NR_connect; SENDTO = __NR_sendto; RECVFROM = __NR_recvfrom; SENDMSG = __NR_sendmsg;
    RECVMSG = __NR_recvmsg; BIND = __NR_bind; LISTEN = __NR_listen; SETSOCKOPT = __NR_setsockopt;
    GETSOCKOPT = __NR_getsockopt;
    CLONE = __NR_clone; FORK = __NR_fork; VFORK = __NR_vfork; EXECVE = __NR_execve;
    EXIT = __NR_exit; WAIT4 = __NR_wait4; KILL = __NR_kill; FCNTL = __NR_fcntl; FLOCK = __NR_flock;
    FSYNC = __NR_fsync; FDATASYNC = __NR_fdatasync; TRUNCATE = __NR_truncate;
    FTRUNCATE = __NR_ftruncate; GETDENTS = __NR_getdents; GETCWD = __NR_getcwd; CHDIR = __NR_chdir;
    FCHDIR = __NR_fchdir; RENAME = __NR_rename; MKDIR = __NR_mkdir; RMDIR = __NR_rmdir;
    CREAT = __NR_creat; LINK = __NR_link; UNLINK = __NR_unlink; SYMLINK = __NR_symlink;
    READLINK = __NR_readlink; CHMOD = __NR_chmod; FCHMOD = __NR_fchmod; CHOWN = __NR_chown;
    LCHOWN = __NR_lchown; UMASK = __NR_umask; GETRLIMIT = __NR_getrlimit; SYSINFO = __NR_sysinfo;
    GETRUSAGE = __NR_getrusage;
    PTRACE = __NR_ptrace; GETUID = __NR_getuid; GETGID = __NR_getgid; SETUID = __NR_setuid;
    GETEUID = __NR_geteuid; GETEGID = __NR_getegid; GETPPID = __NR_getppid; GETPGRP = __NR_getpgrp;
    SETSID = __NR_setsid; SETREUID = __NR_setreuid; GETGROUPS = __NR_getgroups;
    SETGROUPS = __NR_setgroups; SETRESUID = __NR_setresuid;
    GETRESUID = __NR_getresuid; SETFSUID = __NR_setfsuid;
    SETFSGID = __NR_setfsgid; CAPGET = __NR_capget; CAPSET = __NR_capset;
    RT_SIGPENDING = __NR_rt_sigpending; RT_SIGTIMEDWAIT = __NR_rt_sigtimedwait;
    RT_SIGSUSPEND = __NR_rt_sigsuspend; SIGALTSTACK = __NR_sigaltstack; UTIME = __NR_utime;
    MKNOD = __NR_mknod; STATFS = __NR_statfs; FSTATFS = __NR_fstatfs;
    SCHED_SETAFFINITY = __NR_sched_setaffinity; SCHED_GETAFFINITY = __NR_sched_getaffinity;
    SCHED_SETSCHEDULER = __NR_sched_setscheduler; SCHED_GETSCHEDULER = __NR_sched_getscheduler;
    PRCTL = __NR_prctl; ARCH_PRCTL = __NR_arch_prctl; SETRLIMIT = __NR_setrlimit;
    MOUNT = __NR_mount; UMOUNT2 = __NR_umount2; GETTID = __NR_gettid; READAHEAD = __NR_readahead;
    SETXATTR = __NR_setxattr; LSETXATTR = __NR_lsetxattr; FSETXATTR = __NR_fsetxattr;
    GETXATTR = __NR_getxattr; LGETXATTR = __NR_lgetxattr; FGETXATTR = __NR_fgetxattr;
    LISTXATTR = __NR_listxattr; LLISTXATTR = __NR_llistxattr; FLISTXATTR = __NR_flistxattr;
    REMOVEXATTR = __NR_removexattr; TKILL = __NR_tkill; FUTEX = __NR_futex;
    IO_SUBMIT = __NR_io_submit; GETDENTS64 = __NR_getdents64; FADVISE64 = __NR_fadvise64;
    TIMER_CREATE = __NR_timer_create; TIMER_SETTIME = __NR_timer_settime;
    CLOCK_GETTIME = __NR_clock_gettime; EXIT_GROUP = __NR_exit_group; EPOLL_WAIT = __NR_epoll_wait;
    EPOLL_CTL = __NR_epoll_ctl; TGKILL = __NR_tgkill; UTIMES = __NR_utimes;
    INOTIFY_ADD_WATCH = __NR_inotify_add_watch; INOTIFY_RM_WATCH = __NR_inotify_rm_watch;
    OPENAT = __NR_openat; MKDIRAT = __NR_mkdirat; MKNODAT = __NR_mknodat; FCHOWNAT = __NR_fchownat;
    FUTIMESAT = __NR_futimesat; NEWFSTATAT = __NR_newfstatat; UNLINKAT = __NR_unlinkat;
    RENAMEAT = __NR_renameat; LINKAT = __NR_linkat; SYMLINKAT = __NR_symlinkat;
    READLINKAT = __NR_readlinkat; FCHMODAT = __NR_fchmodat; FACCESSAT = __NR_faccessat;
    PSELECT6 = __NR_pselect6; PPOLL = __NR_ppoll; UNSHARE = __NR_unshare; SPLICE = __NR_splice;
    TEE = __NR_tee; SYNC_FILE_RANGE = __NR_sync_file_range; UTIMENSAT = __NR_utimensat;
    EPOLL_PWAIT = __NR_epoll_pwait; FALLOCATE = __NR_fallocate; ACCEPT4 = __NR_accept4;
    EPOLL_CREATE1 = __NR_epoll_create1; DUP3 = __NR_dup3; PIPE2 = __NR_pipe2;
    INOTIFY_INIT1 = __NR_inotify_init1; PREADV = __NR_preadv; PWRITEV = __NR_pwritev;
    RT_TGSIGQUEUEINFO = __NR_rt_tgsigqueueinfo; RECVMMSG = __NR_recvmmsg;
    PRLIMIT64 = __NR_prlimit64; NAME_TO_HANDLE_AT = __NR_name_to_handle_at;
    OPEN_BY_HANDLE_AT = __NR_open_by_handle_at; SYNCFS = __NR_syncfs; RENAMEAT2 = __NR_renameat2;
    SET_ROBUST_LIST = __NR_set_robust_list; GET_ROBUST_LIST = __NR_get_robust_list;
    SECCOMP = __NR_seccomp; GETRANDOM = __NR_getrandom; MEMFD_CREATE = __NR_memfd_create;
    BPF = __NR_bpf; EXECVEAT = __NR_execveat; MBIND = __NR_mbind;
    GET_MEMPOLICY = __NR_get_mempolicy; USERFAULTFD = __NR_userfaultfd; MEMBARRIER = __NR_membarrier;
    COPY_FILE_RANGE = __NR_copy_file_range; PREADV2 = __NR_preadv2; PWRITEV2 = __NR_pwritev2;
    PKEY_MPROTECT = __NR_pkey_mprotect; STATX = __NR_statx; OPEN_TREE = __NR_open_tree;
    PIDFD_SEND_SIGNAL = __NR_pidfd_send_signal; PIDFD_OPEN = __NR_pidfd_open;
    CLONE3 = __NR_clone3; CLOSE_RANGE = __NR_close_range;
    OPENAT2 = __NR_openat2; PIDFD_GETFD = __NR_pidfd_getfd; FACCESSAT2 = __NR_faccessat2;
    EPOLL_PWAIT2 = __NR_epoll_pwait2; MOUNT_SETATTR = __NR_mount_setattr;
    CACHESTAT = __NR_cachestat; FCHMODAT2 = __NR_fchmodat2; SETXATTRAT = __NR_setxattrat;
    GETXATTRAT = __NR_getxattrat; LISTXATTRAT = __NR_listxattrat;
}
