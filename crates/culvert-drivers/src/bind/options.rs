//! What the options mean.

use super::{
    listed::{OPTIONS, SHARED_RATES},
    numbers::Numbers,
    pattern::Pattern,
    permissions::Permissions,
    users::number,
};
use crate::invalid_option;
use alloc::{format, vec::Vec};
use culvert::{Result, mount::Options};

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
                "option resolved-symlink-deletion=x: deny, symlink-only, symlink-first or \
                target-first is needed",
            ),
        ] {
            assert_eq!(parsed(options).unwrap_err().to_string(), want);
        }
    }
}
