//! The options of a passthrough mount.

use crate::option_table::option_lines;
use crate::{
    AccessTimes, Declared, OptionTable, OtherUser, Source, declared::BOUND, invalid_option,
};
use alloc::{format, string::String};
use culvert::{BackingLinks, Errno, Error, Result, mount::Mount};

/// What `culvert drivers passthrough` shows.
pub const OPTIONS: OptionTable = OptionTable(&[WRITABLE, OWN, WATCH]);

/// Those that type `bind` has, too.
pub(crate) const WRITABLE: &str = option_lines![
    ("ro", "", "read-only: every change is refused (EROFS)"),
    (
        "rw",
        "",
        "writable, as far as the directory is for you (default)"
    ),
];
pub(crate) const WATCH: &str = option_lines![(
    "watch",
    "",
    "in a kernel mount: watch the directory (inotify), tell the kernel at once what \
            others change, and let it believe the rest for a day"
),];

const OWN: &str = option_lines![
    (
        "links",
        "mount|backing",
        "how links that climb are followed: as seen from the target (mount, default), or \
            as in the source itself (backing: faster by path)"
    ),
    (
        "driven",
        "",
        "serve every read and write by a call into the driver, not by the kernel's own \
            descriptor"
    ),
    (
        "descriptor",
        "yes|no",
        "whether driven files offer their kernel's descriptor for mappings and locks \
            (yes, default), or are served as those of a driver that has none (no)"
    ),
    (
        "paths",
        "",
        "serve the directory by paths alone, as a driver written with the path adapter \
            (for tests; driven)"
    ),
];

/// Option that `prepare` adds: the root's device and inode, so that every process of a run finds
/// the same directory or none.
pub(super) const IDENTITY: &str = "identity";

/// Option of a mount below layers.
const BACKED: &str = "backed";

/// The options of one mount, checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `ro`.
    pub read_only: bool,
    /// `links`.
    pub links: BackingLinks,
    /// `driven`.
    pub driven: bool,
    /// `descriptor=no`: driven files do not offer their descriptor.
    pub no_descriptor: bool,
    /// `paths`: through the path adapter. Implies `driven` and `descriptor=no`.
    pub paths: bool,
    /// `watch`.
    pub watch: bool,
    /// `bound`.
    pub bound: bool,
    /// `backed`: there are layers above. Files are the kernel's own, and what is not about their
    /// bytes is a call.
    pub backed: bool,
    /// `identity`: `st_dev` and `st_ino`.
    pub identity: Option<(u64, u64)>,
}

impl Options {
    /// The options of `mount` as the user wrote them; `EINVAL` with what is wrong and what there
    /// is.
    pub fn parse(mount: &Mount) -> Result<Self> {
        crate::check_names(OPTIONS, mount)?;
        Self::travelled(mount)
    }

    /// The options of a mount that `prepare` returned.
    pub fn travelled(mount: &Mount) -> Result<Self> {
        let mut options = Self {
            read_only: mount.read_only(),
            ..Self::default()
        };
        for (name, value) in &mount.options {
            match (name.as_str(), &value[..]) {
                ("links", b"mount") => options.links = BackingLinks::Mount,
                ("links", b"backing") => options.links = BackingLinks::Backing,
                ("links", _) => {
                    return Err(invalid_option(name, value, "mount or backing is needed"));
                }
                ("descriptor", b"yes") => options.no_descriptor = false,
                ("descriptor", b"no") => options.no_descriptor = true,
                ("descriptor", _) => {
                    return Err(invalid_option(name, value, "yes or no is needed"));
                }
                (IDENTITY, text) => options.identity = Some(identity(text)?),
                ("ro" | "rw" | "driven" | "paths" | "watch" | BOUND | BACKED, value)
                    if !value.is_empty() =>
                {
                    return Err(invalid_option(name, value, "it takes no value"));
                }
                ("driven", _) => options.driven = true,
                ("paths", _) => options.paths = true,
                ("watch", _) => options.watch = true,
                (BOUND, _) => options.bound = true,
                (BACKED, _) => options.backed = true,
                _ => {}
            }
        }
        // A driver behind paths has no descriptors to offer.
        options.driven |= options.paths;
        options.no_descriptor |= options.paths;
        Ok(options)
    }
}

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Directory,
    recognises: |_| true,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Source,
    may_be_bound: Some(|mount| Options::travelled(mount).is_ok_and(|options| !options.driven)),
    below_layers: Some(backed),
    branch_nodes: None,
};

/// Below layers calls about a file's metadata are made here, for on the kernel's own descriptors
/// they would pass by the layers, and tell another `st_dev` than calls by path.
fn backed(mount: &mut Mount) {
    mount.options.push((BACKED.into(), Default::default()));
}

/// The value of the option that carries an identity.
pub(super) fn identity_text((device, inode): (u64, u64)) -> String {
    format!("{device:x}.{inode:x}")
}

fn identity(text: &[u8]) -> Result<(u64, u64)> {
    let hexadecimal = |part: &str| u64::from_str_radix(part, 16).ok();
    core::str::from_utf8(text)
        .ok()
        .and_then(|text| text.split_once('.'))
        .and_then(|(device, inode)| Some((hexadecimal(device)?, hexadecimal(inode)?)))
        .ok_or_else(|| Error::because(Errno::EINVAL, "option identity: not device.inode"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::string::ToString;

    fn mount(options: &[(&str, &str)]) -> Mount {
        let options = options.iter();
        Mount {
            driver: "passthrough".into(),
            source: b"/s".to_vec(),
            target: b"/t".to_vec(),
            options: options
                .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
                .collect::<Vec<_>>(),
            branches: Vec::new(),
        }
    }

    #[test]
    fn the_last_word_counts() {
        let options = Options::parse(&mount(&[
            ("ro", ""),
            ("links", "backing"),
            ("rw", ""),
            ("driven", ""),
        ]));
        let options = options.unwrap();
        assert!(!options.read_only && options.driven);
        assert_eq!(options.links, BackingLinks::Backing);
    }

    #[test]
    fn bad_options_are_refused_with_what_there_is() {
        for (given, want) in [
            (("links", "all"), "mount or backing"),
            (("descriptor", "1"), "yes or no"),
            (("ro", "1"), "no value"),
            (("drivn", ""), "did you mean driven"),
            (("identity", "1.2"), "no option"),
            (("bound", ""), "no option"),
            (("backed", ""), "no option"),
        ] {
            let error = Options::parse(&mount(&[given])).unwrap_err();
            assert!(error.to_string().contains(want), "{given:?}: {error}");
        }
    }

    #[test]
    fn an_identity_comes_back() {
        let pair = (0xfe01, u64::MAX);
        assert_eq!(identity(identity_text(pair).as_bytes()).unwrap(), pair);
        for bad in [&b""[..], b"12", b"1.x", b"\xff.1"] {
            assert!(identity(bad).is_err());
        }
    }
}
