//! The options, as a layer's and as a file system's.

use crate::option_table::option_table;
use crate::{OptionTable, invalid_option};
use alloc::{format, vec::Vec};
use culvert::{Caller, Result, mount::Options};
use culvert_sys::process;

/// `AID_SDCARD_RW`.
const SDCARD_RW: u32 = 1015;
/// `AID_EVERYBODY`.
const EVERYBODY: u32 = 9997;

/// What `culvert drivers sdcard` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "view",
        "default|read|write",
        "which of the three views: which group, and what it and others may (default: \
            default)"
    ),
    (
        "multiuser",
        "",
        "the source holds a directory for each user, by number (sdcard -m)"
    ),
    (
        "fullwrite",
        "",
        "in the view write the group may write everywhere (sdcard -w)"
    ),
    (
        "userid",
        "NUMBER",
        "the Android user whose the source is (sdcard -U; default 0)"
    ),
    (
        "uid",
        "NUMBER",
        "whose new files in the source are (sdcard -u; default: who serves the mount)"
    ),
    ("gid", "NUMBER", "their group (sdcard -g)"),
    (
        "normal",
        "",
        "in the view default, too, each user has a group of their own (sdcard -i)"
    ),
    (
        "derivegid",
        "",
        "groups of new files in the source tell apps and kinds of media apart, for \
            quotas (sdcard -G)"
    ),
    (
        "ownobb",
        "",
        "with multiuser each user has an Android/obb of their own (sdcard -o), not one \
            for all"
    ),
    (
        "packages",
        "FILE",
        "the list of packages, an absolute path (default /data/system/packages.list)"
    ),
    (
        "lock",
        "FILE",
        "what the processes of a run change names by: made for each, refused from users"
    ),
];

/// For whom a mount is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// For apps that may write by their own group.
    #[default]
    Default,
    /// For apps that may read.
    Read,
    /// For apps that may write.
    Write,
}

/// The options of one mount, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `view`.
    pub view: View,
    /// `multiuser`.
    pub multiuser: bool,
    /// `fullwrite`.
    pub fullwrite: bool,
    /// `userid`.
    pub userid: u32,
    /// `uid`.
    pub uid: Option<u32>,
    /// `gid`.
    pub lower_gid: Option<u32>,
    /// `normal`.
    pub normal: bool,
    /// `derivegid`.
    pub derives_groups: bool,
    /// `ownobb`.
    pub own_obb: bool,
    /// `packages`.
    pub packages: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            view: View::Default,
            multiuser: false,
            fullwrite: false,
            userid: 0,
            uid: None,
            lower_gid: None,
            normal: false,
            derives_groups: false,
            own_obb: false,
            packages: b"/data/system/packages.list".to_vec(),
        }
    }
}

impl Settings {
    /// Reads `options`, which users call so behind `prefix`.
    pub fn parse(prefix: &str, options: &Options) -> Result<Self> {
        let mut settings = Self::default();
        for (name, value) in options {
            let wrong = |why: &str| invalid_option(&format!("{prefix}{name}"), value, why);
            let number = || {
                let text = core::str::from_utf8(value).ok();
                let number = text.and_then(|text| text.parse::<u32>().ok());
                number.ok_or_else(|| wrong("a number is needed"))
            };
            match name.as_str() {
                "view" => {
                    settings.view = match &value[..] {
                        b"default" => View::Default,
                        b"read" => View::Read,
                        b"write" => View::Write,
                        _ => return Err(wrong("default, read or write is needed")),
                    }
                }
                "userid" => settings.userid = number()?,
                "uid" => settings.uid = Some(number()?),
                "gid" => settings.lower_gid = Some(number()?),
                "packages" if value.first() != Some(&b'/') => {
                    return Err(wrong("an absolute path is needed"));
                }
                "packages" => settings.packages.clone_from(value),
                "multiuser" | "fullwrite" | "normal" | "derivegid" | "ownobb"
                    if !value.is_empty() =>
                {
                    return Err(wrong("it takes no value"));
                }
                "multiuser" => settings.multiuser = true,
                "fullwrite" => settings.fullwrite = true,
                "normal" => settings.normal = true,
                "derivegid" => settings.derives_groups = true,
                "ownobb" => settings.own_obb = true,
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Who acts in the source: not the caller, whose rights are judged by what is shown.
    pub fn server<'a>(&self, caller: &Caller<'a>) -> Caller<'a> {
        Caller {
            uid: self.low_uid(),
            gid: self.low_gid(),
            groups: &[],
            umask: 0,
            rights: None,
            ..*caller
        }
    }

    /// Whose files in the source are, if nothing else is derived.
    pub fn low_uid(&self) -> u32 {
        self.uid.unwrap_or_else(process::geteuid)
    }

    /// Their group.
    pub fn low_gid(&self) -> u32 {
        self.lower_gid.unwrap_or_else(process::getegid)
    }

    /// Whether it is the view `default`.
    pub const fn is_default(&self) -> bool {
        matches!(self.view, View::Default)
    }

    /// The view's group.
    pub const fn gid(&self) -> u32 {
        match self.is_default() {
            true => SDCARD_RW,
            false => EVERYBODY,
        }
    }

    /// What the view takes from 0775 (`run` of the original).
    pub const fn mask(&self) -> u32 {
        match (self.view, self.multiuser, self.fullwrite) {
            (View::Default, ..) => 0o006,
            (View::Read | View::Write, false, false) => 0o022,
            (View::Read, ..) | (View::Write, true, false) => 0o027,
            (View::Write, _, true) => 0o007,
        }
    }
}
