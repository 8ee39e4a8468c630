//! What may differ, and why: nothing else may.

use crate::mount::Mount;
use crate::program::{Program, Step};
use std::sync::OnceLock;

/// A difference that is none.
pub struct Accepted {
    /// The beginning of the words that are not compared.
    pub word: &'static str,
    /// Part of the mount's specification.
    pub driver: &'static str,
    /// Why that is right.
    pub why: &'static str,
}

/// The whole list. Numbers of devices and inodes, block counts and file-system types are not shown
/// by the executor at all: identity is shown by classes, in which the same file has the same class,
/// and times by relations.
pub const ACCEPTED: &[Accepted] = &[
    Accepted {
        word: "dsize=",
        driver: "type=memory",
        why: "POSIX gives the size of a directory no meaning; tmpfs counts 20 bytes a name",
    },
    Accepted {
        word: "dsize=",
        driver: "type=union",
        why: "the same: what is in a directory lies on several branches",
    },
    Accepted {
        word: "dsize=",
        driver: "type=plfs",
        why: "the same: files are directories of the back end",
    },
    Accepted {
        word: "nlink=",
        driver: "beside=bindfs",
        why: "what is removed while it is open has another name there (`.fuse_hidden`)",
    },
    Accepted {
        word: "dsize=",
        driver: "beside=bindfs",
        why: "it lies in the same directory",
    },
    Accepted {
        word: "id=",
        driver: "beside=mergerfs",
        why: "there a directory that is renamed has another number",
    },
];

/// A step that is left out of programs on some mounts, on both sides: its result is the file
/// system's own affair.
pub struct LeftOut {
    /// The operation; none: any.
    pub operation: &'static str,
    /// What one of its words must contain.
    pub word: &'static str,
    /// Part of the mount's specification.
    pub driver: &'static str,
    /// Why that is right.
    pub why: &'static str,
}

