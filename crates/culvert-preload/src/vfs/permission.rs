//! Who may do what to a node.

use culvert::{Attributes, Caller, Errno};

/// The right to do `wanted` (as [`permits`]) to a node with `attributes`, before an operation that
/// needs it: EACCES, where not the operation itself finds out
/// ([`culvert::Capabilities::checks_permissions`]: mode bits say little where there are access
/// lists).
pub fn allowed(
    file_system: &dyn culvert::FileSystem,
    attributes: &Attributes,
    wanted: u32,
) -> Result<(), Errno> {
    let decides = file_system.capabilities().checks_permissions;
    match decides || permits(&culvert_run::task::caller(), attributes, wanted) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// The same where no operation of the driver follows that would find out: access(2), chdir(2),
/// execve(2).
pub fn granted(
    file_system: &dyn culvert::FileSystem,
    caller: &Caller<'_>,
    attributes: &Attributes,
    wanted: u32,
) -> Result<(), Errno> {
    match file_system.capabilities().checks_permissions {
        true => file_system
            .access(caller, attributes.node, culvert::Access(wanted))
            .map_err(|error| error.errno()),
        false if permits(caller, attributes, wanted) => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Whether `caller` may do `wanted` (4 read, 2 write, 1 execute or search) to something with
/// `attributes`.
pub fn permits(caller: &Caller<'_>, attributes: &Attributes, wanted: u32) -> bool {
    caller.may(culvert::Access(wanted), attributes).is_ok()
}
