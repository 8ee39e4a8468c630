//! What a symbolic link says, and what links of proc(5) to something of ours say.

use super::node::On;
use super::path::{Found, Given, find};
use super::{own_file, proc_files, shown};
use crate::process::Process;
use alloc::vec::Vec;
use culvert::{Errno, FileKind};
use culvert_mounts::resolver::LastStep;
use culvert_run::memory::Path;

/// The target of a link in a mount; what is none says `otherwise`.
pub fn target(on: On<'_>, otherwise: Errno) -> Result<Vec<u8>, Errno> {
    let attributes = on.attributes()?;
    if attributes.kind != FileKind::Symlink {
        return Err(otherwise);
    }
    on.file_system()?
        .readlink(&culvert_run::task::caller(), attributes.node)
        .map_err(|error| error.errno())
}

/// What the link at `path` below `directory` says that the kernel would show wrongly: one of
/// proc(5) to a descriptor of ours, to one in a backing tree, to a program from a mount. None: it
/// is none of these.
pub fn of_proc(
    process: &Process,
    directory: i32,
    path: Path<'_>,
) -> Option<Result<Vec<u8>, Errno>> {
    if let Some(fd) = proc_files::descriptor_link(path.bytes()) {
        let table = &process.table;
        if let Some(held) = table.get(fd) {
            return Some(shown::shown_path(process, &held));
        }
        let mount = table.backed(fd).or_else(|| table.opened_through(fd));
        let seen = |mount| crate::backing::seen(mount, &culvert_run::descriptor_path(fd).ok()?);
        if let Some(text) = mount.and_then(seen) {
            return Some(Ok(text));
        }
    }
    if let Some(text) = own_file::shown(path.bytes()) {
        return Some(Ok(text.to_vec()));
    }
    if let Some(text) = own_file::of_a_process(process, directory, path.bytes()) {
        return Some(Ok(text));
    }
    match find(process, Given::new(directory, path, LastStep::NoFollow)) {
        Ok(Found::MagicLink(magic)) => shown::magic_text(process, &magic).ok().map(Ok),
        _ => None,
    }
}
