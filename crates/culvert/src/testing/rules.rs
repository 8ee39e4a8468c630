//! The rules by name, for reports and for the proof that each can be broken.

/// Every rule that the kit checks: the name that a [`Failure`](super::Failure) carries, and what it
/// says.
pub const RULES: &[(&str, &str)] = &[
    ("no-panic", "nothing that is asked makes the driver panic"),
    ("root", "the root is a directory, and always the same node"),
    ("lookup-finds", "every name that is there is found"),
    ("absent-names", "any other name is ENOENT, however odd"),
    (
        "node-identity",
        "equal nodes mean equal files, and hard links are one node",
    ),
    (
        "node-stability",
        "a name that is looked up again leads to the same node",
    ),
    (
        "parent",
        "parent is the directory that holds the name, the root's the root",
    ),
    ("path-of", "the path of a node leads to it"),
    ("attributes", "attributes are those expected"),
    (
        "attributes-agree",
        "entry, node and open file report the same attributes",
    ),
    (
        "walk",
        "a walk comes where single lookups come, stops at links, and says how far it came",
    ),
    ("listing", "a directory lists exactly the names that it has"),
    (
        "listing-agrees",
        "inode and type in a listing are those of the node",
    ),
    (
        "listing-plus",
        "a listing with attributes lists the same and finds the same nodes",
    ),
    (
        "every-entry-once",
        "no entry comes twice or is left out, in whatever parts it is read",
    ),
    (
        "positions",
        "positions differ, are not 0, and fit into 63 bits",
    ),
    (
        "legal-names",
        "listed names are 1 to 255 bytes without slash and NUL, not . or ..",
    ),
    (
        "restart",
        "a listing goes on after any entry, and an entry refused comes again",
    ),
    (
        "refused-stops",
        "nothing is offered after the sink has refused",
    ),
    ("odd-positions", "a position never given is no error"),
    ("open-directory", "an opened directory lists the same"),
    ("open", "regular files can be opened"),
    (
        "open-wrong-kind",
        "EISDIR for a directory, ELOOP for a link, ENXIO for others",
    ),
    ("content", "a file holds what is expected"),
    (
        "read-anywhere",
        "a read gives the bytes of its place, all that were asked for",
    ),
    (
        "read-past-end",
        "a read at or past the end gives nothing, and is no error",
    ),
    (
        "faults",
        "bad memory ends an operation short, or with EFAULT when nothing was done",
    ),
    ("seek", "holes read as zeroes; ENXIO at the end"),
    ("readlink", "a link gives its target, anything else EINVAL"),
    ("statfs", "figures make sense"),
    (
        "xattrs",
        "extended attributes are those expected, with the errnos of xattr(7)",
    ),
    ("not-a-directory", "ENOTDIR where a directory is needed"),
    ("stale-nodes", "ESTALE for a node never given"),
    (
        "read-only",
        "EROFS for every change on a read-only driver, and nothing changes",
    ),
    ("threads", "several threads read, look up and list at once"),
    (
        "create",
        "a new file is empty, has the mode asked for, and is found",
    ),
    ("create-existing", "O_CREAT opens what exists as it is"),
    ("create-exclusive", "O_EXCL is EEXIST where the name exists"),
    (
        "create-truncates",
        "O_CREAT with O_TRUNC empties what exists",
    ),
    (
        "mkdir",
        "a new directory is empty and has the mode asked for",
    ),
    ("rmdir", "empty directories are removed, others ENOTEMPTY"),
    (
        "removed-directory",
        "ENOENT for everything made in a removed directory",
    ),
    ("unlink", "a name is removed; a directory is EISDIR"),
    (
        "unlinked-stays-open",
        "an open file without a name is fully usable, with 0 links",
    ),
    ("write", "what is written is read, gaps are zeroes"),
    ("seen-by-all", "one open sees at once what another wrote"),
    ("sync", "sync and flush succeed"),
    ("append", "an append goes to the end and says where"),
    ("truncate", "a new size cuts off or adds zeroes"),
    ("open-truncates", "O_TRUNC empties"),
    ("allocate", "fallocate extends, and punches holes"),
    (
        "copy-range",
        "a range is copied as far as there is something",
    ),
    ("rename", "names move, with the errnos of rename(2)"),
    (
        "rename-keeps-nodes",
        "nodes stay themselves, and all below a directory",
    ),
    ("rename-keeps-open", "open files stay usable"),
    (
        "rename-replaces",
        "a file or an empty directory is replaced",
    ),
    ("rename-one-file", "two names of one file both stay"),
    (
        "rename-flags",
        "RENAME_NOREPLACE and RENAME_EXCHANGE, or EINVAL",
    ),
    ("links", "a hard link is the same node; links are counted"),
    ("symlinks", "a link keeps its target byte by byte"),
    ("mknod", "special files have the type and device asked for"),
    (
        "tmpfile",
        "an unnamed file can be named unless O_EXCL said never",
    ),
    ("times", "changes move mtime, and nothing else does"),
    ("chmod", "permission bits are kept"),
    ("chown", "owners are kept"),
    (
        "privileges-dropped",
        "set-user-ID and set-group-ID do not survive a change by a user",
    ),
    (
        "ownership",
        "what is made belongs to its maker, or to the directory's group",
    ),
    (
        "listing-meanwhile",
        "what stays is listed once while other names come and go",
    ),
    ("one-winner", "of several that make one name, one does"),
    (
        "seen-in-time",
        "two processes see each other's changes: at once, or when both have synced",
    ),
    (
        "appends-together",
        "appends of several threads neither overlap nor tear",
    ),
];