/// The whole list.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        operation: "renameat2",
        word: "RENAME_WHITEOUT",
        driver: "type=union",
        why: "a union makes no whiteouts: each of its branches is a whole tree by itself",
    },
    LeftOut {
        operation: "renameat2",
        word: "RENAME_WHITEOUT",
        driver: "type=overlay",
        why: "whiteouts are its own: the kernel's overlayfs refuses to make one, too",
    },
    NO_HARD_LINKS,
    LeftOut {
        operation: "linkat",
        ..NO_HARD_LINKS
    },
    LOCK_OF_VFORK,
    NO_DEVICES,
    LeftOut {
        operation: "bind",
        ..NO_DEVICES
    },
    LeftOut {
        operation: "connect",
        ..NO_DEVICES
    },
    LeftOut {
        operation: "fallocate",
        word: "",
        driver: "type=plfs",
        why: "a log sets no space aside, and has no holes to punch",
    },
    NO_TEMPORARY,
    LeftOut {
        operation: "open",
        ..NO_TEMPORARY
    },
    LeftOut {
        operation: "openat2",
        ..NO_TEMPORARY
    },
    USERS_XATTRS,
    LeftOut {
        word: "security.",
        ..USERS_XATTRS
    },
    LeftOut {
        operation: "getxattr",
        ..USERS_XATTRS
    },
    LeftOut {
        operation: "lgetxattr",
        ..USERS_XATTRS
    },
    LeftOut {
        operation: "removexattr",
        ..USERS_XATTRS
    },
    LeftOut {
        operation: "renameat2",
        word: "RENAME_EXCHANGE",
        driver: "type=plfs,source={tree};",
        why: "parts of two files would change places on several back ends at one moment",
    },
    NO_XATTRS,
    LeftOut {
        operation: "flistxattr",
        ..NO_XATTRS
    },
    SCOPED_AT_SERVER,
    LeftOut {
        word: "RESOLVE_IN_ROOT",
        ..SCOPED_AT_SERVER
    },
    LeftOut {
        driver: ",kernel",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        operation: "pwritev2",
        driver: ",kernel",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        operation: "fallocate",
        word: "COLLAPSE_RANGE",
        driver: ",kernel",
        why: "of what fallocate can do FUSE passes on sizes, holes and zeroes only \
            (`fuse_file_fallocate`, fs/fuse/file.c)",
    },
    LeftOut {
        operation: "fallocate",
        word: "INSERT_RANGE",
        driver: ",kernel",
        why: "as COLLAPSE_RANGE",
    },
    LeftOut {
        operation: "lseek",
        word: "9223372036854775807",
        driver: ",kernel",
        why: "the largest offset is a disk's own; a kernel mount has that of the protocol, the \
            largest there is",
    },
    LeftOut {
        operation: "renameat2",
        word: "RENAME_WHITEOUT",
        driver: ",kernel",
        why: "a kernel mount has no devices (nodev), where an open of a whiteout is EACCES and \
            not ENXIO",
    },
    LeftOut {
        operation: "openat2",
        word: "RESOLVE_CACHED",
        driver: ",kernel",
        why: "what is cached of names is the file system's own affair",
    },
    LeftOut {
        operation: "poll",
        word: "#1023",
        driver: "target=",
        why: "poll is the kernel's alone: one of the numbers that Culvert holds, the highest \
            below 1024, is ready there, and not POLLNVAL (docs/SEMANTICS.md)",
    },
    NOWAIT_READ_MEMORY,
    LeftOut {
        operation: "pwritev2",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        driver: "type=plfs",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        operation: "pwritev2",
        driver: "type=plfs",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        driver: "driven",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        operation: "pwritev2",
        driver: "driven",
        ..NOWAIT_READ_MEMORY
    },
    LeftOut {
        operation: "fallocate",
        word: "ZERO_RANGE",
        driver: "type=memory",
        why: "tmpfs cannot zero a range, memory can",
    },
    LeftOut {
        operation: "times",
        word: "",
        driver: "type=memory",
        why: "memory moves times of access of files alone (relatime), not of directories and \
            links (as with nodiratime, mount(8))",
    },
    UNREADABLE,
    LeftOut {
        driver: "driven",
        ..UNREADABLE
    },
    LeftOut {
        operation: "pwrite",
        ..UNREADABLE
    },
    LeftOut {
        operation: "pwrite",
        driver: "driven",
        ..UNREADABLE
    },
    NOTHING_READABLE,
    LeftOut {
        driver: "driven",
        ..NOTHING_READABLE
    },
    LeftOut {
        operation: "pwrite",
        ..NOTHING_READABLE
    },
    LeftOut {
        operation: "pwrite",
        driver: "driven",
        ..NOTHING_READABLE
    },
    LeftOut {
        operation: "renameat2",
        word: "RENAME_EXCHANGE",
        driver: "category.create=rand",
        why: "exchanged are names of one branch (docs/drivers/union.md)",
    },
    LeftOut {
        operation: "clone",
        word: "",
        driver: ",kernel",
        why: "what lies beside a kernel mount is on another file system, and natively on the same, \
            which is asked before anything else (`vfs_clone_file_range`, fs/remap_range.c)",
    },
    // Beside bindfs.
    FLAGS_OF_RENAME,
    UNNAMED,
    LeftOut {
        operation: "open",
        ..UNNAMED
    },
    LeftOut {
        operation: "openat2",
        ..UNNAMED
    },
    NO_ALLOCATION,
    LeftOut {
        operation: "lseek",
        word: "SEEK_DATA",
        ..NO_ALLOCATION
    },
    LeftOut {
        operation: "lseek",
        word: "SEEK_HOLE",
        ..NO_ALLOCATION
    },
    FLAGS_OF_OPEN,
    TIMES,
    NAMELESS,
    LeftOut {
        word: "/proc/self/fd",
        ..NAMELESS
    },
    APPENDED,
    IN_WHAT_IS_GONE,
    LeftOut {
        word: "k",
        ..IN_WHAT_IS_GONE
    },
    LeftOut {
        word: "e",
        ..IN_WHAT_IS_GONE
    },
    LeftOut {
        operation: "fchdir",
        word: "",
        ..IN_WHAT_IS_GONE
    },
    LeftOut {
        driver: "beside=",
        ..UNREADABLE
    },
    LeftOut {
        operation: "pwrite",
        driver: "beside=",
        ..UNREADABLE
    },
    LeftOut {
        driver: "beside=",
        ..NOTHING_READABLE
    },
    LeftOut {
        operation: "pwrite",
        driver: "beside=",
        ..NOTHING_READABLE
    },
    // Beside mergerfs.
    LeftOut {
        driver: MERGERFS,
        ..APPENDED
    },
    LONG_NAME,
    LeftOut {
        operation: "open",
        word: "/proc/self/fd",
        driver: MERGERFS,
        ..NAMELESS
    },
    LeftOut {
        driver: MERGERFS,
        ..FLAGS_OF_RENAME
    },
    LeftOut {
        driver: MERGERFS,
        ..UNNAMED
    },
    LeftOut {
        operation: "open",
        driver: MERGERFS,
        ..UNNAMED
    },
    LeftOut {
        operation: "openat2",
        driver: MERGERFS,
        ..UNNAMED
    },
    LeftOut {
        operation: "lseek",
        word: "SEEK_DATA",
        driver: MERGERFS,
        ..NO_ALLOCATION
    },
    LeftOut {
        operation: "lseek",
        word: "SEEK_HOLE",
        driver: MERGERFS,
        ..NO_ALLOCATION
    },
    LeftOut {
        driver: MERGERFS,
        ..FLAGS_OF_OPEN
    },
    LeftOut {
        driver: MERGERFS,
        ..TIMES
    },
    LeftOut {
        driver: MERGERFS,
        ..NAMELESS
    },
    LeftOut {
        word: "/proc/self/fd",
        driver: MERGERFS,
        ..NAMELESS
    },
];

