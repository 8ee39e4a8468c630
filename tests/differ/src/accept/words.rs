//! Words of an answer that are not compared.

use crate::mount::Mount;
use crate::program::Step;

/// A difference that is none.
pub struct Accepted {
    /// The beginning of the words that are not compared.
    pub word: &'static str,
    /// Part of the mount's specification.
    pub mount: &'static str,
    /// Why that is right.
    #[expect(dead_code, reason = "for readers of the table")]
    why: &'static str,
}

/// The whole list. Numbers of devices and inodes, block counts and file-system types are not shown
/// by the executor at all: identity is shown by classes, in which the same file has the same class,
/// and times by relations.
pub const ACCEPTED: &[Accepted] = &[
    Accepted {
        word: "dsize=",
        mount: "type=memory",
        why: "POSIX gives the size of a directory no meaning; tmpfs counts 20 bytes a name",
    },
    Accepted {
        word: "dsize=",
        mount: "type=union",
        why: "the same: what is in a directory lies on several branches",
    },
    Accepted {
        word: "dsize=",
        mount: "type=plfs",
        why: "the same: files are directories of the back end",
    },
    Accepted {
        word: "a:same",
        mount: "type=plfs",
        why: "reading does not set the time of access, as with noatime (mount(8))",
    },
    Accepted {
        word: "a:changed",
        mount: "type=plfs",
        why: "the same",
    },
    Accepted {
        word: "a:new",
        mount: "type=plfs",
        why: "the same",
    },
    Accepted {
        word: "l0100",
        mount: "type=plfs",
        why: "a link in /proc/self/fd has the rights of Culvert's own descriptor",
    },
    Accepted {
        word: "l0300",
        mount: "type=plfs",
        why: "the same",
    },
    Accepted {
        word: "l0500",
        mount: "type=plfs",
        why: "the same",
    },
    Accepted {
        word: "l0700",
        mount: "type=plfs",
        why: "the same",
    },
    Accepted {
        word: "l0100",
        mount: "type=memory",
        why: "the same",
    },
    Accepted {
        word: "l0300",
        mount: "type=memory",
        why: "the same",
    },
    Accepted {
        word: "l0500",
        mount: "type=memory",
        why: "the same",
    },
    Accepted {
        word: "l0700",
        mount: "type=memory",
        why: "the same",
    },
    Accepted {
        word: "nlink=",
        mount: "beside=bindfs",
        why: "what is removed while it is open has another name there (`.fuse_hidden`)",
    },
    Accepted {
        word: "dsize=",
        mount: "beside=bindfs",
        why: "it lies in the same directory",
    },
    Accepted {
        word: "id=",
        mount: "beside=mergerfs",
        why: "there a directory that is renamed has another number",
    },
];

/// Whether the times that `step` shows differ in that of access alone, which is still the one that
/// the program has set: reading does not set it.
pub fn times_alike(step: &Step, mount: &Mount, (native, ours): (&str, &str)) -> bool {
    let specification = super::specification::of(mount).unwrap_or_default();
    let read = |line: &str| line.split(' ').any(|word| word.starts_with("a:"));
    let set = |line: &str| line.split(' ').any(|word| word.starts_with("a="));
    let others = |line: &str| -> Vec<String> {
        let is_other = |word: &&str| !word.starts_with("a:") && !word.starts_with("a=");
        line.split(' ')
            .filter(is_other)
            .map(str::to_owned)
            .collect()
    };
    specification.contains("type=plfs")
        && step.operation() == "times"
        && read(native)
        && set(ours)
        && others(native) == others(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    #[test]
    fn a_time_of_access_that_was_set_may_stay() {
        let program: Program = "0 times cwd f 0".parse().expect("a program");
        let alike = |mount: &str, native: &str, ours: &str| {
            let mount = mount.parse().expect("a mount");
            times_alike(&program.steps[0], &mount, (native, ours))
        };
        let (read, set) = ("0 0 a:new m:new", "0 0 a=1.000000000 m:new");
        assert!(alike("plfs", read, set));
        assert!(!alike("memory", read, set) && !alike("plfs", set, read));
        assert!(!alike("plfs", read, "0 0 a=1.000000000 m:same"));
        assert!(!alike("plfs", "0 0 a=2.000000000 m:new", set));
    }
}
