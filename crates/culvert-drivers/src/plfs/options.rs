//! The options of a plfs mount.

use super::layout;
use super::plfsrc::{MountPoint, Plfsrc};
use super::service::address;
use crate::archive::warning::printable;
use crate::option_table::option_table;
use crate::{
    AccessTimes, Declared, OptionTable, OtherUser, Source, Warnings, check_names, invalid_option,
};
use alloc::{format, string::String, vec::Vec};
use culvert::{Errno, Error, Result, mount::Mount};

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Name,
    recognises: |_| false,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Own,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// What `culvert drivers plfs` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "sync",
        "no|auto|hosts|SOCKET",
        "appends find the end by locks (default), or by a synchronisation service: the \
            user's own, that of all hosts, or that at SOCKET"
    ),
    (
        "tls",
        "no|yes|SOCKET",
        "with sync=hosts: what is asked of the service goes by TLS, by the user's own \
            relay, or that at SOCKET (default: no)"
    ),
    (
        "plfsrc",
        "FILE",
        "read settings from FILE; the source is then a mount point that it names"
    ),
    (
        "workload",
        "shared_file|file_per_proc|small_file",
        "a container for each file (default), plain files spread over the back ends, or \
            all files of a directory in a few"
    ),
    (
        "num_hostdirs",
        "N",
        "directories of droppings in a container, 1 to 1024 (default: 32)"
    ),
    (
        "index",
        "each|lazy",
        "write a record before each write is answered (default), or as PLFS, which loses \
            some when killed"
    ),
    (
        "index_memory",
        "MB",
        "most memory for what an index holds that follows no pattern (default: 64)"
    ),
    (
        "append",
        "lock|own",
        "appends of all processes of a host find the end (default), or each its own, as \
            LDPLFS"
    ),
    (
        "consistency",
        "strict|close",
        "what other processes write is seen at once (default), or when both have synced, \
            and by open"
    ),
    (
        "host",
        "NAME",
        "the name of this host in names of droppings (default: the host's)"
    ),
    ("ro", "", "read-only"),
    ("rw", "", "writable (default)"),
];

/// The travelling option that names the counters of the run.
pub const COUNTERS: &str = "counters";
/// The travelling option with the check sum of the back ends.
pub const CHECKSUM: &str = "checksum";
/// The travelling option that says: machines see each other's writes when they were synced.
pub const SYNCS: &str = "syncs";

/// The value of `sync` for the service of all hosts.
pub const HOSTS: &[u8] = b"hosts";

/// What a back end is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Containers and droppings.
    Both,
    /// Containers.
    Canonical,
    /// Droppings.
    Shadow,
}

/// How files lie on the back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A container for each.
    SharedFile,
    /// As plain files.
    FilePerProc,
    /// All of a directory in a few files.
    SmallFile,
}

impl Workload {
    /// The value of the option.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::SharedFile => b"shared_file",
            Self::FilePerProc => b"file_per_proc",
            Self::SmallFile => b"small_file",
        }
    }
}

/// The options of one mount, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Back ends as they were given.
    pub backends: Vec<(Vec<u8>, Role)>,
    /// `plfsrc`.
    pub plfsrc: Option<Vec<u8>>,
    /// `workload`.
    pub workload: Workload,
    /// `num_hostdirs`.
    pub hostdirs: u64,
    /// `index=lazy`.
    pub lazy: bool,
    /// `index_memory`, megabytes.
    pub memory: u64,
    /// `consistency=close`.
    pub at_sync: bool,
    /// `append=lock`.
    pub lock_appends: bool,
    /// `sync`: the service's socket, or [`HOSTS`].
    pub sync: Option<Vec<u8>>,
    /// `tls`: the address of the relay.
    pub relay: Option<Vec<u8>>,
    /// `host`.
    pub host: Option<Vec<u8>>,
    /// `ro`.
    pub read_only: bool,
    /// [`COUNTERS`].
    pub counters: Option<Vec<u8>>,
    /// [`CHECKSUM`].
    pub checksum: u32,
    /// [`SYNCS`].
    pub syncs: bool,
}

impl Options {
    /// The options of `mount` as the user gave them.
    pub fn parse(mount: &Mount) -> Result<Self> {
        check_names(OPTIONS, mount)?;
        Self::travelled(mount)
    }

    /// Those of a mount that [`super::prepare`] has made ready.
    pub fn travelled(mount: &Mount) -> Result<Self> {
        let mut options = Self {
            backends: backends(&mount.source)?,
            plfsrc: None,
            workload: Workload::SharedFile,
            hostdirs: layout::HOSTDIRS,
            lazy: false,
            memory: 64,
            at_sync: false,
            lock_appends: true,
            sync: None,
            relay: None,
            host: None,
            read_only: mount.read_only(),
            counters: None,
            checksum: 0,
            syncs: false,
        };
        for (name, value) in &mount.options {
            options.set(name, value)?;
        }
        match (options.sync.is_some(), options.lock_appends) {
            (true, false) => refused("sync and append=own exclude each other"),
            _ if options.relay.is_some() && options.sync.as_deref() != Some(HOSTS) => {
                refused("tls is for sync=hosts")
            }
            _ => Ok(options),
        }
    }

