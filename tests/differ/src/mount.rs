//! What is compared with the native run.

use crate::original::Original;
use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;

/// A way in which the program meets its mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mount {
    /// The tree itself, bound to the mount's path: both sides equal, which tests the fuzzer.
    Native,
    /// The same with what the archives of [`Mount::layers`] are together.
    Filled,
    /// `culvert run --mount SPECIFICATION`; `{tree}` and `{mnt}` stand for the two directories.
    ///
    /// Besides, `{second}` and `{third}` are empty directories of the program's user, `{log}` a
    /// file that there is not, `{top}` and `{base}` archives, one to lie over the other.
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
        /// Its source.
        source: &'static str,
        /// Its options.
        options: Cow<'static, str>,
        /// Whether what the program did can be read in the tree afterwards.
        in_tree: bool,
    },
    /// A directory that is something mounted already, by whatever means; it is emptied before each
    /// program.
    At(PathBuf),
    /// A file system of others, by their own command.
    Original(Original),
    /// The second, which is compared with the first.
    Beside(Original, Box<Self>),
}

/// Mounts with names, and what they are.
const NAMED: [(&str, &str, bool, bool); 22] = [
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
    // Nearly all of it lies in a directory.
    (
        "spilled",
        "type=memory,target={mnt},size=1m,spill={second}",
        false,
        false,
    ),
    (
        "avfs",
        "type=passthrough,source={tree},target={mnt},layer=avfs",
        false,
        true,
    ),
    ("bind", "type=bind,source={tree},target={mnt}", false, true),
    // Who may do what is judged by what is shown; paths, rules and names are looked at.
    (
        "bind-rules",
        "type=bind,source={tree},target={mnt},mirror=4711,exclude=*.nobody-has-this,exclude=/no/such,path=/nowhere,delete-deny",
        false,
        true,
    ),
    // Bytes go through the layer.
    (
        "bind-rates",
        "type=bind,source={tree},target={mnt},read-rate=1T,write-rate=1T",
        false,
        true,
    ),
    (
        "log",
        "type=passthrough,source={tree},target={mnt},layer=log,log.file={log}",
        false,
        true,
    ),
    (
        "union",
        "type=union,source={tree}:{second}:{third},target={mnt},minfreespace=0,category.create=ff",
        false,
        true,
    ),
    // Directories on all three branches, and what else is made on any of them.
    (
        "union-spread",
        "type=union,source={tree}:{second}:{third},target={mnt},minfreespace=0,category.create=rand,func.mkdir=all,func.symlink=all",
        false,
        false,
    ),
    (
        "sdcard",
        "type=sdcard,source={tree},target={mnt},view=write,fullwrite,packages=/no/such/list",
        false,
        false,
    ),
    (
        "overlay",
        "type=overlay,lowerdir={tree},upperdir=memory:,target={mnt}",
        false,
        false,
    ),
    // An image of a container.
    (
        "archives",
        "type=overlay,lowerdir={top}:{base},upperdir=memory:,redirect_dir=on,target={mnt}",
        false,
        false,
    ),
    // The directory holds containers.
    ("plfs", "type=plfs,source={tree},target={mnt}", false, false),
    (
        "plfs-spread",
        "type=plfs,source={tree};{second};{third},target={mnt}",
        false,
        false,
    ),
    (
        "server",
        "type=fuse.bindfs,source={tree},target={mnt},attr_timeout=0,entry_timeout=0",
        false,
        true,
    ),
];