const NO_HARD_LINKS: LeftOut = LeftOut {
    operation: "link",
    word: "",
    driver: "type=plfs",
    why: "a file is a directory, which has one name",
};

const LOCK_OF_VFORK: LeftOut = LeftOut {
    operation: "lock",
    word: "vfork",
    driver: "type=plfs",
    why: "record locks are those of a file of the container that the process itself has open: a \
        child of vfork(2) gets ENOLCK",
};

/// As [`LOCK_OF_VFORK`]: processes that share a table of descriptors get ENOLCK, too.
fn suited_to_lock_files(program: &mut Program) {
    let shares = |step: &Step| step.words.iter().any(|word| word == "clonefiles");
    if program.steps.iter().any(shares) {
        let locks = |step: &Step| step.words.iter().any(|word| word == "lock");
        program.steps.retain(|step| !locks(step));
    }
}

const NO_DEVICES: LeftOut = LeftOut {
    operation: "mknod",
    word: "",
    driver: "type=plfs",
    why: "there are files, directories and symbolic links alone",
};

const NO_TEMPORARY: LeftOut = LeftOut {
    operation: "openat",
    word: "O_TMPFILE",
    driver: "type=plfs",
    why: "a file without a name could get none later: a directory has no second name",
};

const USERS_XATTRS: LeftOut = LeftOut {
    operation: "setxattr",
    word: "trusted.",
    driver: "type=plfs",
    why: "attributes of files are the user's alone",
};

const BINDFS: &str = "beside=bindfs";
const MERGERFS: &str = "beside=mergerfs";

const FLAGS_OF_RENAME: LeftOut = LeftOut {
    operation: "renameat2",
    word: "RENAME_",
    driver: BINDFS,
    why: "bindfs on libfuse 2, and mergerfs 2.33, have no flags of rename: EINVAL",
};

const UNNAMED: LeftOut = LeftOut {
    operation: "openat",
    word: "O_TMPFILE",
    driver: BINDFS,
    why: "they make no files without a name: EOPNOTSUPP",
};

const NO_ALLOCATION: LeftOut = LeftOut {
    operation: "fallocate",
    word: "",
    driver: BINDFS,
    why: "bindfs allocates nothing and knows of no holes",
};

const FLAGS_OF_OPEN: LeftOut = LeftOut {
    operation: "setfl",
    word: "",
    driver: BINDFS,
    why: "their server's descriptor keeps the flags that it was opened with, O_APPEND among them",
};

const TIMES: LeftOut = LeftOut {
    operation: "times",
    word: "",
    driver: BINDFS,
    why: "their server reads and writes, at other moments than the program",
};

const IN_WHAT_IS_GONE: LeftOut = LeftOut {
    operation: "chdir",
    word: "d",
    driver: "beside=",
    why: "who works in a directory that was removed gets ENOENT or ESTALE from them",
};

