//! What the options of a union mean.

use super::branch::{How, bytes};
use super::listed::{OPTIONS, spelt};
use super::policy::Policy;
use crate::{
    AccessTimes, Declared, OtherUser, Source, check_names_of, invalid_option, words::alternatives,
};
use alloc::{format, string::String, vec::Vec};
use culvert::{
    Result,
    mount::{Mount, Options},
};

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Branches,
    recognises: |_| false,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Source,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: Some(|branch, node, _| Ok([super::number(branch, node)].into())),
};

/// What is done by a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// chmod(2).
    Chmod,
    /// chown(2).
    Chown,
    /// link(2).
    Link,
    /// removexattr(2).
    RemoveXattr,
    /// rename(2).
    Rename,
    /// rmdir(2).
    Rmdir,
    /// setxattr(2).
    SetXattr,
    /// truncate(2).
    Truncate,
    /// unlink(2).
    Unlink,
    /// utimensat(2).
    Utimens,
    /// creat(2).
    Create,
    /// mkdir(2).
    Mkdir,
    /// mknod(2).
    Mknod,
    /// symlink(2).
    Symlink,
    /// access(2).
    Access,
    /// stat(2), and what a name is.
    Getattr,
    /// getxattr(2).
    Getxattr,
    /// listxattr(2).
    Listxattr,
    /// open(2).
    Open,
    /// readlink(2).
    Readlink,
}

/// The functions in their order, by mergerfs's names.
const FUNCTIONS: [&str; 20] = [
    "chmod",
    "chown",
    "link",
    "removexattr",
    "rename",
    "rmdir",
    "setxattr",
    "truncate",
    "unlink",
    "utimens",
    "create",
    "mkdir",
    "mknod",
    "symlink",
    "access",
    "getattr",
    "getxattr",
    "listxattr",
    "open",
    "readlink",
];

/// Which of the functions each category has, and its policy.
const CATEGORIES: [(&str, core::ops::Range<usize>, &str); 3] = [
    ("action", 0..10, "epall"),
    ("create", 10..14, "pfrd"),
    ("search", 14..20, "ff"),
];

/// How `st_ino` is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InodeCalc {
    /// Of a directory the node that names it, of all else branch and inode.
    #[default]
    Hybrid,
    /// Branch and inode.
    DevIno,
    /// The path.
    Path,
    /// The branch's own.
    Passthrough,
}

/// What becomes of a link or a rename that is `EXDEV`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exdev {
    /// That.
    #[default]
    Error,
    /// A symbolic link, relative.
    Relative,
    /// A symbolic link by the path of the branch.
    AbsoluteBase,
    /// A symbolic link by the path of the mount.
    AbsolutePool,
}

/// Which symbolic links are shown as what they lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// None.
    #[default]
    Never,
    /// Those to directories.
    Directories,
    /// Those to regular files.
    Files,
    /// All.
    All,
}

/// Of which branches statfs(2) says that nothing is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Untold {
    /// Those of which it is so.
    #[default]
    Nothing,
    /// Those with `RO` or `NC`.
    NothingCreated,
    /// Those with `NC`.
    NoCreate,
}

/// The options of one mount, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    policies: [Policy; FUNCTIONS.len()],
    /// Where less space is left, nothing is created.
    pub least: u64,
    /// `inodecalc`.
    pub inodes: InodeCalc,
    /// Inodes of 32 bits.
    pub narrow: bool,
    /// How many branches are listed at once.
    pub lists_at_once: usize,
    /// Whether statfs(2) sums up only branches that have the path.
    pub statfs_of_path: bool,
    /// Of which branches free space is not told.
    pub untold: Untold,
    /// Whether a rename goes by the paths that branches have.
    pub renames_by_path: Option<bool>,
    /// By which a file is moved that has no room.
    pub moves: Option<Policy>,
    /// What becomes of a link that is `EXDEV`.
    pub link_exdev: Exdev,
    /// What becomes of a rename that is `EXDEV`.
    pub rename_exdev: Exdev,
    /// Which links are shown as what they lead to.
    pub follow: Follow,
    /// After how many seconds files that nobody may write are shown as links.
    pub symlinkify: bool,
    /// How long they have not changed.
    pub symlinkify_timeout: u32,
    /// Whether a file with several names is copied when it is opened for writing.
    pub copies_links: bool,
}

/// The function that has no policy.
const LISTING: &str = "func.readdir";

