//! The options, and what they mean.

use super::{pattern::Pattern, permissions::Permissions, users::number};
use crate::{OptionInfo, invalid_option};
use alloc::{format, vec::Vec};
use culvert::{Errno, Error, Result, mount::Options};

/// The option that says where the words lie in which the processes of a run count their rates;
/// nobody may write it.
pub const SHARED_RATES: &str = "rates";

const fn flag(name: &'static str, summary: &'static str) -> OptionInfo {
    value(name, "", summary)
}

const fn value(name: &'static str, value: &'static str, summary: &'static str) -> OptionInfo {
    OptionInfo {
        name,
        value,
        summary,
    }
}

/// What `culvert drivers bind` shows: bindfs's own, then those for paths.
pub const OPTIONS: &[OptionInfo] = &[
    value("force-user", "USER", "all files are USER's"),
    value("force-group", "GROUP", "all files are GROUP's"),
    value(
        "perms",
        "RULES",
        "permission bits as they are shown: RULES are chmod's, with D, d and f, separated by colons (u=rwX:g=rD:o=)",
    ),
    value(
        "mirror",
        "USER|@GROUP[:...]",
        "each of these users sees all files as his own",
    ),
    value(
        "mirror-only",
        "USER|@GROUP[:...]",
        "the same, and no other user but root gets in",
    ),
    value(
        "map",
        "FROM/TO[:@GROUP/@GROUP...]",
        "what is FROM's is shown as TO's; what TO makes is FROM's (root's kernel mounts)",
    ),
    value(
        "map-passwd",
        "FILE",
        "map as in a file like passwd(5): its numbers to the users of these names here (root's kernel mounts)",
    ),
    value("map-group", "FILE", "the same for groups"),
    value(
        "map-passwd-rev",
        "FILE",
        "as map-passwd, the other way round",
    ),
    value("map-group-rev", "FILE", "the same for groups"),
    value(
        "uid-offset",
        "N",
        "owners are shown as this much larger numbers (root's kernel mounts)",
    ),
    value("gid-offset", "N", "the same for groups"),
    flag(
        "create-as-user",
        "what is made belongs to who makes it (default)",
    ),
    flag(
        "create-as-mounter",
        "what is made belongs to the user of the run or mount",
    ),
    value(
        "create-for-user",
        "USER",
        "what is made is USER's (root's kernel mounts)",
    ),
    value(
        "create-for-group",
        "GROUP",
        "what is made is GROUP's (root's kernel mounts)",
    ),
    value(
        "create-with-perms",
        "RULES",
        "permission bits of what is made",
    ),
    flag("chown-normal", "chown changes the file's owner (default)"),
    flag("chown-ignore", "chown succeeds and leaves the owner"),
    flag("chown-deny", "chown fails (EPERM)"),
    flag("chgrp-normal", "chgrp changes the file's group (default)"),
    flag("chgrp-ignore", "chgrp succeeds and leaves the group"),
    flag("chgrp-deny", "chgrp fails (EPERM)"),
    flag("chmod-normal", "chmod changes the file's mode (default)"),
    flag("chmod-ignore", "chmod succeeds and leaves the mode"),
    flag("chmod-deny", "chmod fails (EPERM)"),
    value(
        "chmod-filter",
        "RULES",
        "what is made of the mode that chmod gives",
    ),
    flag(
        "chmod-allow-x",
        "with chmod-ignore and chmod-deny: regular files may become executable or not",
    ),
    flag("xattr-none", "no extended attributes (EOPNOTSUPP)"),
    flag("xattr-ro", "extended attributes are not changed (EACCES)"),
    flag("xattr-rw", "extended attributes as they are (default)"),
    flag("delete-deny", "nothing is removed (EPERM)"),
    flag("rename-deny", "nothing is renamed (EPERM)"),
    value(
        "read-rate",
        "BYTES[k|M|G|T]",
        "at most so many bytes a second are read, by all together",
    ),
    value(
        "write-rate",
        "BYTES[k|M|G|T]",
        "the same for what is written",
    ),
    flag("hide-hard-links", "everything has one link"),
    flag(
        "resolve-symlinks",
        "symbolic links to files within are shown as these files",
    ),
    value(
        "resolved-symlink-deletion",
        "deny|symlink-only|symlink-first|target-first",
        "what removing such a link removes (default symlink-only)",
    ),
    flag(
        "realistic-permissions",
        "bits that say what the user of the run or mount may not do are not shown",
    ),
    flag(
        "ctime-from-mtime",
        "times of change are those of modification",
    ),
    flag(
        "block-devices-as-files",
        "block devices are shown as regular files",
    ),
    flag(
        "enable-lock-forwarding",
        "locks are those of the files themselves; in a run they always are",
    ),
    flag("disable-lock-forwarding", "does nothing, as in bindfs"),
    flag(
        "enable-ioctl",
        "does nothing: inode flags can always be changed, by the caller's rights",
    ),
    flag("multithreaded", "does nothing: it always is"),
    flag(
        "direct-io",
        "reads and writes of a kernel mount pass its page cache by",
    ),
    flag("no-direct-io", "they do not (default)"),
    value(
        "forward-odirect",
        "BYTES",
        "refused: O_DIRECT is accepted, and not handed on",
    ),
    flag(
        "no-allow-other",
        "does nothing: other users need allow_other",
    ),
    value(
        "exclude",
        "PATTERN",
        "what matches is not there: a name anywhere, or with a slash a path; may be given again",
    ),
    value(
        SHARED_RATES,
        "FILE",
        "what all processes of a run count rates in: made for each run, refused from users",
    ),
    value(
        "path",
        "PATTERN",
        "the options after it are for what matches and lies below, in addition to those before the first path; the last that matches holds",
    ),
];

