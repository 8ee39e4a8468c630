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
    /// Which of their steps.
    step: fn(&Step) -> bool,
    /// What the program does before that leads to it.
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
pub fn removes(program: &Program) -> bool {
    ["unlink", "unlinkat", "rmdir", "rm"]
        .into_iter()
        .any(|operation| does(program, operation))
}

/// Whether a process of `program` has become another program before another one renames, or has got
/// another's table of descriptors before either does.
fn renames_after_exec(program: &Program) -> bool {
    let is = |step: &Step, operations: &[&str]| operations.contains(&step.operation());
    program.steps.iter().enumerate().any(|(at, becomes)| {
        let mut later = program.steps[at..].iter();
        let shares = is(becomes, &["clonefiles"]);
        (shares || is(becomes, &["exec", "vforkexec"]))
            && later.any(|step| {
                (shares || step.actor != becomes.actor) && is(step, &["rename", "renameat2"])
            })
    })
}

/// Whether some word of `step` contains `text`.
fn has(step: &Step, text: &str) -> bool {
    step.words.iter().any(|word| word.contains(text))
}

/// Whether `program` changes who may enter a directory.
fn changes_modes(program: &Program) -> bool {
    ["chmod", "fchmod", "fchmodat", "fchmodat2"]
        .into_iter()
        .any(|operation| does(program, operation))
}

/// Whether `step` lists a directory that is open, or names something in one.
fn uses_held_directory(step: &Step) -> bool {
    let operation = step.operation();
    let lists = ["rest", "getdents", "seekback", "statx"].contains(&operation);
    let is_below = lists || operation.ends_with("at") || operation.ends_with("at2");
    is_below && step.words.iter().all(|word| word != "cwd")
}

fn goes_to_directories(program: &Program) -> bool {
    does(program, "chdir") || does(program, "fchdir")
}

/// The whole list.
const REFUSALS: &[Refusal] = &[
    Refusal {
        mount: "type=plfs",
        errno: "-EACCES",
        operations: &[],
        step: uses_held_directory,
        when: |program| program.nobody && changes_modes(program),
        why: "names in an open directory are asked for by their paths, and it is listed as its mode \
            is now",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EACCES",
        operations: &[],
        step: |_| true,
        when: |program| program.nobody && changes_modes(program) && goes_to_directories(program),
        why: "names in the working directory are asked for by their paths",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &[],
        step: |step| has(step, "/proc/self/fd/"),
        when: |program| removes(program) || does(program, "rename") || does(program, "renameat2"),
        why: "what was removed is not found by its link in proc(5)",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EACCES",
        operations: &[],
        step: |step| has(step, "/proc/self/fd/"),
        when: |program| program.nobody && changes_modes(program),
        why: "names below a link in proc(5) are asked for by its path",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &["fstat", "statx"],
        step: |_| true,
        when: |program| removes(program) && program.steps.iter().any(|step| has(step, "O_PATH")),
        why: "a file that is open with O_PATH alone is asked for by its path, which another process \
            may have removed",
    },
    Refusal {
        mount: "type=plfs,source={tree};",
        errno: "-EIO",
        operations: &["mapwrite"],
        step: |_| true,
        when: |program| program.nobody && changes_modes(program),
        why: "what is stored is written by its parts on other back ends, as by write(2)",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EINVAL",
        operations: &["read", "readv"],
        step: |_| true,
        when: |program| does(program, "lseek") && does(program, "9223372036854775807"),
        why: "where a directory stands that was listed from the largest position is the file \
            system's own affair, and looked at before it is EISDIR",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EIO",
        operations: &[],
        step: |_| true,
        when: |program| goes_on_elsewhere(program) && (program.nobody || removes(program)),
        why: "a file that was removed, or that its user may not open again, is not continued after \
            exec(2), nor by another process with the same table of descriptors",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EIO",
        operations: &[],
        step: |_| true,
        when: |program| program.nobody && does(program, "receive"),
        why: "a file that its user may not open again is not continued by who gets it by a socket",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-EIO",
        operations: &[],
        step: |_| true,
        when: renames_after_exec,
        why: "a file that was open before exec(2), or before its table was shared, and is not used \
            yet is not found below a directory that another process renames",
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
        step: |_| true,
        when: |program| program.nobody,
        why: "attributes of an open file, and its parts on other back ends, are asked for by its \
            path, which may lie below a directory that its user may not enter any more",
    },
    Refusal {
        mount: "type=plfs",
        errno: "-ESTALE",
        operations: &[],
        step: |_| true,
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
        step: |_| true,
        when: |_| true,
        why: "a directory that was removed has no path by which its extended attributes could be \
            asked for or changed, nor has a file that is looked for by /proc/self/fd, or is open since before exec(2), where \
            another process has renamed a directory above it",
    },
];

/// Whether nothing of `program` is compared behind `step`, for which `mount` has answered `line`.
pub fn ends(program: &Program, step: &Step, mount: &Mount, line: &str) -> bool {
    let specification = super::specification::of(mount).unwrap_or_default();
    let before = program
        .steps
        .iter()
        .take_while(|other| !std::ptr::eq(*other, step));
    // A step may be one of a program that it starts itself.
    let led = Program {
        steps: before.chain([step]).cloned().collect(),
        ..program.clone()
    };
    REFUSALS.iter().any(|refusal| {
        specification.contains(refusal.mount)
            && line.split(' ').any(|word| word == refusal.errno)
            && (refusal.operations.is_empty() || refusal.operations.contains(&step.operation()))
            && (refusal.step)(step)
            && (refusal.when)(&led)
    })
}

