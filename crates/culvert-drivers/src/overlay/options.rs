//! The options of an overlay, by the kernel's names.

use crate::option_table::option_table;
use crate::{AccessTimes, Declared, OptionTable, OtherUser, Source, check_names, invalid_option};
use alloc::vec::Vec;
use culvert::{Errno, Error, Result, mount::Mount};

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Options {
        branches: &[UPPER, LOWER],
        paths: &[WORK],
    },
    recognises: |_| false,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Source,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: Some(super::own_origin::numbers),
};

const UPPER: &str = "upperdir";
const LOWER: &str = "lowerdir";
const WORK: &str = "workdir";

/// Options that `prepare` adds: paths below the first branch.
pub const UPPER_BELOW: &str = "upper_below";
/// The same of the work directory.
pub const WORK_BELOW: &str = "work_below";

/// How renames of directories are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// Not followed.
    Ignored,
    /// Followed, and not made.
    Followed,
    /// Followed and made.
    Made,
}

/// What stands for a name that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiteouts {
    /// A device where it can be made, else an empty file with an attribute.
    Best,
    /// An empty file with an attribute.
    Attribute,
}

/// The options of one mount, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the first branch is the upper one.
    pub upper: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// `user.overlay.` in place of `trusted.overlay.`.
    pub user_xattr: bool,
    /// `redirect_dir`.
    pub redirects: Redirects,
    /// `metacopy`: a change of attributes does not copy the bytes.
    pub metacopy: bool,
    /// `whiteouts`.
    pub whiteouts: Whiteouts,
    /// `oci`: whether `.wh.` names are whiteouts in lower layers; none: in those that never change.
    pub docker: Option<bool>,
    /// The same of the upper layer, as fuse-overlayfs makes it.
    pub docker_upper: bool,
    /// `volatile`: nothing is synced.
    pub volatile: bool,
    /// Where the upper directory and the work directory lie below the first branch.
    pub below: Option<[Vec<u8>; 2]>,
}

/// What `culvert drivers overlay` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "lowerdir",
        "LIST",
        "the lower layers, the uppermost first, separated by colons: directories, archives, \
        whatever can be mounted"
    ),
    (
        "upperdir",
        "SOURCE",
        "the layer that takes all changes: a directory, or memory: (default: none, read-only)"
    ),
    (
        "workdir",
        "DIRECTORY",
        "an empty directory on the file system of upperdir, where that is a directory"
    ),
    (
        "userxattr",
        "",
        "marks are user.overlay. attributes (default for who may not set trusted.overlay. ones)"
    ),
    (
        "redirect_dir",
        "on|follow|nofollow|off",
        "whether directories of lower layers are renamed by a mark (on), or such marks are only \
        followed (follow, off: default), or not (nofollow: default with userxattr)"
    ),
    (
        "metacopy",
        "on|off",
        "whether a change of mode, owner or times copies no bytes (default: off); what has none \
        is read anyway"
    ),
    (
        "whiteouts",
        "best|xattr",
        "what stands for removed names: devices 0/0 where they can be made (default), or empty \
        files with an attribute"
    ),
    (
        "oci",
        "auto|yes|all|no",
        "whether .wh. names in lower layers are whiteouts, as in images of containers (default, \
        auto: in archives; all: in the upper one, too)"
    ),
    (
        "image",
        "NAME",
        "which image of a lower layer that is an image layout of the OCI, where there are several"
    ),
    (
        "volatile",
        "",
        "copies are not synced: after a crash of the machine the upper layer is to be thrown away"
    ),
    (
        "index",
        "off",
        "hard links of lower files are parted by the first change, as with the kernel's default"
    ),
    ("nfs_export", "off", "as the kernel's default"),
    (
        "xino",
        "on|off|auto",
        "accepted: inode numbers never change here"
    ),
    ("ro", "", "read-only"),
    ("rw", "", "writable, where there is an upperdir (default)"),
];

impl Settings {
    /// Those of `mount` as the user wrote them; `EINVAL` with what is wrong and what there is.
    pub fn parse(mount: &Mount) -> Result<Self> {
        check_names(OPTIONS, mount)?;
        Self::travelled(mount)
    }

