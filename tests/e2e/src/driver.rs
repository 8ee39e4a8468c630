//! The drivers that can be written.

use std::path::Path;

/// What serves a directory that programs write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// `passthrough` with nothing mounted in the kernel: what any user gets.
    Passthrough,
    /// `passthrough`, bound over its target in a mount namespace of the run: what root gets.
    Bound,
    /// `passthrough,driven`: every operation is a call of the driver.
    Driven,
    /// `memory`.
    Memory,
    /// `memory` with little of it: the rest lies in the directory behind it.
    Spilled,
    /// `passthrough,driven` that shows nobody its files' descriptors: a stand-in for drivers that
    /// have none.
    NoDescriptor,
    /// `passthrough,paths`: a driver written with the path adapter.
    Paths,
    /// `passthrough` below a layer, which shows no descriptors either: `fault` with a rule that
    /// never strikes.
    Layered,
    /// `passthrough` below a layer that leaves the bytes of files alone: descriptors are the
    /// kernel's files, and other calls on them the layer's.
    Backed,
    /// `plfs`: the directory behind it holds containers.
    Plfs,
    /// `bind` without options.
    Bind,
    /// `bind` that shows modes as they are, but by rules: what is shown decides who may do what.
    Shown,
    /// A union of one branch.
    Union,
    /// `passthrough` below the layer `casefold`.
    Casefold,
    /// An overlay: the directory is the upper layer, and the lower one is empty.
    Overlay,
    /// An overlay with the directory as lower layer below memory, as images of containers are.
    Image,
    /// The same with archives, made beside the directory: see [`Driver::lay`].
    Archives,
}

/// The archives of [`Driver::Archives`], the upper one first.
const ARCHIVES: [&str; 2] = ["top.tar.zst", "base.tar.gz"];

/// Makes them. Both have a directory `d`, in which the test works.
const LAY: &str = "
mkdir -p base/d/e top/d
seq 50000 | tee base/d/file.large.17 > base/d/file.small.17
echo gone > base/d/gone
echo below > base/d/both
echo above > top/d/both
: > top/d/.wh.gone
chmod 755 base top
tar -C base -czf base.tar.gz .
tar -C top -c . | zstd -qf -o top.tar.zst
rm -r base top
";

/// Directories beside the one that [`Driver::Overlay`] changes.
const BESIDE: [&str; 2] = ["lower", "work"];

impl Driver {
    /// Makes what it has below besides directories; `source` is the directory behind it.
    pub fn lay(self, source: &Path) {
        if self == Self::Archives {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-ec", LAY]);
            let above = source
                .parent()
                .expect("the directory is in one of the test");
            let status = shell.current_dir(above).status().expect("sh");
            assert!(status.success(), "the archives cannot be made");
        }
    }

