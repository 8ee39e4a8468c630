//! Whether the caller may use a file (`do_faccessat`, fs/open.c).

use super::node::On;
use super::permission::granted;
use culvert::{Errno, FileKind};

/// access(2): the rights of `mode`, a read-only mount's EROFS before them. 0 asks whether it is
/// there.
pub fn check(on: On<'_>, mode: u32) -> Result<(), Errno> {
    const WRITE: u32 = 2;
    let attributes = on.attributes()?;
    if mode == 0 {
        return Ok(());
    }
    let stored = matches!(
        attributes.kind,
        FileKind::Regular | FileKind::Directory | FileKind::Symlink
    );
    let file_system = match mode & WRITE != 0 && stored {
        true => on.to_be_changed()?,
        false => on.file_system()?,
    };
    granted(file_system, &culvert_run::task::caller(), &attributes, mode)
}
