//! What is mounted where: the words of the command line, and the form in which a run's mounts
//! travel to every process.
//!
//! Three ways to say it, all giving a [`Request`]:
//!
//! | syntax | from | function |
//! |---|---|---|
//! | `-v SOURCE:TARGET[:OPTIONS]` | docker run | [`parse_volume`] |
//! | `--mount type=T,source=S,target=D,opt=val` | docker run | [`parse_mount`] |
//! | `-t TYPE -o OPTIONS SOURCE TARGET` | mount(8) | [`parse_options`], [`Request::new`] |
//!
//! **Escapes**, the same in all three: a backslash takes the meaning from the `:`, `,`, `=`, `"`,
//! `(`, `)` or backslash that follows it. Before any other byte, and at the end, a backslash is an
//! error rather than a guess. `--mount` also takes docker's CSV quoting: a field that starts with
//! `"` runs to the next single `"`, `""` being one quote; inside, everything else is literal.
//!
//! **Lists.** Where the type makes one file system of several, a source is a list, the same in all
//! three: `BRANCH[=HOW]`, separated by colons ([`Request::branches`]). So are the options
//! [`LISTS`]. A branch is a SOURCE, in which a backslash stands before a colon or `=`, or a mount
//! in parentheses, with a type, options, layers and branches of its own: the fields of `--mount`
//! but for the target, without quotes. A parenthesis means that where a branch begins; in a name
//! that begins so, and inside of others, a backslash stands before it. `-v` takes a list where its
//! OPTIONS name the type; a list among these OPTIONS is escaped once more, as all of them.
//!
//! Sources, targets and option values are bytes, not UTF-8.
//!
//! ```
//! use culvert::mount::{decode, encode, parse_mount, parse_volume};
//!
//! let volume = parse_volume(br"/data/a\:b.tar:/mnt/a:ro,threads=2")?;
//! assert_eq!(volume.source, b"/data/a:b.tar");
//! assert_eq!(volume.option("threads"), Some(&b"2"[..]));
//! assert!(volume.driver.is_none());
//!
//! let mount = parse_mount(br#"type=archive,"src=/data/a,b.tar",dst=/mnt/a,readonly"#)?.into_mount("passthrough");
//! assert_eq!(mount.driver, "archive");
//! assert!(mount.read_only());
//! assert_eq!(decode(&encode(&[mount.clone()]))?, [mount]);
//! # Ok::<(), culvert::Error>(())
//! ```

mod codec;
mod escapes;
mod list;
mod parse;

pub use codec::{VERSION, decode, encode};
pub use escapes::escape;
pub use list::fields as option_fields;
pub use parse::{is_url, parse_mount, parse_options, parse_volume};

use crate::{Errno, Error, Result};
use alloc::{format, string::String, vec::Vec};

/// `name=value` options, or bare names with an empty value, in the order given.
pub type Options = Vec<(String, Vec<u8>)>;

/// Longest path that a source or target may be, bytes: `PATH_MAX` without its NUL (limits.h).
pub const PATH_MAX: usize = 4095;

/// Options whose value is a list of branches, of whatever type. They keep their escapes.
pub const LISTS: [&str; 2] = ["lowerdir", "upperdir"];

/// Most mounts within each other, as branches of branches.
const DEEPEST: usize = 8;

/// One mount, complete: the form that travels to every process of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The driver's name (`archive`).
    pub driver: String,
    /// What it serves; its meaning is the driver's. Paths are absolute by the time a mount travels.
    pub source: Vec<u8>,
    /// Where: an absolute path without links, `.`, `..` or trailing slash.
    pub target: Vec<u8>,
    /// `name=value` options, or bare names with an empty value, in the order given.
    pub options: Options,
    /// What the driver makes one file system of, where that is several: mounts without a target of
    /// their own, which have that of this one. `source` then only says what is shown of them.
    pub branches: Vec<Self>,
}