/// How many branches are listed at once: `seq`, or `cosr` (opened at once) or `cor` (read, too),
/// which here are the same, with a number of threads, where 0 and none are as many as there are
/// branches.
fn at_once(value: &[u8]) -> Result<usize> {
    let mut words = value.splitn(2, |&byte| byte == b':');
    let (way, count) = (words.next().unwrap_or_default(), words.next());
    let number = count.map(|count| {
        let digits = core::str::from_utf8(count).ok();
        digits.and_then(|digits| digits.parse().ok())
    });
    match (way, number) {
        (b"seq", None) => Ok(1),
        (b"cosr" | b"cor", None | Some(Some(0))) => Ok(usize::MAX),
        (b"cosr" | b"cor", Some(Some(count))) => Ok(count),
        _ => {
            let why =
                "none of seq, cosr and cor, the last two perhaps with a number behind a colon";
            Err(invalid_option(LISTING, value, why))
        }
    }
}

/// Option `name`: yes or no.
fn flag(name: &str, value: &[u8]) -> Result<bool> {
    match value {
        b"" | b"true" | b"t" | b"1" | b"on" | b"yes" => Ok(true),
        b"false" | b"f" | b"0" | b"off" | b"no" => Ok(false),
        _ => Err(invalid_option(name, value, "neither true nor false")),
    }
}

