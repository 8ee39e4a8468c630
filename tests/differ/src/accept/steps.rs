//! Steps that are left out of programs on some mounts, on both sides: their result is the file
//! system's own affair.

use crate::program::Step;

/// A kind of step that is left out, and where.
pub struct LeftOut {
    /// The operations; none: any.
    operations: &'static [&'static str],
    /// What one of the step's words must contain, any of these; none: any step.
    words: &'static [&'static str],
    /// Parts of the specifications of the mounts.
    mounts: &'static [&'static str],
    /// Why that is right.
    #[expect(dead_code, reason = "for readers of the table")]
    why: &'static str,
}

impl LeftOut {
    /// Whether `step` is left out on the mount of this `specification`.
    pub fn is(&self, step: &Step, specification: &str) -> bool {
        let none_or = |list: &[&str], holds: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|one| holds(one))
        };
        self.mounts.iter().any(|part| specification.contains(part))
            && none_or(self.operations, &|operation| {
                step.words.iter().any(|word| word == operation)
            })
            && none_or(self.words, &|part| {
                step.words.iter().any(|word| word.contains(part))
            })
    }
}

const BESIDE_BINDFS: &str = "beside=bindfs";
const BESIDE_MERGERFS: &str = "beside=mergerfs";
const BESIDE_BOTH: &[&str] = &[BESIDE_BINDFS, BESIDE_MERGERFS];
const OPENS: &[&str] = &["open", "openat", "openat2"];

/// On a mount of a log, a child of vfork(2), or a process that shares a table of descriptors, gets
/// ENOLCK: record locks are those of a file of the container that the process itself has open.
pub const KEEPS_LOCK_FILES: &str = "type=plfs";