/// One mount as the user asked for it: paths as typed, the driver perhaps left to be found from the
/// source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The driver's name, if the user named one.
    pub driver: Option<String>,
    /// What to serve, not empty, as typed (relative paths stay relative).
    pub source: Vec<u8>,
    /// Where, not empty, as typed.
    pub target: Vec<u8>,
    /// As [`Mount::options`]; docker's `readonly` has become `ro`, `readonly=false` `rw`.
    pub options: Options,
    /// Further sources, for a driver that makes one file system of several.
    pub more_sources: Vec<Vec<u8>>,
    /// All sources as typed, escapes in them: see [`Request::branches`].
    pub typed: Vec<Vec<u8>>,
}

/// One branch of a mount as the user asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// What to serve, not empty: a path as typed, or what a driver knows by its name.
    pub source: Vec<u8>,
    /// What stands after `=`, for the driver that the branch is one of (`RO`, `RW,4G`).
    pub how: Vec<u8>,
    /// Of a mount in parentheses, what it asks for, at the target of the whole.
    pub mount: Option<Request>,
}

impl Request {
    /// The request of `mount -t driver -o options source target`, whose paths come as arguments of
    /// their own and are taken literally. `EINVAL` with the reason when one is empty, too long or
    /// holds a NUL, or when the driver's name is none.
    pub fn new(
        driver: Option<&[u8]>,
        source: &[u8],
        target: &[u8],
        options: Options,
    ) -> Result<Self> {
        Ok(Self {
            driver: driver.map(driver_name).transpose()?.map(Into::into),
            source: checked_path("source", source)?,
            target: checked_path("target", target)?,
            options,
            more_sources: Vec::new(),
            typed: Vec::from([source.to_vec()]),
        })
    }

    /// The branches that the sources name, read as lists: for a driver that makes one file system
    /// of several. `EINVAL` with the reason: a bad escape, an empty branch, two `=` in one, a name
    /// after `memory:`, or what is wrong with a mount in parentheses.
    pub fn branches(&self) -> Result<Vec<Branch>> {
        let each = self.typed.iter().map(|typed| {
            let found = parse::branches(typed, &self.target);
            found.map_err(|error| error.within(&format!("source {}", shown(typed))))
        });
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The value of option `name`, the last one when given twice; empty for a bare name.
    pub fn option(&self, name: &str) -> Option<&[u8]> {
        last(&self.options, name)
    }

    /// The mount that this request names, by driver `default` when it names none. Paths are taken
    /// over as they are: make them absolute, then see [`Mount::check`].
    pub fn into_mount(self, default: &str) -> Mount {
        Mount {
            driver: self.driver.unwrap_or_else(|| default.into()),
            source: self.source,
            target: self.target,
            options: self.options,
            branches: Vec::new(),
        }
    }
}

impl Mount {
    /// The value of option `name`, the last one when given twice; empty for a bare name.
    pub fn option(&self, name: &str) -> Option<&[u8]> {
        last(&self.options, name)
    }

    /// Whether the user asked for a read-only mount: the last of `ro` and `rw` decides, writable
    /// when neither is there (mount(8)).
    pub fn read_only(&self) -> bool {
        let last = self
            .options
            .iter()
            .rfind(|(name, _)| matches!(name.as_str(), "ro" | "rw"));
        last.is_some_and(|(name, _)| name == "ro")
    }

    /// The mounts that have a source of their own: this one, or its branches, or theirs.
    pub fn leaves(&self) -> Vec<&Self> {
        match self.branches.is_empty() {
            true => Vec::from([self]),
            false => self.branches.iter().flat_map(Self::leaves).collect(),
        }
    }

    /// [`Self::leaves`], to be changed.
    pub fn leaves_mut(&mut self) -> Vec<&mut Self> {
        match self.branches.is_empty() {
            true => Vec::from([self]),
            false => self
                .branches
                .iter_mut()
                .flat_map(Self::leaves_mut)
                .collect(),
        }
    }

    /// Whether this mount may travel: the driver's name is one, source and target are within
    /// limits, the target is absolute and in its plainest form, every option has a name, and its
    /// branches may travel, which have the same target. `EINVAL` with the reason.
    pub fn check(&self) -> Result<()> {
        self.check_within(DEEPEST)
    }