const APPENDED: LeftOut = LeftOut {
    operation: "mapwrite",
    word: "",
    driver: BINDFS,
    why: "what is stored into a mapping of a file that was opened with O_APPEND their server appends",
};

const LONG_NAME: LeftOut = LeftOut {
    operation: "",
    word: ":256}",
    driver: MERGERFS,
    why: "a name that is too long is ENOENT there, as on no branch",
};

const NAMELESS: LeftOut = LeftOut {
    operation: "linkat",
    word: "AT_EMPTY_PATH",
    driver: BINDFS,
    why: "what was removed has a name there as long as it is open",
};

const NO_XATTRS: LeftOut = LeftOut {
    operation: "listxattr",
    word: "",
    driver: "type=sdcard",
    why: "where nothing has extended attributes the kernel says so itself (`vfs_listxattr`, an \
        empty list), and of a server it is not known until it is asked (EOPNOTSUPP)",
};

const SCOPED_AT_SERVER: LeftOut = LeftOut {
    operation: "openat2",
    word: "RESOLVE_BENEATH",
    driver: "type=fuse.",
    why: "the kernel ends such a walk with EAGAIN at a `..` where anything was renamed meanwhile, anywhere (openat2(2)), and each step of it is a request",
};

const NOWAIT_READ_MEMORY: LeftOut = LeftOut {
    operation: "preadv2",
    word: "RWF_NOWAIT",
    driver: "type=memory",
    why: "whether a call can be done without waiting is the file system's own affair: tmpfs \
        refuses to say",
};

const UNREADABLE: LeftOut = LeftOut {
    operation: "write",
    word: "bad",
    driver: "type=memory",
    why: "a write past the end that fails with EFAULT lengthens the file to the offset where the \
        kernel's page cache takes it (tmpfs, ext4); a driver has been given nothing then. EFAULT \
        is none of POSIX's errors",
};

const NOTHING_READABLE: LeftOut = LeftOut {
    word: "edge:0",
    ..UNREADABLE
};

/// What rules are about: the specification behind `--mount`, or `kernel,type=...`.
fn specification(mount: &Mount) -> Option<String> {
    match mount {
        // Below a layer everything is done by calls of the driver.
        Mount::Culvert { specification, .. }
            if specification.contains("layer=") || specification.contains("-rate=") =>
        {
            Some(format!("{specification},driven"))
        }
        // Compared with what is behind the kernel.
        Mount::Culvert { specification, .. } if specification.starts_with("type=sdcard") => {
            Some(format!("{specification},kernel"))
        }
        // What is written lies in memory.
        Mount::Culvert { specification, .. } if specification.contains("upperdir=memory:") => {
            Some(format!("{specification},upper=type=memory,driven"))
        }
        Mount::Culvert { specification, .. } => Some(specification.clone()),
        Mount::Kernel {
            driver, options, ..
        } => {
            let driven = match options.contains("layer=") {
                true => "driven,",
                false => "",
            };
            Some(format!("type={driver},{options},{driven}kernel").replace(",,", ","))
        }
        // What is compared with is behind the kernel.
        Mount::Beside(original, ours) => {
            let specification = specification(ours)?;
            let kernel = match specification.ends_with(",kernel") {
                true => "",
                false => ",kernel",
            };
            let command = original.command();
            Some(format!("{specification}{kernel},beside={command}"))
        }
        Mount::Original(original) => Some(format!(
            "type=fuse.{0},kernel,beside={0}",
            original.command()
        )),
        Mount::Native | Mount::Filled | Mount::At(_) => None,
    }
}

/// The program as it is run on `mount` and natively, to be compared.
pub fn suited(program: &Program, mount: &Mount) -> Program {
    let Some(specification) = specification(mount) else {
        return program.clone();
    };
    let left_out = |step: &Step| {
        LEFT_OUT.iter().any(|rule| {
            specification.contains(rule.driver)
                && (rule.operation.is_empty()
                    || step.words.iter().any(|word| word == rule.operation))
                && step.words.iter().any(|word| word.contains(rule.word))
        })
    };
    let mut program = program.clone();
    program.steps.retain(|step| !left_out(step));
    if specification.contains(LOCK_OF_VFORK.driver) {
        suited_to_lock_files(&mut program);
    }
    let elsewhere = ["layer=", "descriptor=no", "type=memory,kernel", "=memory:"];
    if elsewhere.iter().any(|part| specification.contains(part)) {
        suited_to_pages(&mut program);
    }
    program
}