    fn set(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let wrong = |why| Err(invalid_option(name, value, why));
        match (name, value) {
            ("sync", b"no") => self.sync = None,
            ("sync", b"auto") => {
                return wrong("only the command starts a service; name its socket");
            }
            ("sync", HOSTS) => self.sync = Some(HOSTS.to_vec()),
            ("sync", path) if address(path).is_some() => self.sync = Some(path.to_vec()),
            ("sync", _) => {
                return wrong(
                    "no, auto, hosts or the absolute path of a socket is needed, of 107 bytes",
                );
            }
            ("tls", b"no") => self.relay = None,
            ("tls", b"yes") => {
                return wrong("only the command starts a relay; name its socket");
            }
            ("tls", path) => match address(path) {
                Some(relay) => self.relay = Some(relay),
                None => return wrong("no, yes or the absolute path of a socket is needed"),
            },
            ("plfsrc", b"") => return wrong("a file is needed"),
            ("plfsrc", file) => self.plfsrc = Some(file.to_vec()),
            ("workload", b"shared_file" | b"n-1") => self.workload = Workload::SharedFile,
            ("workload", b"file_per_proc" | b"n-n") => self.workload = Workload::FilePerProc,
            ("workload", b"small_file" | b"1-n") => self.workload = Workload::SmallFile,
            ("workload", _) => return wrong("shared_file, file_per_proc or small_file is needed"),
            ("num_hostdirs", text) => match layout::number(text) {
                Some(number) if (1..=layout::MOST_HOSTDIRS).contains(&number) => {
                    self.hostdirs = number;
                }
                _ => return wrong("1 to 1024 is needed"),
            },
            ("index", b"each") => self.lazy = false,
            ("index", b"lazy") => self.lazy = true,
            ("index", _) => return wrong("each or lazy is needed"),
            ("index_memory", text) => match layout::number(text) {
                Some(number) if (1..=1 << 20).contains(&number) => self.memory = number,
                _ => return wrong("megabytes, at least 1"),
            },
            ("consistency", b"strict") => self.at_sync = false,
            ("consistency", b"close") => self.at_sync = true,
            ("consistency", _) => return wrong("strict or close is needed"),
            ("append", b"lock") => self.lock_appends = true,
            ("append", b"own") => self.lock_appends = false,
            ("append", _) => return wrong("lock or own is needed"),
            ("host", name) => {
                let right = !name.is_empty() && name.len() <= 64;
                if !right || name.iter().any(|byte| matches!(byte, 0..=b' ' | b'/')) {
                    return wrong("a name of up to 64 bytes is needed");
                }
                self.host = Some(name.to_vec());
            }
            (COUNTERS, path) => self.counters = Some(path.to_vec()),
            (SYNCS, _) => self.syncs = true,
            (CHECKSUM, text) => self.checksum = layout::number(text).unwrap_or(0) as u32,
            ("ro" | "rw", value) if !value.is_empty() => return wrong("it takes no value"),
            _ => {}
        }
        Ok(())
    }

    /// Takes what `read` says of the mount point that is the source, where no option says it.
    pub fn take(&mut self, mount: &Mount, read: &Plfsrc, warnings: &mut Warnings) -> Result<()> {
        let point = find(read, &mount.source)?;
        let mut backends = Vec::new();
        for (location, kind) in &point.backends {
            let role = match kind.as_str() {
                "" => Role::Both,
                "canonical" => Role::Canonical,
                "shadow" => Role::Shadow,
                _ => return refused(&format!("type {kind} of {location}")),
            };
            let path = location.strip_prefix("posix:").unwrap_or(location);
            if !path.starts_with('/') {
                return refused(&format!("{location}: only directories are back ends"));
            }
            backends.push((path.as_bytes().to_vec(), role));
        }
        self.backends = backends;
        let all = read.global.iter().chain(&point.settings);
        for (name, value) in all {
            let given = mount.options.iter().any(|(given, _)| given == name);
            match name.as_str() {
                "num_hostdirs" | "workload" if !given => self.set(name, value.as_bytes())?,
                "num_hostdirs" | "workload" => {}
                _ => warnings.add(name.as_bytes(), "this setting of plfsrc has no effect"),
            }
        }
        Ok(())
    }

    /// Whether files are the kernel's own, which appends by itself.
    pub fn is_flat(&self) -> bool {
        self.workload == Workload::FilePerProc
    }

    /// The check sum that version files hold: of the back ends for both.
    pub fn sum(&self) -> u32 {
        let both = self.backends.iter().filter(|(_, role)| *role == Role::Both);
        let paths: Vec<&[u8]> = both.map(|(path, _)| path.as_slice()).collect();
        if paths.is_empty() {
            return u32::MAX;
        }
        layout::hash(&paths.join(&b',')) as u32
    }

