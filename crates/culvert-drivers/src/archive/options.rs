//! The options of an archive mount.

use super::{host, warning::printable};
use crate::option_table::option_table;
use crate::{AccessTimes, Declared, OptionTable, OtherUser, Source, invalid_option};
use alloc::{format, vec::Vec};
use culvert::{Errno, Error, Result, mount::Mount};

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::File("an archive file"),
    recognises: |path| super::detect(path).is_ok(),
    other_user: OtherUser::Prepares(of_another_user),
    access_times: AccessTimes::Never,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// An index that this user cannot read is made anew. The files are shown as the run shows them:
/// root's sees the archive's own.
fn of_another_user(mount: &mut Mount) {
    let lost = |value: &[u8]| host::open_read(value).is_err();
    mount
        .options
        .retain(|(name, value)| name != "index" || !lost(value));
    for owner in ["uid", "gid"] {
        if mount.option(owner).is_none() {
            mount.options.push((owner.into(), b"archive".to_vec()));
        }
    }
}

/// What `culvert drivers archive` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "index",
        "PATH|none",
        "where the index is kept: a file, or a directory for one; none: only while the \
            command runs (default: the cache directory)"
    ),
    (
        "subdir",
        "PATH",
        "show this directory of the archive, not all of it"
    ),
    (
        "uid",
        "N|archive",
        "owner of all files (default as tar -x: root sees the archive's, others their \
            own)"
    ),
    ("gid", "N|archive", "group of all files (default as uid)"),
    (
        "umask",
        "OCTAL",
        "permission bits to take away from all files (default: none)"
    ),
    (
        "avfs",
        "",
        "archives in it are looked into by names with a #: layer=avfs"
    ),
    (
        "damaged",
        "",
        "takes what can be read of a damaged or truncated tar, cpio or ar"
    ),
    (
        "script",
        "NAME|PATH",
        "any file that this script of extfs (Midnight Commander, AVFS) unpacks: one that \
            is installed, or a path"
    ),
    (
        "save",
        "FILE",
        "writable: what is changed is saved as an archive, FILE or itself, when the \
            command of culvert run has ended"
    ),
    ("ro", "", "read-only, as archives always are"),
];

/// Who owns the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Nothing said.
    #[default]
    Unset,
    /// Who the archive says.
    Archive,
    /// This user or group.
    Fixed(u32),
}

/// Where the index is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// In the cache directory.
    #[default]
    Cache,
    /// Nowhere beyond the run.
    Run,
    /// In this file or directory.
    Path(Vec<u8>),
}

/// The options of one mount, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `index`.
    pub index: Keep,
    /// `subdir`, without slashes around; empty for the whole archive.
    pub subdir: Vec<u8>,
    /// `uid`.
    pub uid: Owner,
    /// `gid`.
    pub gid: Owner,
    /// `umask`.
    pub umask: u32,
    /// `damaged`.
    pub damaged: bool,
}

impl Options {
    /// The options of `mount`; `EINVAL` with what is wrong and what there is.
    pub fn parse(mount: &Mount) -> Result<Self> {
        if mount.option("rw").is_some() {
            return Err(Error::because(
                Errno::EROFS,
                "option rw: archives are read-only",
            ));
        }
        crate::check_names(OPTIONS, mount)?;
        let mut options = Self::default();
        for (name, value) in &mount.options {
            let text = core::str::from_utf8(value).unwrap_or("\u{fffd}");
            match name.as_str() {
                "index" => {
                    options.index = match &value[..] {
                        b"" => return Err(invalid_option(name, value, "a path or none is needed")),
                        b"none" => Keep::Run,
                        path => Keep::Path(path.to_vec()),
                    }
                }
                "subdir" => {
                    let parts = value.split(|&byte| byte == b'/');
                    let parts: Vec<&[u8]> =
                        parts.filter(|part| !matches!(*part, b"" | b".")).collect();
                    if parts.contains(&&b".."[..]) {
                        return Err(invalid_option(name, value, "no \"..\" there"));
                    }
                    options.subdir = parts.join(&b'/');
                }
                "uid" => options.uid = owner(name, value, text)?,
                "gid" => options.gid = owner(name, value, text)?,
                "umask" => {
                    options.umask = u32::from_str_radix(text, 8)
                        .ok()
                        .filter(|&mask| mask <= 0o777)
                        .ok_or_else(|| {
                            invalid_option(name, value, "an octal number up to 777 is needed")
                        })?;
                }
                "damaged" | "ro" if !value.is_empty() => {
                    return Err(invalid_option(name, value, "it takes no value"));
                }
                "damaged" => options.damaged = true,
                "script" => {
                    let why = "only the command runs scripts, not a driver";
                    return Err(invalid_option(name, value, why));
                }
                "save" => {
                    let why = "only culvert run saves; an overlay is saved by culvert save";
                    return Err(invalid_option(name, value, why));
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

fn owner(name: &str, value: &[u8], text: &str) -> Result<Owner> {
    if value == b"archive" {
        return Ok(Owner::Archive);
    }
    match text.parse() {
        Ok(number) if number != u32::MAX => Ok(Owner::Fixed(number)),
        _ => Err(invalid_option(
            name,
            value,
            &format!(
                "a number or archive is needed, not \"{}\"",
                printable(value)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_gets_an_index_of_his_own_and_the_owners_of_the_run() {
        let option = |name: &str, value: &[u8]| (name.into(), value.to_vec());
        let mut mount = Mount {
            driver: "archive".into(),
            source: b"/s".to_vec(),
            target: b"/t".to_vec(),
            options: alloc::vec![option("index", b"/nowhere/at/all"), option("uid", b"7")],
            branches: Vec::new(),
        };
        of_another_user(&mut mount);
        let want = [option("uid", b"7"), option("gid", b"archive")];
        assert_eq!(mount.options, want);
        mount.options.push(option("index", b"/dev/null"));
        of_another_user(&mut mount);
        assert_eq!(mount.option("index"), Some(&b"/dev/null"[..]));
    }
}