/// What is done with a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Normal,
    Ignore,
    Deny,
}

/// What is done with extended attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Xattrs {
    #[default]
    All,
    Read,
    None,
}

/// What is removed with a link that is shown as a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    Deny,
    #[default]
    Link,
    LinkFirst,
    TargetFirst,
}

/// What may differ by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub shown: Permissions,
    pub made: Permissions,
    pub chown: Policy,
    pub chgrp: Policy,
    pub chmod: Policy,
    pub chmod_filter: Permissions,
    pub chmod_allow_x: bool,
    pub xattrs: Xattrs,
    pub delete_deny: bool,
    pub rename_deny: bool,
    pub one_link: bool,
    pub realistic: bool,
    pub ctime_from_mtime: bool,
}

/// Pairs of numbers, from the file's to the one shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pairs: Vec<(u32, u32)>,
    offset: i64,
}

/// All of one mount's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub general: Rules,
    /// For paths that match, over the general ones.
    pub sets: Vec<(Pattern, Rules)>,
    pub excluded: Vec<Pattern>,
    pub mirrored: Vec<u32>,
    pub mirror_only: bool,
    pub users: Numbers,
    pub groups: Numbers,
    pub as_mounter: bool,
    pub for_user: Option<u32>,
    pub for_group: Option<u32>,
    /// Bytes a second.
    pub read_rate: Option<u64>,
    pub write_rate: Option<u64>,
    /// What all processes count in.
    pub shared_rates: Option<Vec<u8>>,
    pub resolves: bool,
    /// The directory that absolute links begin with which lead within.
    pub source: Option<Vec<u8>>,
    pub deletion: Deletion,
    pub block_files: bool,
    pub direct_io: bool,
}

impl Rules {
    /// Whether what is shown of an owner or a mode is not the file's own.
    fn shows_others(&self) -> bool {
        self.user.is_some() || self.group.is_some() || !self.shown.is_empty() || self.realistic
    }
}

impl Numbers {
    /// No pairs, `offset` added.
    pub fn offset(&mut self, offset: i64) {
        self.offset = offset;
    }

    /// Adds a pair; false where either is in one already.
    pub fn add(&mut self, from: u32, to: u32) -> bool {
        let known = |(left, right): &(u32, u32)| *left == from || *right == to;
        let fits = from == to || !self.pairs.iter().any(known);
        if fits && from != to {
            self.pairs.push((from, to));
        }
        fits
    }

