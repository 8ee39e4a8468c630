//! Errors of a mount that end the comparison: what was refused, and natively was not, changes all
//! that comes after it. Each is an error that the documentation of the mount states.

use crate::mount::Mount;
use crate::program::{Program, Step};

/// A kind of error, and where.
struct Refusal {
    /// Part of the specification of the mount.
    mount: &'static str,
    /// The error.
    errno: &'static str,
    /// The operations; none: any.
    operations: &'static [&'static str],
    /// What one of the step's words contains.
    word: &'static str,
    /// What the program does that leads to it.
    when: fn(&Program) -> bool,
    /// Why that is right.
    #[expect(dead_code, reason = "for readers of the table")]
    why: &'static str,
}

fn does(program: &Program, operation: &str) -> bool {
    let is = |step: &Step| step.words.iter().any(|word| word == operation);
    program.steps.iter().any(is)
}

/// Whether a process of `program` becomes another program, or shares a table of descriptors.
fn goes_on_elsewhere(program: &Program) -> bool {
    ["exec", "vforkexec", "spawn", "clonefiles"]
        .into_iter()
        .any(|operation| does(program, operation))
}

/// Whether `program` removes something.
fn removes(program: &Program) -> bool {
    ["unlink", "unlinkat", "rmdir", "rm"]
        .into_iter()
        .any(|operation| does(program, operation))
}

/// Whether `program` changes who may enter a directory.
fn changes_modes(program: &Program) -> bool {
    ["chmod", "fchmod", "fchmodat", "fchmodat2"]
        .into_iter()
        .any(|operation| does(program, operation))
}

/// Whether `program` goes to directories, or opens them.
fn holds_directories(program: &Program) -> bool {
    let opens = |step: &Step| step.words.iter().any(|word| word.contains("O_DIRECTORY"));
    let goes = ["chdir", "fchdir"];
    goes.into_iter().any(|operation| does(program, operation)) || program.steps.iter().any(opens)
}

/// The whole list.
const REFUSALS: &[Refusal] = &[
    Refusal {
        mount: "type=plfs",
        errno: "-EACCES",
        operations: &[],
        word: "",
        when: |program| program.nobody && changes_modes(program) && holds_directories(program),
        why: "names in an open directory or the working directory are asked for by their paths, \
            and an open directory is listed as its mode is now",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &[],
        word: "/proc/self/fd/",
        when: |program| removes(program) || does(program, "rename") || does(program, "renameat2"),
        why: "what was removed is not found by its link in proc(5)",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EINVAL",
        operations: &["read", "readv"],
        word: "",
        when: |program| does(program, "lseek") && does(program, "9223372036854775807"),
        why: "where a directory stands that was listed from the largest position is the file \
            system's own affair, and looked at before it is EISDIR",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EIO",
        operations: &[],
        word: "",
        when: |program| goes_on_elsewhere(program) && (program.nobody || removes(program)),
        why: "a file that was removed, or that its user may not open again, is not continued after \
            exec(2), nor by another process with the same table of descriptors",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EACCES",
        operations: &[
            "fsetxattr",
            "fgetxattr",
            "flistxattr",
            "fremovexattr",
            "fchmod",
            "fchown",
            "futimens",
            "ftruncate",
            "write",
            "writev",
            "pwrite",
            "pwritev2",
        ],
        word: "",
        when: |program| program.nobody,
        why: "attributes of an open file, and its parts on other back ends, are asked for by its \
            path, which may lie below a directory that its user may not enter any more",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &[],
        word: "",
        when: |program| does(program, "clonefs"),
        why: "a process that shares its working directory with another one does not find it where \
            that one has moved it",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &[
            "setxattr",
            "getxattr",
            "listxattr",
            "removexattr",
            "fsetxattr",
            "fgetxattr",
            "flistxattr",
            "fremovexattr",
            "access",
            "same",
        ],
        word: "",
        when: |_| true,
        why: "a directory that was removed has no path by which its extended attributes could be \
            asked for or changed, nor has a file that is looked for by /proc/self/fd, or is open since before exec(2), where \
            another process has renamed a directory above it",
    },
];

/// Whether nothing of `program` is compared behind `step`, for which `mount` has answered `line`.
pub fn ends(program: &Program, step: &Step, mount: &Mount, line: &str) -> bool {
    let specification = super::specification::of(mount).unwrap_or_default();
    REFUSALS.iter().any(|refusal| {
        specification.contains(refusal.mount)
            && line.split(' ').any(|word| word == refusal.errno)
            && (refusal.operations.is_empty() || refusal.operations.contains(&step.operation()))
            && step.words.iter().any(|word| word.contains(refusal.word))
            && (refusal.when)(program)
    })
}