/// Whether `step` fails natively and on `mount`, there with another error, as it may: what its driver
/// alone has is on another file system than what lies beside the mount, and natively on the same,
/// which is asked before anything else (`vfs_clone_file_range`, fs/remap_range.c).
pub fn refused_alike(step: &Step, mount: &Mount, (native, ours): (&str, &str)) -> bool {
    let specification = super::specification::of(mount).unwrap_or_default();
    let own = ["plfs", "memory", "overlay", "union", "layer=", ",driven"];
    let is_own = own.into_iter().any(|kind| specification.contains(kind));
    let (native, ours) = (native.split(' ').nth(1), ours.split(' ').nth(1));
    let is_clone = is_own
        && step.operation() == "clone"
        && matches!(native, Some("-EISDIR" | "-EBADF" | "-EOPNOTSUPP"))
        && ours == Some("-EXDEV");
    // Whether a name is a directory is known before the back end is asked.
    let is_removal = specification.contains("type=plfs")
        && ["unlink", "unlinkat", "rmdir", "rename", "renameat2"].contains(&step.operation())
        && native == Some("-EACCES")
        && matches!(ours, Some("-EISDIR" | "-ENOTDIR"));
    is_clone || is_removal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_with_another_error_is_alike() {
        let alike = |step: &str, mount: &str, native: &str, ours: &str| {
            let program: Program = step.parse().expect("a program");
            let mount = mount.parse().expect("a mount");
            refused_alike(&program.steps[0], &mount, (native, ours))
        };
        let clone = "0 clone c a";
        assert!(alike(clone, "plfs", "0 -EISDIR", "0 -EXDEV"));
        assert!(!alike(clone, "plfs", "0 0", "0 -EXDEV"));
        assert!(!alike(clone, "plfs", "0 -EISDIR", "0 -EIO"));
        assert!(!alike(clone, "passthrough", "0 -EISDIR", "0 -EXDEV"));
        assert!(!alike("0 rename c a", "plfs", "0 -EISDIR", "0 -EXDEV"));
        let remove = "0 rmdir f";
        assert!(alike(remove, "plfs", "0 -EACCES", "0 -ENOTDIR"));
        assert!(!alike(remove, "plfs", "0 -EACCES", "0 0"));
        assert!(!alike(remove, "memory", "0 -EACCES", "0 -ENOTDIR"));
        assert!(!alike(
            "0 openat a cwd f 0 0",
            "plfs",
            "0 -EACCES",
            "0 -ENOTDIR"
        ));
    }

    #[test]
    fn a_refusal_ends_what_it_is_about() {
        let mount: Mount = "plfs".parse().expect("a mount");
        let ends = |text: &str, at: usize, line: &str| {
            let program: Program = text.parse().expect("a program");
            ends(&program, &program.steps[at], &mount, line)
        };
        let held = "#! user nobody\n0 openat c cwd d O_DIRECTORY 0\n0 fchmod c 0\n";
        let below = format!("{held}0 openat e c f O_RDWR 0\n");
        assert!(ends(&below, 2, "0 openat -EACCES"));
        let beside = format!("{held}0 openat e cwd f O_RDWR 0\n");
        assert!(!ends(&beside, 2, "0 openat -EACCES"));
        let gone = format!("{held}0 chdir d\n0 stat f\n");
        assert!(ends(&gone, 3, "0 stat -EACCES") && !ends(&gone, 3, "0 stat -ENOENT"));
        assert!(!ends(&gone.replace("nobody", "root"), 3, "0 stat -EACCES"));
        let link = format!("{held}0 mkdir /proc/self/fd/{{fd:c}}/f 0755\n");
        assert!(ends(&link, 2, "0 -EACCES") && !ends(&link, 2, "0 -ENOENT"));
        assert!(!ends(&link.replace("nobody", "root"), 2, "0 -EACCES"));
        let path = "0 open b f O_PATH 0\n0 unlink f\n0 fstat b\n";
        assert!(ends(path, 2, "2 -ESTALE") && !ends(path, 1, "1 -ESTALE"));
        assert!(!ends(&path.replace("O_PATH", "O_RDWR"), 2, "2 -ESTALE"));
        assert!(!ends(&path.replace("unlink", "stat"), 2, "2 -ESTALE"));
        let moved = "0 fork 1\n0 exec plain\n1 rename d e\n0 read b 1\n0 unlink f\n";
        assert!(ends(moved, 3, "3 -EIO") && !ends(moved, 3, "3 -EBADF"));
        assert!(!ends(moved, 1, "1 -EIO"), "what comes later led to nothing");
        assert!(!ends(&moved.replace("1 rename", "0 rename"), 3, "3 -EIO"));
        let shared = "0 clonefiles 1\n0 rename d e\n1 read b 1\n";
        assert!(ends(shared, 2, "2 -EIO") && !ends(&shared.replace("files", "fs"), 2, "2 -EIO"));
        let got = "#! user nobody\n0 receive b 0\n0 read b 1\n";
        assert!(ends(got, 1, "1 -EIO") && !ends(&got.replace("nobody", "root"), 1, "1 -EIO"));
        let stored = format!("{held}0 mapwrite b 0 1\n");
        assert!(!ends(&stored, 2, "2 ok -EIO"), "one back end");
    }
}