    /// Whether all numbers stay.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.offset == 0
    }

    /// What is shown for the file's `id`. `EIO` where no number is left for it.
    pub fn shown(&self, id: u32) -> Result<u32> {
        let found = self.pairs.iter().find(|(from, _)| *from == id);
        moved(found.map_or(id, |(_, to)| *to), self.offset)
    }

    /// What the file has where `id` is shown.
    pub fn own(&self, id: u32) -> Result<u32> {
        self.unmoved(self.paired(id).unwrap_or(id))
    }

    /// `id` without the offset.
    pub fn unmoved(&self, id: u32) -> Result<u32> {
        moved(id, -self.offset)
    }

    /// What a pair says that the file has where `id` is shown.
    pub fn paired(&self, id: u32) -> Option<u32> {
        let found = self.pairs.iter().find(|(_, to)| *to == id);
        found.map(|(from, _)| *from)
    }
}

/// `id` and `offset`, within the numbers that bindfs allows.
fn moved(id: u32, offset: i64) -> Result<u32> {
    if offset == 0 {
        return Ok(id);
    }
    let sum = i64::from(id).checked_add(offset);
    let sum = sum.and_then(|sum| u32::try_from(sum).ok());
    sum.filter(|sum| *sum <= i32::MAX as u32).ok_or_else(|| {
        let text = format!("the number {id} and the offset {offset} make none that there is");
        Error::because(Errno::EIO, text)
    })
}

impl Settings {
    /// Those of options that travelled: users and groups are numbers.
    pub fn parse(options: &Options) -> Result<Self> {
        let mut all = Self::default();
        for (name, value) in options {
            all.take(name, value)?;
        }
        Ok(all)
    }

    /// Whether who may do what is judged by what is shown, and not by the file system below. With
    /// [`Settings::gives`], then, too: the maker acts by rights of his own.
    pub fn judges(&self) -> bool {
        let sets = self.sets.iter().map(|(_, rules)| rules);
        self.gives() || self.mirrors() || sets.chain([&self.general]).any(Rules::shows_others)
    }

    /// Whether what is shown depends on the caller.
    pub fn mirrors(&self) -> bool {
        !self.mirrored.is_empty() || self.mirror_only
    }

    /// Whether it takes root's rights.
    pub fn gives(&self) -> bool {
        self.for_user.is_some()
            || self.for_group.is_some()
            || !self.users.is_empty()
            || !self.groups.is_empty()
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let wrong = |why: &str| Err(invalid_option(name, value, why));
        let info = OPTIONS.iter().find(|option| option.name == name);
        let takes = info.is_some_and(|option| !option.value.is_empty());
        if takes == value.is_empty() {
            return wrong(match takes {
                true => "it needs a value",
                false => "it takes no value",
            });
        }
        if name == "path" {
            let Some(pattern) = Pattern::new(value) else {
                return wrong("it is no pattern");
            };
            self.sets.push((pattern, self.general.clone()));
            return Ok(());
        }
        let in_set = !self.sets.is_empty();
        let rules = match self.sets.last_mut() {
            Some((_, rules)) => rules,
            None => &mut self.general,
        };
        if rules.take(name, value)? {
            return Ok(());
        }
        if in_set && name != SHARED_RATES {
            return wrong("it is for all paths: before the first path=");
        }
        self.take_for_all(name, value)
    }

    fn take_for_all(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let wrong = |why: &str| invalid_option(name, value, why);
        match name {
            "mirror" | "mirror-only" => {
                self.mirror_only |= name == "mirror-only";
                for one in list(value) {
                    let user = number(one).ok_or_else(|| wrong("there is no such user"))?;
                    self.mirrored.push(user);
                }
            }
            "map" => {
                for pair in list(value) {
                    self.add_pair(pair).map_err(wrong)?;
                }
            }
            "uid-offset" => self
                .users
                .offset(offset(value).ok_or_else(|| wrong(OFFSET))?),
            "gid-offset" => self
                .groups
                .offset(offset(value).ok_or_else(|| wrong(OFFSET))?),
            "create-as-user" => self.as_mounter = false,
            "create-as-mounter" => self.as_mounter = true,
            "create-for-user" => {
                self.for_user = Some(number(value).ok_or_else(|| wrong("there is no such user"))?);
            }
            "create-for-group" => {
                let group = number(value).ok_or_else(|| wrong("there is no such group"))?;
                self.for_group = Some(group);
            }
            SHARED_RATES => self.shared_rates = Some(value.to_vec()),
            "read-rate" => self.read_rate = Some(rate(value).ok_or_else(|| wrong(RATE))?),
            "write-rate" => self.write_rate = Some(rate(value).ok_or_else(|| wrong(RATE))?),
            "resolve-symlinks" => self.resolves = true,
            "resolved-symlink-deletion" => {
                self.deletion = match value {
                    b"deny" => Deletion::Deny,
                    b"symlink-only" => Deletion::Link,
                    b"symlink-first" => Deletion::LinkFirst,
                    b"target-first" => Deletion::TargetFirst,
                    _ => {
                        return Err(wrong(
                            "deny, symlink-only, symlink-first or target-first is needed",
                        ));
                    }
                }
            }
            "block-devices-as-files" => self.block_files = true,
            "direct-io" => self.direct_io = true,
            "no-direct-io" => self.direct_io = false,
            "exclude" => {
                let pattern = Pattern::new(value).ok_or_else(|| wrong("it is no pattern"))?;
                self.excluded.push(pattern);
            }
            // What there is anyway.
            _ => {}
        }
        if !self.users.fit() || !self.groups.fit() {
            return Err(wrong("map and an offset do not go together"));
        }
        Ok(())
    }

