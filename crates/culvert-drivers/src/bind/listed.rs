//! The options, as they are shown.

use crate::OptionTable;
use crate::option_table::option_lines;

/// The option that says where the words lie in which the processes of a run count their rates;
/// nobody may write it.
pub const SHARED_RATES: &str = "rates";

/// What `culvert drivers bind` shows: bindfs's own, then those for paths.
pub const OPTIONS: OptionTable = OptionTable(&[LINES]);

/// The text of them.
pub const LINES: &str = option_lines![
    ("force-user", "USER", "all files are USER's"),
    ("force-group", "GROUP", "all files are GROUP's"),
    (
        "perms",
        "RULES",
        "permission bits as they are shown: RULES are chmod's, with D, d and f, separated by \
        colons (u=rwX:g=rD:o=)"
    ),
    (
        "mirror",
        "USER|@GROUP[:...]",
        "each of these users sees all files as his own"
    ),
    (
        "mirror-only",
        "USER|@GROUP[:...]",
        "the same, and no other user but root gets in"
    ),
    (
        "map",
        "FROM/TO[:@GROUP/@GROUP...]",
        "what is FROM's is shown as TO's; what TO makes is FROM's (root's kernel mounts)"
    ),
    (
        "map-passwd",
        "FILE",
        "map as in a file like passwd(5): its numbers to the users of these names here (root's \
        kernel mounts)"
    ),
    ("map-group", "FILE", "the same for groups"),
    (
        "map-passwd-rev",
        "FILE",
        "as map-passwd, the other way round"
    ),
    ("map-group-rev", "FILE", "the same for groups"),
    (
        "uid-offset",
        "N",
        "owners are shown as this much larger numbers (root's kernel mounts)"
    ),
    ("gid-offset", "N", "the same for groups"),
    (
        "create-as-user",
        "",
        "what is made belongs to who makes it (default)"
    ),
    (
        "create-as-mounter",
        "",
        "what is made belongs to the user of the run or mount"
    ),
    (
        "create-for-user",
        "USER",
        "what is made is USER's (root's kernel mounts)"
    ),
    (
        "create-for-group",
        "GROUP",
        "what is made is GROUP's (root's kernel mounts)"
    ),
    (
        "create-with-perms",
        "RULES",
        "permission bits of what is made"
    ),
    (
        "chown-normal",
        "",
        "chown changes the file's owner (default)"
    ),
    ("chown-ignore", "", "chown succeeds and leaves the owner"),
    ("chown-deny", "", "chown fails (EPERM)"),
    (
        "chgrp-normal",
        "",
        "chgrp changes the file's group (default)"
    ),
    ("chgrp-ignore", "", "chgrp succeeds and leaves the group"),
    ("chgrp-deny", "", "chgrp fails (EPERM)"),
    (
        "chmod-normal",
        "",
        "chmod changes the file's mode (default)"
    ),
    ("chmod-ignore", "", "chmod succeeds and leaves the mode"),
    ("chmod-deny", "", "chmod fails (EPERM)"),
    (
        "chmod-filter",
        "RULES",
        "what is made of the mode that chmod gives"
    ),
    (
        "chmod-allow-x",
        "",
        "with chmod-ignore and chmod-deny: regular files may become executable or not"
    ),
    ("xattr-none", "", "no extended attributes (EOPNOTSUPP)"),
    (
        "xattr-ro",
        "",
        "extended attributes are not changed (EACCES)"
    ),
    ("xattr-rw", "", "extended attributes as they are (default)"),
    ("delete-deny", "", "nothing is removed (EPERM)"),
    ("rename-deny", "", "nothing is renamed (EPERM)"),
    (
        "read-rate",
        "BYTES[k|M|G|T]",
        "at most so many bytes a second are read, by all together"
    ),
    (
        "write-rate",
        "BYTES[k|M|G|T]",
        "the same for what is written"
    ),
    ("hide-hard-links", "", "everything has one link"),
    (
        "resolve-symlinks",
        "",
        "symbolic links to files within are shown as these files"
    ),
    (
        "resolved-symlink-deletion",
        "deny|symlink-only|symlink-first|target-first",
        "what removing such a link removes (default symlink-only)"
    ),
    (
        "realistic-permissions",
        "",
        "bits that say what the user of the run or mount may not do are not shown"
    ),
    (
        "ctime-from-mtime",
        "",
        "times of change are those of modification"
    ),
    (
        "block-devices-as-files",
        "",
        "block devices are shown as regular files"
    ),
    (
        "enable-lock-forwarding",
        "",
        "locks are those of the files themselves; in a run they always are"
    ),
    ("disable-lock-forwarding", "", "does nothing, as in bindfs"),
    (
        "enable-ioctl",
        "",
        "does nothing: inode flags can always be changed, by the caller's rights"
    ),
    ("multithreaded", "", "does nothing: it always is"),
    (
        "direct-io",
        "",
        "reads and writes of a kernel mount pass its page cache by"
    ),
    ("no-direct-io", "", "they do not (default)"),
    (
        "forward-odirect",
        "BYTES",
        "refused: O_DIRECT is accepted, and not handed on"
    ),
    (
        "no-allow-other",
        "",
        "does nothing: other users need allow_other"
    ),
    (
        "exclude",
        "PATTERN",
        "what matches is not there: a name anywhere, or with a slash a path; may be given again"
    ),
    (
        "rates",
        "FILE",
        "what all processes of a run count rates in: made for each run, refused from users"
    ),
    (
        "path",
        "PATTERN",
        "the options after it are for what matches and lies below, in addition to those before \
        the first path; the last that matches holds"
    ),
];