    /// The numbers of the back ends for containers, and of those for droppings.
    pub fn roles(&self) -> Result<(Vec<usize>, Vec<usize>)> {
        let of = |one: Role| {
            let with = |role: Role| {
                self.backends
                    .iter()
                    .enumerate()
                    .filter(move |(_, back)| back.1 == role)
            };
            with(Role::Both)
                .chain(with(one))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let (canonical, shadow) = (of(Role::Canonical), of(Role::Shadow));
        match canonical.is_empty() || shadow.is_empty() {
            true => refused("there must be a canonical and a shadow back end"),
            false => Ok((canonical, shadow)),
        }
    }
}

fn refused<T>(why: &str) -> Result<T> {
    Err(Error::because(Errno::EINVAL, String::from(why)))
}

fn find<'a>(read: &'a Plfsrc, source: &[u8]) -> Result<&'a MountPoint> {
    let found = read
        .mounts
        .iter()
        .find(|point| point.path.as_bytes() == source);
    found.ok_or_else(|| {
        let all: Vec<&str> = read
            .mounts
            .iter()
            .map(|point| point.path.as_str())
            .collect();
        let (source, all) = (printable(source), all.join(", "));
        Error::because(
            Errno::EINVAL,
            format!("plfsrc has no mount point {source}; there are: {all}"),
        )
    })
}

/// `DIR[=canonical|=shadow][;DIR...]`.
fn backends(source: &[u8]) -> Result<Vec<(Vec<u8>, Role)>> {
    let each = source.split(|&byte| byte == b';').map(|one| {
        let (path, role) = if let Some(path) = one.strip_suffix(b"=canonical") {
            (path, Role::Canonical)
        } else if let Some(path) = one.strip_suffix(b"=shadow") {
            (path, Role::Shadow)
        } else {
            (one, Role::Both)
        };
        match path {
            b"" => refused("an empty back end"),
            path => Ok((path.to_vec(), role)),
        }
    });
    each.collect()
}

/// The source of a mount that travels.
pub fn source_text(backends: &[(Vec<u8>, Role)]) -> Vec<u8> {
    let each = backends.iter().map(|(path, role)| {
        let role: &[u8] = match role {
            Role::Both => b"",
            Role::Canonical => b"=canonical",
            Role::Shadow => b"=shadow",
        };
        [&path[..], role].concat()
    });
    each.collect::<Vec<_>>().join(&b';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn mount(source: &str, options: &[(&str, &str)]) -> Mount {
        let options = options.iter();
        Mount {
            driver: "plfs".into(),
            source: source.as_bytes().to_vec(),
            target: b"/t".to_vec(),
            options: options
                .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
                .collect(),
            branches: Vec::new(),
        }
    }

    #[test]
    fn sources_are_lists_of_back_ends() {
        let options = Options::parse(&mount("/a;/b=shadow;/c=canonical", &[])).unwrap();
        assert_eq!(options.roles().unwrap(), (std::vec![0, 2], std::vec![0, 1]));
        assert_eq!(source_text(&options.backends), b"/a;/b=shadow;/c=canonical");
        assert_eq!(options.sum(), layout::hash(b"/a") as u32);
        let one = Options::parse(&mount("/a=shadow", &[])).unwrap();
        assert!(one.roles().is_err());
        assert!(Options::parse(&mount("/a;;/b", &[])).is_err());
    }

    #[test]
    fn bad_options_are_refused_with_what_there_is() {
        for (given, want) in [
            (("sync", "auto"), "only the command"),
            (("sync", "yes"), "absolute path"),
            (("tls", "yes"), "only the command"),
            (("tls", "never"), "absolute path"),
            (("tls", "/socket"), "sync=hosts"),
            (("workload", "big_file"), "small_file is needed"),
            (("num_hostdirs", "0"), "1 to 1024"),
            (("index", "never"), "each or lazy"),
            (("append", ""), "lock or own"),
            (("consistency", "lax"), "strict or close"),
            (("host", "a/b"), "a name"),
            (("counters", "/x"), "no option"),
        ] {
            let error = Options::parse(&mount("/a", &[given])).unwrap_err();
            assert!(error.to_string().contains(want), "{given:?}: {error}");
        }
    }

    #[test]
    fn plfsrc_says_what_options_do_not() {
        let mut read = Plfsrc::default();
        let text = "- global_params:\n  num_hostdirs: 7\n  threadpool_size: 3\n- mount_point: \
            /m\n  \
                    backends:\n  - location: /x\n  - location: hdfs://y\n";
        read.read(text).unwrap();
        let mut warnings = Warnings::default();
        let asked = mount("/m", &[]);
        let mut options = Options::parse(&asked).unwrap();
        let error = options.take(&asked, &read, &mut warnings).unwrap_err();
        assert!(error.to_string().contains("hdfs://y"), "{error}");
        read.mounts[0].backends.pop();
        options.take(&asked, &read, &mut warnings).unwrap();
        assert_eq!((options.hostdirs, options.backends.len()), (7, 1));
        let other = mount("/n", &[]);
        let error = options.take(&other, &read, &mut warnings).unwrap_err();
        assert!(error.to_string().contains("there are: /m"), "{error}");
    }
}