impl Settings {
    /// Those of `mount`; `EINVAL` with what is wrong and what there is.
    pub fn parse(mount: &Mount) -> Result<Self> {
        let given = mount.options.iter();
        let options: Options = given
            .map(|(name, value)| (spelt(name), value.clone()))
            .collect();
        check_names_of(&format!("driver {}", mount.driver), OPTIONS, &options)?;
        let default = |at: usize| {
            let category = CATEGORIES.iter().find(|(_, range, _)| range.contains(&at));
            let name = category.map_or("ff", |category| category.2);
            Policy::named(name.as_bytes()).expect("a default is one")
        };
        let mut settings = Self {
            policies: core::array::from_fn(default),
            least: 4 << 30,
            inodes: InodeCalc::default(),
            narrow: false,
            lists_at_once: 1,
            statfs_of_path: false,
            untold: Untold::default(),
            renames_by_path: None,
            moves: None,
            link_exdev: Exdev::default(),
            rename_exdev: Exdev::default(),
            follow: Follow::default(),
            symlinkify: false,
            symlinkify_timeout: 3600,
            copies_links: false,
        };
        for (name, value) in &options {
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    /// Sets option `name`, which there is, as `spelt` says.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<()> {
        if let Some(category) = name.strip_prefix("category.") {
            let policy = policy(name, value)?;
            for (_, range, _) in CATEGORIES.iter().filter(|one| one.0 == category) {
                self.policies[range.clone()].fill(policy);
            }
        } else if name == LISTING {
            self.lists_at_once = at_once(value)?;
        } else if let Some(function) = name.strip_prefix("func.") {
            let policy = policy(name, value)?;
            if let Some(at) = FUNCTIONS.iter().position(|known| *known == function) {
                self.policies[at] = policy;
            }
        }
        match name {
            "minfreespace" => self.least = bytes(name, value)?,
            "inodecalc" => {
                (self.inodes, self.narrow) = match value {
                    b"hybrid-hash" => (InodeCalc::Hybrid, false),
                    b"hybrid-hash32" => (InodeCalc::Hybrid, true),
                    b"devino-hash" => (InodeCalc::DevIno, false),
                    b"devino-hash32" => (InodeCalc::DevIno, true),
                    b"path-hash" => (InodeCalc::Path, false),
                    b"path-hash32" => (InodeCalc::Path, true),
                    b"passthrough" => (InodeCalc::Passthrough, false),
                    _ => return Err(invalid_option(name, value, "there is no such way")),
                }
            }
            "statfs-ignore" => {
                self.untold = match value {
                    b"none" => Untold::Nothing,
                    b"ro" => Untold::NothingCreated,
                    b"nc" => Untold::NoCreate,
                    _ => return Err(invalid_option(name, value, "none of none, ro and nc")),
                }
            }
            "moveonenospc" => {
                self.moves = match flag(name, value) {
                    Ok(true) => Policy::named(b"pfrd"),
                    Ok(false) => None,
                    Err(_) => Some(policy(name, value)?),
                }
            }
            "link-exdev" => {
                self.link_exdev = match value {
                    b"passthrough" => Exdev::Error,
                    b"rel-symlink" => Exdev::Relative,
                    b"abs-base-symlink" => Exdev::AbsoluteBase,
                    b"abs-pool-symlink" => Exdev::AbsolutePool,
                    _ => return Err(invalid_option(name, value, "there is no such way")),
                }
            }
            "rename-exdev" => {
                self.rename_exdev = match value {
                    b"passthrough" => Exdev::Error,
                    b"rel-symlink" => Exdev::Relative,
                    b"abs-symlink" => Exdev::AbsolutePool,
                    _ => return Err(invalid_option(name, value, "there is no such way")),
                }
            }
            "follow-symlinks" => {
                self.follow = match value {
                    b"never" => Follow::Never,
                    b"directory" => Follow::Directories,
                    b"regular" => Follow::Files,
                    b"all" => Follow::All,
                    _ => return Err(invalid_option(name, value, "there is no such way")),
                }
            }
            "symlinkify" => self.symlinkify = flag(name, value)?,
            "symlinkify-timeout" => {
                let number = core::str::from_utf8(value).ok();
                let number = number.and_then(|number| number.parse().ok());
                let why = "not a number of seconds";
                let wrong = || invalid_option(name, value, why);
                self.symlinkify_timeout = number.ok_or_else(wrong)?;
            }
            "link-cow" => self.copies_links = flag(name, value)?,
            "statfs" => {
                self.statfs_of_path = match value {
                    b"base" => false,
                    b"full" => true,
                    _ => return Err(invalid_option(name, value, "neither base nor full")),
                }
            }
            "ignorepponrename" => self.renames_by_path = flag(name, value)?.then_some(false),
            _ => {}
        }
        Ok(())
    }

    /// The value of option `name`, as `spelt` says, where it can be changed while the mount lives.
    pub fn told(&self, name: &str) -> Option<String> {
        if let Some(category) = name.strip_prefix("category.") {
            let (_, range, _) = CATEGORIES.iter().find(|one| one.0 == category)?;
            let mut names: Vec<_> = self.policies[range.clone()]
                .iter()
                .map(|one| one.name)
                .collect();
            names.sort_unstable();
            names.dedup();
            return Some(names.join(","));
        }
        if name == LISTING {
            return Some(match self.lists_at_once {
                1 => "seq".into(),
                usize::MAX => "cor".into(),
                count => format!("cor:{count}"),
            });
        }
        if let Some(function) = name.strip_prefix("func.") {
            let at = FUNCTIONS.iter().position(|known| *known == function)?;
            return Some(self.policies[at].name.into());
        }
        let exdev = |how| match how {
            Exdev::Error => "passthrough",
            Exdev::Relative => "rel-symlink",
            Exdev::AbsoluteBase => "abs-base-symlink",
            Exdev::AbsolutePool if name == "rename-exdev" => "abs-symlink",
            Exdev::AbsolutePool => "abs-pool-symlink",
        };
        Some(match name {
            "minfreespace" => format!("{}", self.least),
            "moveonenospc" => self.moves.map_or("false", |policy| policy.name).into(),
            "link-exdev" => exdev(self.link_exdev).into(),
            "rename-exdev" => exdev(self.rename_exdev).into(),
            "follow-symlinks" => match self.follow {
                Follow::Never => "never",
                Follow::Directories => "directory",
                Follow::Files => "regular",
                Follow::All => "all",
            }
            .into(),
            "statfs" => if self.statfs_of_path { "full" } else { "base" }.into(),
            "statfs-ignore" => match self.untold {
                Untold::Nothing => "none",
                Untold::NothingCreated => "ro",
                Untold::NoCreate => "nc",
            }
            .into(),
            "symlinkify" => format!("{}", self.symlinkify),
            "symlinkify-timeout" => format!("{}", self.symlinkify_timeout),
            "link-cow" => format!("{}", self.copies_links),
            "ignorepponrename" => format!("{}", self.renames_by_path == Some(false)),
            _ => return None,
        })
    }

    /// The policy of `function`.
    pub const fn policy(&self, function: Function) -> Policy {
        self.policies[function as usize]
    }

    /// Whether links and renames stay where the paths are already.
    pub const fn keeps_paths(&self) -> bool {
        match self.renames_by_path {
            Some(keeps) => keeps,
            None => self.policy(Function::Create).keeps_paths(),
        }
    }
}

fn policy(name: &str, value: &[u8]) -> Result<Policy> {
    Policy::named(value).ok_or_else(|| {
        let shown = String::from_utf8_lossy(value);
        let more = alternatives(&shown, Policy::names());
        invalid_option(name, value, &format!("there is no such policy{more}"))
    })
}

/// What the user says of each branch of `mount`.
pub fn modes(mount: &Mount) -> Result<Vec<How>> {
    let count = mount.branches.len();
    let Some(text) = mount.option("modes") else {
        return Ok(alloc::vec![How::default(); count]);
    };
    let each = text.split(|&byte| byte == b':').map(How::parse);
    let modes: Vec<How> = each.collect::<Result<_>>()?;
    match modes.len() == count {
        true => Ok(modes),
        false => {
            let why = format!("one for each of the {count} branches is wanted");
            Err(invalid_option("modes", text, &why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert::mount::parse_volume;
    use std::string::ToString;

    fn settings(options: &str) -> Result<Settings> {
        // A colon of an option stands behind a backslash in a volume.
        let text = format!("/a:/b:/m:type=union,{}", options.replace(':', "\\:"));
        Settings::parse(&parse_volume(text.as_bytes()).unwrap().into_mount(""))
    }

    #[test]
    fn the_functions_are_in_the_order_of_their_names() {
        let of = |function: Function| FUNCTIONS[function as usize];
        assert_eq!(of(Function::Chmod), "chmod");
        assert_eq!(of(Function::Create), "create");
        assert_eq!(of(Function::Readlink), "readlink");
        for name in FUNCTIONS {
            let name = format!("func.{name}");
            assert!(OPTIONS.has(&name), "{name}");
        }
    }

    #[test]
    fn the_last_word_about_a_function_holds() {
        let found = settings("category.action=ff,func.chmod=eprand,func.open=newest").unwrap();
        let of = |function| found.policy(function).name;
        assert_eq!(of(Function::Chmod), "eprand");
        assert_eq!(of(Function::Unlink), "ff");
        assert_eq!(of(Function::Open), "newest");
        assert_eq!(of(Function::Getattr), "ff");
        assert_eq!(of(Function::Mkdir), "pfrd");
        let found = settings("func.mkdir=epff,category.create=mfs").unwrap();
        assert_eq!(found.policy(Function::Mkdir).name, "mfs");
        let found = settings("func.readdir=cosr:4").unwrap();
        assert_eq!(found.told("func.readdir").unwrap(), "cor:4");
        assert_eq!(found.least, 4 << 30);
    }

    #[test]
    fn the_words_of_mergerfs_are_options() {
        for (options, name, want) in [
            ("minfreespace=1", "moveonenospc", "false"),
            ("moveonenospc", "moveonenospc", "pfrd"),
            ("moveonenospc=true", "moveonenospc", "pfrd"),
            ("moveonenospc=off", "moveonenospc", "false"),
            ("moveonenospc=mfs", "moveonenospc", "mfs"),
            ("link_cow=true", "link-cow", "true"),
            ("link-cow=yes", "link-cow", "true"),
            ("link_cow=true,link-cow=no", "link-cow", "false"),
            ("symlinkify_timeout=7", "symlinkify-timeout", "7"),
            ("symlinkify-timeout=7", "symlinkify-timeout", "7"),
            ("follow_symlinks=all", "follow-symlinks", "all"),
            ("link_exdev=rel-symlink", "link-exdev", "rel-symlink"),
            ("statfs_ignore=nc", "statfs-ignore", "nc"),
        ] {
            let found = settings(options).unwrap();
            assert_eq!(found.told(name).unwrap(), want, "{options}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (options, want) in [
            (
                "category.create=mft",
                "there is no such policy; did you mean mfs?",
            ),
            ("minfreespace=many", "not a size"),
            ("inodecalc=x", "there is no such way"),
            ("func.creat=ff", "did you mean func.create?"),
            ("ignorepponrename=maybe", "neither true nor false"),
            ("moveonenospc=some", "there is no such policy"),
            ("symlink_cow=true", "has no option"),
            ("func.readdir=par", "none of seq, cosr and cor"),
            ("func.readdir=cor:x", "none of seq, cosr and cor"),
            ("statfs=some", "neither base nor full"),
        ] {
            let said = settings(options).unwrap_err().to_string();
            assert!(said.contains(want), "{options}: {said}");
        }
    }
}
