//! The options, as they are shown.

use crate::OptionInfo;

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
        "permission bits as they are shown: RULES are chmod's, with D, d and f, separated by \
        colons (u=rwX:g=rD:o=)",
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
        "map as in a file like passwd(5): its numbers to the users of these names here (root's \
        kernel mounts)",
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
        "the options after it are for what matches and lies below, in addition to those before \
        the first path; the last that matches holds",
    ),
];