    /// Those of a mount that was prepared.
    pub fn travelled(mount: &Mount) -> Result<Self> {
        let mut settings = Self {
            upper: mount.option(UPPER).is_some(),
            read_only: mount.read_only() || mount.option(UPPER).is_none(),
            user_xattr: mount.option("userxattr").is_some(),
            redirects: Redirects::Followed,
            metacopy: false,
            whiteouts: Whiteouts::Best,
            docker: None,
            docker_upper: false,
            volatile: false,
            below: None,
        };
        if settings.user_xattr {
            settings.redirects = Redirects::Ignored;
        }
        let mut below = [None, None];
        for (name, value) in &mount.options {
            match (name.as_str(), &value[..]) {
                ("redirect_dir", b"on") => settings.redirects = Redirects::Made,
                ("redirect_dir", b"follow" | b"off") => settings.redirects = Redirects::Followed,
                ("redirect_dir", b"nofollow") => settings.redirects = Redirects::Ignored,
                ("metacopy", b"on") => settings.metacopy = true,
                ("metacopy", b"off") => settings.metacopy = false,
                ("whiteouts", b"best") => settings.whiteouts = Whiteouts::Best,
                ("whiteouts", b"xattr") => settings.whiteouts = Whiteouts::Attribute,
                ("oci", b"auto") => settings.docker = None,
                ("oci", b"yes") => settings.docker = Some(true),
                ("oci", b"no") => settings.docker = Some(false),
                ("oci", b"all") => {
                    settings.docker = Some(true);
                    settings.docker_upper = true;
                }
                ("image", _) => {}
                ("volatile", b"") => settings.volatile = true,
                ("userxattr" | "ro" | "rw", b"") => {}
                ("index" | "nfs_export", b"off") => {}
                ("index" | "nfs_export", _) => {
                    let why = "only off: there is no index of what was copied";
                    return Err(invalid_option(name, value, why));
                }
                ("xino", b"on" | b"off" | b"auto") => {}
                (UPPER | LOWER | WORK, _) => {}
                (UPPER_BELOW, value) => below[0] = Some(value.to_vec()),
                (WORK_BELOW, value) => below[1] = Some(value.to_vec()),
                (name, value) => {
                    let known = OPTIONS.iter().find(|one| one.name == name);
                    let wanted = known.map_or("no option", |one| match one.value {
                        "" => "it takes no value",
                        values => values,
                    });
                    return Err(invalid_option(name, value, wanted));
                }
            }
        }
        if let [Some(upper), Some(work)] = below {
            settings.below = Some([upper, work]);
        }
        if mount.option(LOWER).is_none() {
            let why = "an overlay needs lowerdir";
            return Err(Error::because(Errno::EINVAL, why));
        }
        if mount.option(WORK).is_some() && !settings.upper {
            let why = "option workdir: there is no upperdir";
            return Err(Error::because(Errno::EINVAL, why));
        }
        Ok(settings)
    }

    /// The work directory that the user named.
    pub fn work(mount: &Mount) -> Option<&[u8]> {
        mount.option(WORK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert::mount::parse_mount;
    use std::string::{String, ToString};

    fn settings(options: &str) -> Result<Settings> {
        let text = std::format!("type=overlay,target=/m,{options}");
        Settings::parse(&parse_mount(text.as_bytes()).unwrap().into_mount(""))
    }

    #[test]
    fn the_kernels_options_mean_the_same() {
        let found = settings("lowerdir=/a:/b").unwrap();
        assert!(found.read_only && !found.upper);
        assert_eq!(found.redirects, Redirects::Followed);
        let found = settings("lowerdir=/a,upperdir=/u,workdir=/w,userxattr").unwrap();
        assert!(!found.read_only && found.user_xattr);
        assert_eq!(found.redirects, Redirects::Ignored);
        let found = settings("lowerdir=/a,upperdir=memory:,redirect_dir=on,metacopy=on").unwrap();
        assert!(found.metacopy);
        assert_eq!(found.redirects, Redirects::Made);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |options: &str| -> String { settings(options).unwrap_err().to_string() };
        for (options, want) in [
            ("upperdir=/u", "needs lowerdir"),
            ("lowerdir=/a,workdir=/w", "no upperdir"),
            ("lowerdir=/a,index=on", "only off"),
            ("lowerdir=/a,redirect_dir=yes", "on|follow|nofollow|off"),
            ("lowerdir=/a,volatile=1", "takes no value"),
            ("lowerdir=/a,lowrdir=/b", "did you mean lowerdir"),
            ("lowerdir=/a,upper_below=x", "no option"),
        ] {
            let said = said(options);
            assert!(said.contains(want), "{options}: {said}");
        }
    }
}