    fn add_pair(&mut self, pair: &[u8]) -> core::result::Result<(), &'static str> {
        let form = "FROM/TO or @FROM/@TO is needed";
        let slash = pair.iter().position(|&byte| byte == b'/').ok_or(form)?;
        let (from, to) = (&pair[..slash], &pair[slash + 1..]);
        let (numbers, from, to) = match (from.strip_prefix(b"@"), to.strip_prefix(b"@")) {
            (Some(from), Some(to)) => (&mut self.groups, from, to),
            (None, None) => (&mut self.users, from, to),
            _ => return Err(form),
        };
        let ids = number(from).zip(number(to));
        let (from, to) = ids.ok_or("there is no such user or group")?;
        match numbers.add(from, to) {
            true => Ok(()),
            false => Err("a user or group is mapped twice"),
        }
    }
}

impl Numbers {
    fn fit(&self) -> bool {
        self.pairs.is_empty() || self.offset == 0
    }
}

impl Rules {
    /// Takes an option that may differ by path; false where it is none.
    fn take(&mut self, name: &str, value: &[u8]) -> Result<bool> {
        let permissions = || {
            let parsed = Permissions::parse(value);
            parsed.map_err(|why| invalid_option(name, value, &why))
        };
        let id = |what: &str| {
            let none = || invalid_option(name, value, &format!("there is no such {what}"));
            number(value).ok_or_else(none)
        };
        match name {
            "force-user" => self.user = Some(id("user")?),
            "force-group" => self.group = Some(id("group")?),
            "perms" => self.shown = permissions()?,
            "create-with-perms" => self.made = permissions()?,
            "chown-normal" => self.chown = Policy::Normal,
            "chown-ignore" => self.chown = Policy::Ignore,
            "chown-deny" => self.chown = Policy::Deny,
            "chgrp-normal" => self.chgrp = Policy::Normal,
            "chgrp-ignore" => self.chgrp = Policy::Ignore,
            "chgrp-deny" => self.chgrp = Policy::Deny,
            "chmod-normal" => self.chmod = Policy::Normal,
            "chmod-ignore" => self.chmod = Policy::Ignore,
            "chmod-deny" => self.chmod = Policy::Deny,
            "chmod-filter" => self.chmod_filter = permissions()?,
            "chmod-allow-x" => self.chmod_allow_x = true,
            "xattr-none" => self.xattrs = Xattrs::None,
            "xattr-ro" => self.xattrs = Xattrs::Read,
            "xattr-rw" => self.xattrs = Xattrs::All,
            "delete-deny" => self.delete_deny = true,
            "rename-deny" => self.rename_deny = true,
            "hide-hard-links" => self.one_link = true,
            "realistic-permissions" => self.realistic = true,
            "ctime-from-mtime" => self.ctime_from_mtime = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The elements of a list: bindfs separates them by commas or colons.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = value.split(|byte| matches!(byte, b',' | b':'));
    all.filter(|one| !one.is_empty())
}

const OFFSET: &str = "a whole number is needed";
const RATE: &str = "a number of bytes is needed, with k, M, G or T for 1024 of the next smaller";

fn offset(value: &[u8]) -> Option<i64> {
    let offset: i64 = core::str::from_utf8(value).ok()?.parse().ok()?;
    (offset.unsigned_abs() <= u64::from(u32::MAX)).then_some(offset)
}

/// Bytes a second, at least one: a number and a unit.
fn rate(value: &[u8]) -> Option<u64> {
    let (digits, shift) = match value.split_last()? {
        (b'k', digits) => (digits, 10),
        (b'M', digits) => (digits, 20),
        (b'G', digits) => (digits, 30),
        (b'T', digits) => (digits, 40),
        _ => (value, 0),
    };
    let number: u64 = core::str::from_utf8(digits).ok()?.parse().ok()?;
    let rate = number.checked_mul(1 << shift)?;
    (rate > 0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    fn parsed(options: &[(&str, &str)]) -> Result<Settings> {
        let options = options.iter();
        let own = options.map(|(name, value)| (String::from(*name), value.as_bytes().to_vec()));
        Settings::parse(&own.collect())
    }

    #[test]
    fn options_after_a_path_are_for_it() {
        let all = parsed(&[
            ("perms", "a-w"),
            ("delete-deny", ""),
            ("path", "/up"),
            ("perms", "u+w"),
            ("path", "*.sh"),
            ("chmod-deny", ""),
        ]);
        let all = all.unwrap();
        assert!(all.judges() && !all.mirrors() && !all.gives());
        let [(_, up), (_, scripts)] = &all.sets[..] else {
            panic!("{:?}", all.sets)
        };
        assert_eq!(up.shown, Permissions::parse(b"u+w").unwrap());
        assert!(up.delete_deny && up.chmod == Policy::Normal);
        assert_eq!(scripts.shown, all.general.shown);
        assert_eq!(scripts.chmod, Policy::Deny);
    }

    #[test]
    fn rates_have_units() {
        for (text, want) in [
            ("1", Some(1)),
            ("2k", Some(2048)),
            ("3M", Some(3 << 20)),
            ("1G", Some(1 << 30)),
            ("1T", Some(1 << 40)),
            ("0", None),
            ("k", None),
            ("-1", None),
            ("1m", None),
            ("99999999999T", None),
        ] {
            assert_eq!(rate(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn numbers_go_there_and_back() {
        let mut numbers = Numbers::default();
        assert!(numbers.add(1, 2) && numbers.add(2, 1) && numbers.add(5, 5));
        assert!(!numbers.add(1, 3) && !numbers.add(3, 2));
        for (own, shown) in [(1, 2), (2, 1), (7, 7)] {
            assert_eq!(numbers.shown(own).unwrap(), shown);
            assert_eq!(numbers.own(shown).unwrap(), own);
        }
        let mut numbers = Numbers::default();
        numbers.offset(-10);
        assert_eq!(numbers.shown(15).unwrap(), 5);
        assert_eq!(numbers.own(5).unwrap(), 15);
        assert_eq!(numbers.shown(9).unwrap_err().errno(), Errno::EIO);
        numbers.offset(i64::from(u32::MAX));
        assert_eq!(numbers.shown(9).unwrap_err().errno(), Errno::EIO);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (options, want) in [
            (&[("perms", "a")][..], "option perms=a: a has no =, + or -"),
            (&[("perms", "")], "option perms=: it needs a value"),
            (
                &[("delete-deny", "1")],
                "option delete-deny=1: it takes no value",
            ),
            (
                &[("force-user", "me")],
                "option force-user=me: there is no such user",
            ),
            (
                &[("map", "1")],
                "option map=1: FROM/TO or @FROM/@TO is needed",
            ),
            (
                &[("map", "1/@2")],
                "option map=1/@2: FROM/TO or @FROM/@TO is needed",
            ),
            (
                &[("map", "1/2:3/2")],
                "option map=1/2:3/2: a user or group is mapped twice",
            ),
            (
                &[("map", "1/2"), ("uid-offset", "3")],
                "option uid-offset=3: map and an offset do not go together",
            ),
            (
                &[("path", "/a"), ("exclude", "x")],
                "option exclude=x: it is for all paths: before the first path=",
            ),
            (&[("exclude", "/")], "option exclude=/: it is no pattern"),
            (
                &[("resolved-symlink-deletion", "x")],
                "option resolved-symlink-deletion=x: deny, symlink-only, symlink-first or target-first is needed",
            ),
        ] {
            assert_eq!(parsed(options).unwrap_err().to_string(), want);
        }
    }
}