/// Kernel mounts: name, type, source, options, whether the tree shows what was done.
const KERNEL: [(&str, &str, &str, &str, bool); 9] = [
    ("kernel", "passthrough", "{tree}", "", true),
    ("kernel-memory", "memory", "memory", "", false),
    (SERVERS, SERVER, "{tree}", SERVER_OPTIONS, true),
    ("kernel-bind", "bind", "{tree}", "", true),
    // What is root's is stored as the other user's and the other way round: nobody sees it.
    (
        "kernel-bind-mapped",
        "bind",
        "{tree}",
        "map=0/65534:65534/0:@0/@65534:@65534/@0",
        false,
    ),
    (
        "kernel-log",
        "passthrough",
        "{tree}",
        "layer=log,log.file={log}",
        true,
    ),
    (
        "kernel-union",
        "union",
        "{tree}:{second}:{third}",
        "minfreespace=0,category.create=rand,func.mkdir=all,func.symlink=all",
        false,
    ),
    ("kernel-plfs", "plfs", "{tree}", "", false),
    (
        STORAGE,
        "sdcard",
        "{tree}",
        "view=write,fullwrite,packages=/no/such/list",
        false,
    ),
];

/// A FUSE server of others.
const SERVER: &str = "fuse.bindfs";
const SERVERS: &str = "kernel-server";
const STORAGE: &str = "kernel-sdcard";
/// Its options in a kernel mount: bindfs says that attributes may be believed for a second, in
/// which the kernel goes on to believe of one name of a file what another has changed.
const SERVER_OPTIONS: &str = "attr_timeout=0,entry_timeout=0";

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
        matches!(
            self,
            Self::Culvert { .. } | Self::Kernel { .. } | Self::Beside(..)
        )
    }

    /// What it is compared with: a server by slots with the same one behind the kernel, Android's
    /// storage, which is like no other file system, with itself there; and what others have built
    /// as well with theirs.
    pub fn reference(&self) -> Self {
        let name = match self {
            Self::Beside(original, _) => return Self::Original(original.clone()),
            Self::Culvert { specification, .. } if specification.contains(SERVER) => SERVERS,
            Self::Culvert { specification, .. } if specification.starts_with("type=sdcard") => {
                STORAGE
            }
            _ if self.layers() => return Self::Filled,
            _ => return Self::Native,
        };
        Self::kernel(name).expect("it is in the list")
    }

    /// Whether the archives are to be there.
    pub fn layers(&self) -> bool {
        match self {
            Self::Filled => true,
            Self::Culvert { specification, .. } => specification.contains("{base}"),
            _ => false,
        }
    }

    fn kernel(name: &str) -> Option<Self> {
        let found = KERNEL.iter().find(|kernel| kernel.0 == name);
        found.map(|&(_, driver, source, options, in_tree)| Self::Kernel {
            driver,
            source,
            options: options.into(),
            in_tree,
        })
    }

    /// What the program meets.
    pub fn itself(&self) -> &Self {
        match self {
            Self::Beside(_, ours) => ours,
            other => other,
        }
    }

    /// The file system of others that it is, or that it is compared with.
    pub const fn original(&self) -> Option<&Original> {
        match self {
            Self::Original(original) | Self::Beside(original, _) => Some(original),
            _ => None,
        }
    }

    /// Whether the tree shows what was done, read natively.
    pub fn in_tree(&self) -> bool {
        match self {
            Self::Native => true,
            Self::Culvert { in_tree, .. } | Self::Kernel { in_tree, .. } => *in_tree,
            Self::At(_) | Self::Filled => false,
            Self::Original(_) | Self::Beside(..) => true,
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
        let (name, more) = text.split_once(',').unwrap_or((text, ""));
        if let Some(mut mount) = Self::kernel(name) {
            if let (Self::Kernel { options, .. }, false) = (&mut mount, more.is_empty()) {
                let given = [options.as_ref(), more].map(str::to_owned);
                *options = given.join(",").trim_start_matches(',').to_owned().into();
            }
            return Ok(mount);
        }
        if let Some(mount) = Original::mount(text)? {
            return Ok(mount);
        }
        if text.starts_with("type=") {
            return Ok(Self::Culvert {
                specification: text.to_owned(),
                private: false,
                in_tree: text.contains("source={tree}"),
            });
        }
        Err(format!(
            "no mount called {text}: one of {}, at:DIRECTORY, or type=...,target={{mnt}} as \
            behind --mount",
            Self::names().collect::<Vec<_>>().join(", ")
        ))
    }
}
