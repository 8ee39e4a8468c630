//! The options of a union, as they are shown.

use crate::OptionTable;
use crate::option_table::option_table;
use alloc::string::String;

/// The option that the user calls `name`: mergerfs takes `_` and `-` for the same.
pub fn spelt(name: &str) -> String {
    name.replace('_', "-")
}

/// What `culvert drivers union` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "category.action",
        "POLICY",
        "which branches changes are made on (default: epall)"
    ),
    (
        "category.create",
        "POLICY",
        "which branch something new is made on (default: pfrd)"
    ),
    (
        "category.search",
        "POLICY",
        "which branch is asked (default: ff)"
    ),
    (
        "func.access",
        "POLICY",
        "of access(2) alone; the same of others below"
    ),
    ("func.chmod", "POLICY", "of chmod(2)"),
    ("func.chown", "POLICY", "of chown(2)"),
    ("func.create", "POLICY", "of open(2) with O_CREAT"),
    (
        "func.getattr",
        "POLICY",
        "of stat(2), and of what a name is"
    ),
    ("func.getxattr", "POLICY", "of getxattr(2)"),
    ("func.link", "POLICY", "of link(2)"),
    ("func.listxattr", "POLICY", "of listxattr(2)"),
    ("func.mkdir", "POLICY", "of mkdir(2)"),
    ("func.mknod", "POLICY", "of mknod(2)"),
    ("func.open", "POLICY", "of open(2)"),
    (
        "func.readdir",
        "seq|cosr|cor[:COUNT]",
        "whether branches are listed one after the other (default) or at once, that many of them, \
        on kernel mounts"
    ),
    ("func.readlink", "POLICY", "of readlink(2)"),
    ("func.removexattr", "POLICY", "of removexattr(2)"),
    ("func.rename", "POLICY", "of rename(2)"),
    ("func.rmdir", "POLICY", "of rmdir(2)"),
    ("func.setxattr", "POLICY", "of setxattr(2)"),
    ("func.symlink", "POLICY", "of symlink(2)"),
    ("func.truncate", "POLICY", "of truncate(2)"),
    ("func.unlink", "POLICY", "of unlink(2)"),
    ("func.utimens", "POLICY", "of utimensat(2)"),
    (
        "minfreespace",
        "BYTES",
        "where less space is left, nothing is created, with K, M, G or T for powers of 1024 \
        (default: 4G)"
    ),
    (
        "inodecalc",
        "NAME",
        "what st_ino is made of: hybrid-hash (default), devino-hash, path-hash or passthrough; of \
        the first three also with 32 at the end"
    ),
    (
        "statfs-ignore",
        "none|ro|nc",
        "branches whose free space is not told: with ro those with RO or NC, with nc those with \
        NC (default: none)"
    ),
    (
        "ignorepponrename",
        "true|false",
        "a rename makes the new directory where it is missing, whatever func.create says \
        (default: false)"
    ),
    (
        "moveonenospc",
        "true|false|POLICY",
        "a file that is written to without room is moved to another branch, by a policy (true: \
        pfrd; default: false)"
    ),
    (
        "link-exdev",
        "NAME",
        "what a hard link becomes that paths keep from its branch: passthrough (EXDEV, default), \
        rel-symlink, abs-base-symlink, abs-pool-symlink"
    ),
    (
        "rename-exdev",
        "NAME",
        "what a rename becomes that paths keep from its branch: passthrough (EXDEV, default), \
        rel-symlink, abs-symlink; the file then lies in .mergerfs_rename_exdev"
    ),
    (
        "follow-symlinks",
        "NAME",
        "which links are shown as what they lead to in the union: never (default), directory, \
        regular, all"
    ),
    (
        "symlinkify",
        "true|false",
        "files that nobody may write are shown as links to where they lie (default: false)"
    ),
    (
        "symlinkify-timeout",
        "SECONDS",
        "how long they have not changed (default: 3600)"
    ),
    (
        "link-cow",
        "true|false",
        "a file with several names is copied when it is opened for writing (default: false)"
    ),
    (
        "statfs",
        "base|full",
        "what statfs(2) sums up: all branches (default), or those that have the path"
    ),
    (
        "modes",
        "MODE:MODE...",
        "RW, RO or NC of each branch, with or without a comma and its minfreespace; better: \
        SOURCE=MODE"
    ),
    ("ro", "", "read-only"),
    ("rw", "", "writable (default)"),
];

#[test]
fn each_option_is_found_however_it_is_spelt() {
    for option in OPTIONS.iter() {
        assert_eq!(spelt(option.name), option.name);
        assert_eq!(spelt(&option.name.replace('-', "_")), option.name);
    }
}
