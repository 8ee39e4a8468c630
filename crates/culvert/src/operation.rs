//! The operations of the driver API, by the names that they have there, and a call of one.

use crate::{Caller, Node};

macro_rules! operations {
    ($($variant:ident = $name:literal,)*) => {
        /// An operation of the driver API, on the file system or on an open file, that may fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation { $(#[doc = $name] $variant,)* }

        impl Operation {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in the driver API.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

operations! {
    Lookup = "lookup",
    Attributes = "attributes",
    Access = "access",
    Readlink = "readlink",
    Open = "open",
    Restore = "restore",
    OpenDirectory = "open_directory",
    ReadDirectory = "read_directory",
    SyncDirectory = "sync_directory",
    Statfs = "statfs",
    GetXattr = "get_xattr",
    ListXattr = "list_xattr",
    SetXattr = "set_xattr",
    RemoveXattr = "remove_xattr",
    SetAttributes = "set_attributes",
    Create = "create",
    Mkdir = "mkdir",
    Mknod = "mknod",
    Symlink = "symlink",
    Link = "link",
    Unlink = "unlink",
    Rmdir = "rmdir",
    Rename = "rename",
    Tmpfile = "tmpfile",
    Sync = "sync",
    ReadAt = "read_at",
    WriteAt = "write_at",
    Append = "append",
    Allocate = "allocate",
    Seek = "seek",
    CopyRange = "copy_range",
    Flush = "flush",
    Ioctl = "ioctl",
    Poll = "poll",
    GetLock = "get_lock",
    SetLock = "set_lock",
    Flock = "flock",
}

/// A call of an operation on a file system, as a layer meets it ([`crate::Layer::around`]).
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which operation.
    pub operation: Operation,
    /// What it is about, or the directory of `name`. The root where it is about all.
    pub node: Node,
    /// The name in the directory, of operations on names.
    pub name: Option<&'a [u8]>,
    /// Directory and name that a rename leads to.
    pub to: Option<(Node, &'a [u8])>,
    /// The mode that is given to what is made or changed; 0: none.
    pub mode: u32,
    /// On whose behalf, of operations that are somebody's.
    pub caller: Option<&'a Caller<'a>>,
}

impl<'a> Call<'a> {
    /// About a node.
    #[inline]
    pub const fn of(operation: Operation, node: Node) -> Self {
        Self {
            operation,
            node,
            name: None,
            to: None,
            mode: 0,
            caller: None,
        }
    }

    /// About `name` in `dir`.
    #[inline]
    pub const fn at(operation: Operation, dir: Node, name: &'a [u8]) -> Self {
        Self {
            name: Some(name),
            ..Self::of(operation, dir)
        }
    }

    /// The same, on behalf of `caller`.
    #[inline]
    pub const fn by(self, caller: &'a Caller<'a>) -> Self {
        Self {
            caller: Some(caller),
            ..self
        }
    }

    /// The same, giving `mode`.
    #[inline]
    pub const fn giving(self, mode: u32) -> Self {
        Self { mode, ..self }
    }
}