    /// Empty directories that it needs beside the one behind it.
    pub fn beside(self) -> &'static [&'static str] {
        match self {
            Self::Overlay => &BESIDE,
            _ => &[],
        }
    }

    /// Those that every program is tried on. The last two differ from `driven` in mappings only.
    pub const ALL: [Self; 4] = [Self::Passthrough, Self::Bound, Self::Driven, Self::Memory];

    /// The words for `culvert run` that mount it at `target`; `source` is the directory behind it,
    /// if it has one.
    pub fn words(self, source: &Path, target: &Path) -> Vec<String> {
        let beside = |name| source.with_file_name(name).display().to_string();
        let (source, target) = (source.display(), target.display());
        let pure = "--no-private".to_owned();
        let volume = "-v".to_owned();
        match self {
            Self::Passthrough => vec![pure, volume, format!("{source}:{target}")],
            Self::Bound => vec![volume, format!("{source}:{target}")],
            Self::Driven => vec![pure, volume, format!("{source}:{target}:driven")],
            Self::Memory => vec![
                pure,
                "--mount".to_owned(),
                format!("type=memory,target={target}"),
            ],
            Self::Spilled => vec![
                pure,
                "--mount".to_owned(),
                format!("type=memory,size=1m,spill={source},target={target}"),
            ],
            Self::NoDescriptor => vec![
                pure,
                volume,
                format!("{source}:{target}:driven,descriptor=no"),
            ],
            Self::Paths => vec![pure, volume, format!("{source}:{target}:paths")],
            Self::Plfs => vec![
                pure,
                "--mount".to_owned(),
                format!("type=plfs,source={source},target={target}"),
            ],
            Self::Union => vec![
                pure,
                "--mount".to_owned(),
                format!("type=union,source={source},target={target},minfreespace=0"),
            ],
            Self::Casefold => vec![pure, volume, format!("{source}:{target}:layer=casefold")],
            Self::Overlay => {
                let [lower, work] = BESIDE.map(beside);
                let mount = format!(
                    "type=overlay,lowerdir={lower},upperdir={source},workdir={work},target={target}"
                );
                vec![pure, "--mount".to_owned(), mount]
            }
            Self::Image => vec![
                pure,
                "--mount".to_owned(),
                format!("type=overlay,lowerdir={source},upperdir=memory:,target={target}"),
            ],
            Self::Archives => {
                let [top, base] = ARCHIVES.map(beside);
                let layers = format!("lowerdir={top}:{base},upperdir=memory:");
                let mount = format!("type=overlay,{layers},redirect_dir=on,target={target}");
                vec![pure, "--mount".to_owned(), mount]
            }
            Self::Layered => vec![
                pure,
                volume,
                format!("{source}:{target}:layer=fault,fault.rule=read+after=1000000000+errno=EIO"),
            ],
            Self::Backed => vec![
                pure,
                volume,
                format!(
                    "{source}:{target}:layer=fault,fault.rule=attributes+after=1000000000+errno=EIO"
                ),
            ],
            Self::Bind | Self::Shown => {
                let perms = if self == Self::Shown { ",perms=a+" } else { "" };
                let mount = format!("type=bind,source={source},target={target}{perms}");
                vec![pure, "--mount".to_owned(), mount]
            }
        }
    }

    /// Whether the test of this module path is about what this driver promises: [`NOT_BY_PATHS`].
    pub fn promises(self, test: &str) -> bool {
        self != Self::Paths || !NOT_BY_PATHS.iter().any(|(part, _)| test.contains(part))
    }

    /// Its name in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Bound => "bound",
            Self::Driven => "driven",
            Self::Memory => "memory",
            Self::Spilled => "spilled",
            Self::NoDescriptor => "no-descriptor",
            Self::Paths => "paths",
            Self::Layered => "layered",
            Self::Backed => "backed",
            Self::Plfs => "plfs",
            Self::Bind => "bind",
            Self::Shown => "shown",
            Self::Union => "union",
            Self::Casefold => "casefold",
            Self::Overlay => "overlay",
            Self::Image => "image",
            Self::Archives => "archives",
        }
    }
}

/// What a driver that knows files by their names alone does not promise (docs/writing-a-driver.md,
/// section 1), and the test that would ask for it.
const NOT_BY_PATHS: &[(&str, &str)] = &[
    (
        "::a_directory_is_followed_when_others_rename_it::",
        "what another process moved is ESTALE",
    ),
    (
        "::names_that_change_under_a_call_do_not_show::",
        "what another process moved is ESTALE",
    ),
    (
        "::a_directory_that_was_removed_is_empty::",
        "what another process removed is ESTALE",
    ),
    (
        "::removed_directories_stay_for_who_holds_them::",
        "what another process removed is ESTALE",
    ),
    (
        "::a_removed_working_directory::",
        "what another process removed is ESTALE",
    ),
    (
        "::ones_own_directory_is_removed_or_moved::",
        "what another process removed is ESTALE",
    ),
    (
        "::deeper_than_a_path_is_long::",
        "a noted path is at most PATH_MAX long",
    ),
    (
        "mapping::holes_and_sparse_files::",
        "a mapped hole of a terabyte is read byte by byte",
    ),
    ("mapping::names_and_times::", "O_TMPFILE is EOPNOTSUPP"),
    (
        "::open_flags_and_files_without_names::",
        "O_TMPFILE is EOPNOTSUPP",
    ),
    (
        "::files_without_a_name_get_one::",
        "O_TMPFILE is EOPNOTSUPP",
    ),
    (
        "::shared_extents_are_the_file_systems_affair::",
        "FICLONERANGE is EOPNOTSUPP",
    ),
    (
        "::what_is_executed_is_not_written_and_what_is_written_not_executed::",
        "what another process has open for writing is not known",
    ),
    (
        "::small_things_are_as_natively::",
        "O_TMPFILE is EOPNOTSUPP",
    ),
    (
        "::few_descriptors_for_writers::",
        "each open file has a descriptor of the driver's beside the program's",
    ),
    (
        "::named_sockets_and_fifos::",
        "an inode number may be used again while a FIFO of it is open",
    ),
];