/// The whole list.
pub const LEFT_OUT: &[LeftOut] = &[
    // What a driver has not, or has otherwise than the file system that it is compared with.
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_WHITEOUT"],
        mounts: &["type=union"],
        why: "a union makes no whiteouts: each of its branches is a whole tree by itself",
    },
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_WHITEOUT"],
        mounts: &["type=overlay"],
        why: "whiteouts are its own: the kernel's overlayfs refuses to make one, too",
    },
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_EXCHANGE"],
        mounts: &["category.create=rand"],
        why: "exchanged are names of one branch (docs/drivers/union.md)",
    },
    LeftOut {
        operations: &["link", "linkat"],
        words: &[],
        mounts: &["type=plfs"],
        why: "a file is a directory, which has one name",
    },
    LeftOut {
        operations: &["lock"],
        words: &["vfork"],
        mounts: &[KEEPS_LOCK_FILES],
        why: "ENOLCK in a child of vfork(2)",
    },
    LeftOut {
        operations: &["mknod"],
        words: &["S_IFIFO", "S_IFSOCK", "S_IFCHR"],
        mounts: &["type=plfs"],
        why: "there are files, directories and symbolic links alone",
    },
    LeftOut {
        operations: &["bind", "connect"],
        words: &[],
        mounts: &["type=plfs"],
        why: "the same",
    },
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_WHITEOUT"],
        mounts: &["type=plfs"],
        why: "the same: a whiteout is a device",
    },
    LeftOut {
        operations: &["readlink"],
        words: &["/proc/self/fd"],
        mounts: &["type=plfs"],
        why: "what was removed has another name there, or that which this process knows",
    },
    LeftOut {
        operations: &["lseek"],
        words: &["SEEK_DATA", "SEEK_HOLE"],
        mounts: &["type=plfs"],
        why: "a log knows holes to the byte, tmpfs those of whole pages",
    },
    LeftOut {
        operations: &["fallocate"],
        words: &[],
        mounts: &["type=plfs"],
        why: "a log sets no space aside, and has no holes to punch",
    },
    LeftOut {
        operations: OPENS,
        words: &["O_TMPFILE"],
        mounts: &["type=plfs"],
        why: "a file without a name could get none later: a directory has no second name",
    },
    LeftOut {
        operations: &["setxattr", "getxattr", "lgetxattr", "removexattr"],
        words: &["trusted."],
        mounts: &["type=plfs"],
        why: "attributes of files are the user's alone",
    },
    LeftOut {
        operations: &["setxattr"],
        words: &["security."],
        mounts: &["type=plfs"],
        why: "the same",
    },
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_EXCHANGE"],
        mounts: &["type=plfs,source={tree};"],
        why: "parts of two files would change places on several back ends at one moment",
    },
    LeftOut {
        operations: &["listxattr", "flistxattr"],
        words: &[],
        mounts: &["type=sdcard"],
        why: "where nothing has extended attributes the kernel says so itself (`vfs_listxattr`, an \
            empty list), and of a server it is not known until it is asked (EOPNOTSUPP)",
    },
    LeftOut {
        operations: &["openat2"],
        words: &["RESOLVE_BENEATH", "RESOLVE_IN_ROOT"],
        mounts: &["type=fuse."],
        why: "the kernel ends such a walk with EAGAIN at a `..` where anything was renamed \
            meanwhile, anywhere (openat2(2)), and each step of it is a request",
    },
    LeftOut {
        operations: &["fallocate"],
        words: &["ZERO_RANGE"],
        mounts: &["type=memory"],
        why: "tmpfs cannot zero a range, memory can",
    },
    LeftOut {
        operations: &["times"],
        words: &[],
        mounts: &["type=memory"],
        why: "memory moves times of access of files alone (relatime), not of directories and \
            links (as with nodiratime, mount(8))",
    },
    LeftOut {
        operations: &["preadv2", "pwritev2"],
        words: &["RWF_NOWAIT"],
        mounts: &["type=memory", "type=plfs", "driven", ",kernel"],
        why: "whether a call can be done without waiting is the file system's own affair: tmpfs \
            refuses to say",
    },
    LeftOut {
        operations: &["write", "pwrite", "writev"],
        words: &["bad", "edge:0"],
        mounts: &["type=memory", "type=plfs", "driven", "beside="],
        why: "a write past the end that fails with EFAULT lengthens the file to the offset where \
            the kernel's page cache takes it (tmpfs, ext4); a driver has been given nothing then. \
            EFAULT is none of POSIX's errors",
    },
    LeftOut {
        operations: &["setfl"],
        words: &["O_DIRECT"],
        mounts: &["type=memory", "type=plfs", "driven"],
        why: "O_DIRECT means nothing to a driver, and of a description that several processes \
            have each has its own (culvert-preload, description/flags.rs)",
    },
    LeftOut {
        operations: &["poll"],
        words: &["#1023"],
        mounts: &["target="],
        why: "poll is the kernel's alone: one of the numbers that Culvert holds, the highest \
            below 1024, is ready there, and not POLLNVAL (docs/SEMANTICS.md)",
    },
    // What a kernel mount has otherwise.
    LeftOut {
        operations: &["fallocate"],
        words: &["COLLAPSE_RANGE", "INSERT_RANGE"],
        mounts: &[",kernel"],
        why: "of what fallocate can do FUSE passes on sizes, holes and zeroes only \
            (`fuse_file_fallocate`, fs/fuse/file.c)",
    },
    LeftOut {
        operations: &["lseek"],
        words: &["9223372036854775807"],
        mounts: &[",kernel"],
        why: "the largest offset is a disk's own; a kernel mount has that of the protocol, the \
            largest there is",
    },
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_WHITEOUT"],
        mounts: &[",kernel"],
        why: "a kernel mount has no devices (nodev), where an open of a whiteout is EACCES and \
            not ENXIO",
    },
    LeftOut {
        operations: &["openat2"],
        words: &["RESOLVE_CACHED"],
        mounts: &[",kernel"],
        why: "what is cached of names is the file system's own affair",
    },
    LeftOut {
        operations: &["clone"],
        words: &[],
        mounts: &[",kernel"],
        why: "what lies beside a kernel mount is on another file system, and natively on the same, \
            which is asked before anything else (`vfs_clone_file_range`, fs/remap_range.c)",
    },
    // What the originals have otherwise.
    LeftOut {
        operations: &["renameat2"],
        words: &["RENAME_"],
        mounts: BESIDE_BOTH,
        why: "bindfs on libfuse 2, and mergerfs 2.33, have no flags of rename: EINVAL",
    },
    LeftOut {
        operations: OPENS,
        words: &["O_TMPFILE"],
        mounts: BESIDE_BOTH,
        why: "they make no files without a name: EOPNOTSUPP",
    },
    LeftOut {
        operations: &["fallocate"],
        words: &[],
        mounts: &[BESIDE_BINDFS],
        why: "bindfs allocates nothing",
    },
    LeftOut {
        operations: &["lseek"],
        words: &["SEEK_DATA", "SEEK_HOLE"],
        mounts: BESIDE_BOTH,
        why: "they know of no holes",
    },
    LeftOut {
        operations: &["setfl"],
        words: &[],
        mounts: BESIDE_BOTH,
        why: "their server's descriptor keeps the flags that it was opened with, O_APPEND among \
            them",
    },
    LeftOut {
        operations: &["times"],
        words: &[],
        mounts: BESIDE_BOTH,
        why: "their server reads and writes, at other moments than the program",
    },
    LeftOut {
        operations: &["linkat"],
        words: &["AT_EMPTY_PATH", "/proc/self/fd"],
        mounts: BESIDE_BOTH,
        why: "what was removed has a name there as long as it is open",
    },
    LeftOut {
        operations: &["open"],
        words: &["/proc/self/fd"],
        mounts: &[BESIDE_MERGERFS],
        why: "the same",
    },
    LeftOut {
        operations: &["mapwrite"],
        words: &[],
        mounts: BESIDE_BOTH,
        why: "what is stored into a mapping of a file that was opened with O_APPEND their server \
            appends",
    },
    LeftOut {
        operations: &["chdir"],
        words: &["d", "k", "e"],
        mounts: &["beside="],
        why: "who works in a directory that was removed gets ENOENT or ESTALE from them",
    },
    LeftOut {
        operations: &["fchdir"],
        words: &[],
        mounts: &["beside="],
        why: "the same",
    },
    LeftOut {
        operations: &[],
        words: &[":256}"],
        mounts: &[BESIDE_MERGERFS],
        why: "a name that is too long is ENOENT there, as on no branch",
    },
];
