//! What is compared with the native run.

use std::path::PathBuf;
use std::str::FromStr;

/// A way in which the program meets its mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mount {
    /// The tree itself, bound to the mount's path: both sides equal, which tests the fuzzer.
    Native,
    /// `culvert run --mount SPECIFICATION`; `{tree}` and `{mnt}` stand for the two directories.
    Culvert {
        /// What follows `--mount`.
        specification: String,
        /// Whether the launcher may cover the target in a namespace.
        private: bool,
        /// Whether what the program did can be read in the tree afterwards.
        in_tree: bool,
    },
    /// `culvert mount`: the kernel's, for programs that are not intercepted.
    Kernel {
        /// The type of the file system.
        driver: &'static str,
        /// Whether what the program did can be read in the tree afterwards.
        in_tree: bool,
    },
    /// A directory that is something mounted already, by whatever means; it is emptied before each
    /// program.
    At(PathBuf),
}

/// Mounts with names, and what they are.
const NAMED: [(&str, &str, bool, bool); 9] = [
    (
        "passthrough",
        "type=passthrough,source={tree},target={mnt}",
        false,
        true,
    ),
    (
        "bound",
        "type=passthrough,source={tree},target={mnt}",
        true,
        true,
    ),
    (
        "driven",
        "type=passthrough,source={tree},target={mnt},driven",
        false,
        true,
    ),
    (
        "paged",
        "type=passthrough,source={tree},target={mnt},driven,descriptor=no",
        false,
        true,
    ),
    (
        "layered",
        "type=passthrough,source={tree},target={mnt},driven,layer=fault,fault.rule=read+after=1000000000+errno=EIO",
        false,
        true,
    ),
    (
        "fault",
        "type=passthrough,source={tree},target={mnt},layer=fault",
        false,
        true,
    ),
    (
        "stacked",
        "type=passthrough,source={tree},target={mnt},layer=casefold,layer=fault,layer=casefold,casefold.strict",
        false,
        true,
    ),
    ("memory", "type=memory,target={mnt}", false, false),
    (
        "server",
        "type=fuse.bindfs,source={tree},target={mnt}",
        false,
        true,
    ),
];

/// Kernel mounts: name, type, whether the tree shows what was done.
const KERNEL: [(&str, &str, bool); 3] = [
    ("kernel", "passthrough", true),
    ("kernel-memory", "memory", false),
    ("kernel-server", SERVER, true),
];

/// A FUSE server of others.
const SERVER: &str = "fuse.bindfs";

impl Mount {
    /// The names that [`Mount::from_str`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["native"]
            .into_iter()
            .chain(NAMED.iter().map(|named| named.0))
            .chain(KERNEL.iter().map(|kernel| kernel.0))
    }

    /// Whether the command under test makes it.
    pub fn is_culverts(&self) -> bool {
        matches!(self, Self::Culvert { .. } | Self::Kernel { .. })
    }

    /// What it is compared with: a server by slots with the same one behind the kernel.
    pub fn reference(&self) -> Self {
        match self {
            Self::Culvert { specification, .. } if specification.contains(SERVER) => Self::Kernel {
                driver: SERVER,
                in_tree: true,
            },
            _ => Self::Native,
        }
    }

    /// Whether the tree shows what was done, read natively.
    pub fn in_tree(&self) -> bool {
        match self {
            Self::Native => true,
            Self::Culvert { in_tree, .. } | Self::Kernel { in_tree, .. } => *in_tree,
            Self::At(_) => false,
        }
    }
}

impl FromStr for Mount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "native" {
            return Ok(Self::Native);
        }
        if let Some(path) = text.strip_prefix("at:") {
            return Ok(Self::At(PathBuf::from(path)));
        }
        if let Some((_, specification, private, in_tree)) =
            NAMED.iter().find(|named| named.0 == text)
        {
            return Ok(Self::Culvert {
                specification: (*specification).to_owned(),
                private: *private,
                in_tree: *in_tree,
            });
        }
        if let Some(&(_, driver, in_tree)) = KERNEL.iter().find(|kernel| kernel.0 == text) {
            return Ok(Self::Kernel { driver, in_tree });
        }
        if text.starts_with("type=") {
            return Ok(Self::Culvert {
                specification: text.to_owned(),
                private: false,
                in_tree: text.contains("source={tree}"),
            });
        }
        Err(format!(
            "no mount called {text}: one of {}, at:DIRECTORY, or type=...,target={{mnt}} as behind --mount",
            Self::names().collect::<Vec<_>>().join(", ")
        ))
    }
}