/// What is different in programs that map files, where pages are brought and taken away by somebody
/// else than the kernel's own file system: what is stored behind the end of a file, in its last
/// page, may be gone when it is looked at again (mmap(2)), so that stores stay within the file; and
/// whether a hole that was loaded from is still a hole is tmpfs's own affair.
fn suited_to_pages(program: &mut Program) {
    if !program.steps.iter().any(|step| step.operation() == "map") {
        return;
    }
    let hole = |word: &String| matches!(word.as_str(), "SEEK_DATA" | "SEEK_HOLE");
    program.steps.retain(|step| !step.words.iter().any(hole));
    for word in program.steps.iter_mut().flat_map(|step| &mut step.words) {
        match word.as_str() {
            "store" => *word = "storewithin".to_owned(),
            "readinto" => *word = "readwithin".to_owned(),
            _ => {}
        }
    }
}

/// What else is left out of programs on a disk: what O_DIRECT wants aligned is the disk's own
/// affair; drivers do not ask for anything (open(2)).
pub fn suited_to_disk(program: &Program) -> Program {
    let direct = |word: &String| word.split('|').any(|flag| flag == "O_DIRECT");
    let mut program = program.clone();
    program.steps.retain(|step| !step.words.iter().any(direct));
    program
}

/// Whether set-user-ID and set-group-ID of files are not compared: what root writes through a
/// kernel mount of a tree clears them, since the kernel does it with the rights of who registered
/// the backing file, which would else leave them alone for everybody. POSIX (write) lets every
/// write clear them. What is given away when it is made has none, as with bindfs, which
/// makes nothing with them.
fn clears_set_id(specification: &str) -> bool {
    let gives = specification.starts_with("type=bind,map=");
    gives
        || specification.contains(BINDFS)
        || ["passthrough", "bind"]
            .iter()
            .any(|kind| specification == format!("type={kind},kernel"))
        || specification.starts_with("type=union,") && specification.ends_with(",kernel")
}

/// Whether links of directories are those of several, or one, as where a file is a directory too;
/// mergerfs shows those of one, an overlay one.
fn adds_links(specification: &str) -> bool {
    let union = specification.starts_with("type=union");
    let several = specification.contains("func.mkdir=all") || specification.contains(MERGERFS);
    union && several
        || ["type=plfs", "type=overlay"]
            .iter()
            .any(|kind| specification.starts_with(kind))
}

/// The type and mode of a file, `-2755`, without those bits; of bindfs's without the sticky one,
/// which it makes nothing with either.
fn without_set_id(word: &str, specification: &str) -> String {
    let digits = word.strip_prefix('-').filter(|digits| digits.len() == 4);
    let bits = match specification.contains(BINDFS) {
        true => 0o777,
        false => 0o1777,
    };
    match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) {
        Some(mode) => format!("-{:04o}", mode & bits),
        None => word.to_owned(),
    }
}

/// A line without the words whose difference is accepted for `mount`.
pub fn without_accepted(line: &str, mount: &Mount) -> String {
    let specification = specification(mount).unwrap_or_default();
    let set_id = clears_set_id(&specification);
    let is_directory = |word: &str| {
        let digits = word.strip_prefix('d').unwrap_or_default();
        digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let links = adds_links(&specification) && line.split(' ').any(is_directory);
    line.split(' ')
        .filter(|word| !links || !word.starts_with("nlink="))
        .filter(|word| {
            !ACCEPTED.iter().any(|accepted| {
                specification.contains(accepted.driver) && word.starts_with(accepted.word)
            })
        })
        .filter(|word| !by_hand().iter().any(|ignored| word.starts_with(ignored)))
        .map(|word| match set_id {
            true => without_set_id(word, &specification),
            false => word.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Beginnings of words that whoever runs the fuzzer by hand looks past, to see what else there is
/// behind a known defect: `DIFFER_IGNORE=fd=,id=`. The tests never set it.
fn by_hand() -> &'static [String] {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        std::env::var("DIFFER_IGNORE")
            .unwrap_or_default()
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    })
}
