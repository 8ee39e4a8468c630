//! What the defaults of the driver API are made of: one place for drivers and layers.

use crate::{
    Access, Attributes, Caller, Capabilities, DirectoryEntry, DirectoryPlusSink, Entry, Errno,
    Error, FileKind, Node, Result, Walked,
};

/// What a change that the driver does not have is answered with: `EROFS` when it is read-only, else
/// `errno`.
pub(crate) fn lacks(capabilities: Capabilities, errno: Errno) -> Error {
    match capabilities.read_only {
        true => Errno::EROFS.into(),
        false => errno.into(),
    }
}

/// A walk by single lookups; `forget` gives back one reference on a directory passed. Where the
/// driver does not judge it (`capabilities`), `caller` must have the right to search those passed.
pub(crate) fn walk(
    (caller, capabilities): (&Caller<'_>, Capabilities),
    lookup: impl Fn(Node, &[u8]) -> Result<Entry>,
    forget: impl Fn(Node),
    from: Node,
    path: &[u8],
) -> Result<Walked> {
    let (mut dir, mut consumed) = (from, 0);
    let passed = |dir| {
        if dir != from {
            forget(dir);
        }
    };
    loop {
        let rest = &path[consumed..];
        let name = &rest[..rest.iter().position(|&b| b == b'/').unwrap_or(rest.len())];
        let entry = lookup(dir, name).inspect_err(|_| passed(dir))?;
        consumed += name.len();
        if consumed == path.len() || entry.attributes.kind == FileKind::Symlink {
            return Ok(Walked {
                entry: Some(entry),
                parent: dir,
                consumed,
            });
        }
        passed(dir);
        dir = entry.attributes.node;
        if entry.attributes.kind == FileKind::Directory && !capabilities.checks_permissions {
            let may = caller.may(Access::EXECUTE, &entry.attributes);
            may.inspect_err(|_| passed(dir))?;
        }
        consumed += 1;
    }
}

/// Whether the mode bits, and a read-only file system, allow `access`.
pub(crate) fn access(
    caller: &Caller<'_>,
    attributes: &Attributes,
    access: Access,
    capabilities: Capabilities,
) -> Result<()> {
    use FileKind::{Directory, Regular, Symlink};
    let stored = matches!(attributes.kind, Regular | Directory | Symlink);
    if access.write() && stored && capabilities.read_only {
        return Err(Errno::EROFS.into());
    }
    caller.may(access, attributes)
}

/// Offers an entry with what a lookup found; one that was not taken is no reference.
pub(crate) fn offer(
    entry: DirectoryEntry<'_>,
    found: Option<Entry>,
    sink: &mut DirectoryPlusSink<'_>,
    forget: impl Fn(Node),
) -> bool {
    let taken = sink(entry, found);
    if let (false, Some(found)) = (taken, found) {
        forget(found.attributes.node);
    }
    taken
}