    fn check_within(&self, depth: usize) -> Result<()> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| invalid("branches of branches, too many of them"))?;
        for branch in &self.branches {
            if branch.target != self.target {
                return Err(invalid("a branch has another target"));
            }
            branch.check_within(depth)?;
        }
        driver_name(self.driver.as_bytes())?;
        check_path("source", &self.source)?;
        check_path("target", &self.target)?;
        let target = || shown(&self.target);
        if self.target[0] != b'/' {
            return Err(invalid(format!("target {} is not absolute", target())));
        }
        if self.target == b"/" {
            return Err(invalid(
                "target / is the root directory, which cannot be covered",
            ));
        }
        for part in self.target[1..].split(|&b| b == b'/') {
            if matches!(part, b"" | b"." | b"..") {
                return Err(invalid(format!(
                    "target {} is not in its plainest form (an empty component, \".\" or \"..\")",
                    target()
                )));
            }
        }
        for (name, value) in &self.options {
            option_name(name.as_bytes())?;
            if value.contains(&0) {
                return Err(invalid(format!(
                    "the value of option {name} holds a NUL byte"
                )));
            }
        }
        Ok(())
    }
}

fn last<'a>(options: &'a Options, name: &str) -> Option<&'a [u8]> {
    let found = options.iter().rfind(|(given, _)| given == name);
    found.map(|(_, value)| value.as_slice())
}

fn invalid(cause: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::because(Errno::EINVAL, cause)
}

/// `bytes` in double quotes for a message, control bytes and what is not UTF-8 escaped, so that no
/// message breaks a terminal.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(char::escape_debug));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text.push('"');
    text
}

fn checked_path(what: &str, path: &[u8]) -> Result<Vec<u8>> {
    check_path(what, path).map(|()| path.to_vec())
}

fn check_path(what: &str, path: &[u8]) -> Result<()> {
    if path.is_empty() {
        return Err(invalid(format!("the {what} is empty")));
    }
    if path.len() > PATH_MAX {
        return Err(invalid(format!(
            "the {what} has {} bytes, more than {PATH_MAX}",
            path.len()
        )));
    }
    if path.contains(&0) {
        return Err(invalid(format!(
            "the {what} {} holds a NUL byte",
            shown(path)
        )));
    }
    Ok(())
}

/// Whether `driver`, the type of a mount, is the path of a library: it has a slash.
pub fn is_library(driver: &str) -> bool {
    driver.contains('/')
}

/// A driver's name: 1 to 64 lower-case letters, digits, `-`, `_` and `.`, a letter first. Or the
/// path of a library, which has a slash.
fn driver_name(name: &[u8]) -> Result<&str> {
    let as_text = || str::from_utf8(name);
    let not_text = |_| invalid(format!("the type {} is not UTF-8", shown(name)));
    if name.contains(&b'/') {
        check_path("type", name)?;
        return as_text().map_err(not_text);
    }
    let plain = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    match name {
        [b'a'..=b'z', rest @ ..] if rest.len() < 64 && rest.iter().all(plain) => {
            as_text().map_err(not_text)
        }
        [] => Err(invalid("the type is empty")),
        _ => Err(invalid(format!(
            "{} is not a type (lower-case letters, digits, -, _ and .)",
            shown(name)
        ))),
    }
}

/// An option's name: 1 to 64 letters, digits, `-`, `_` and `.`.
fn option_name(name: &[u8]) -> Result<&str> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let text = str::from_utf8(name).ok();
    match text.filter(|_| name.len() <= 64 && name.iter().all(plain)) {
        Some("") => Err(invalid("an option has no name")),
        Some(text) => Ok(text),
        None => Err(invalid(format!(
            "{} is not an option name (letters, digits, -, _ and .)",
            shown(name)
        ))),
    }
}

#[cfg(test)]
mod branch_tests;
#[cfg(test)]
mod tests;
