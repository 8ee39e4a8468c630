//! Words of an answer that are not compared.

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
