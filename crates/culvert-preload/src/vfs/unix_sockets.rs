//! Sockets with a name in a mount (unix(7)). The driver keeps a socket's inode, as it keeps any
//! other; what connects the processes is a socket in the run directory, named by that inode, and so
//! the same for all of them.

use crate::process::{self, Process};
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Errno, Node};
use culvert_mounts::MountId;
use culvert_run::{ShadowName, files::c_string, read_link};
use culvert_sys::fs;

/// The folder of the run directory for [`FarName`]s. Short: each byte is one less for the socket's
/// name.
const FAR: &str = "far";

/// The socket that stands for inode `inode` of `mount`.
pub fn stand_in(process: &Process, mount: MountId, inode: u64) -> CString {
    let name = ShadowName {
        mount,
        node: Node(inode),
    };
    process.run.file(&format!("sockets/{}", name.text()))
}

/// A short way to a directory in which a socket is bound, in the run directory.
pub struct FarName {
    link: CString,
}

impl FarName {
    /// One that leads where `way` does, and is not used by any other process of the run.
    pub fn new(way: &CStr, given: &[u8]) -> Result<Self, Errno> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let run = &process::get().run;
        let _ = culvert_run::make_directory(&run.file(FAR));
        loop {
            let number = NEXT.fetch_add(1, Relaxed);
            let link = run.file(&format!("{FAR}/{number}"));
            match fs::symlink(way, &link) {
                Ok(()) => {
                    let far = Self { link };
                    fs::symlink(&c_string(given), &name_of(&far.link))
                        .inspect_err(|_| far.remove())?;
                    return Ok(far);
                }
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Its path.
    pub fn directory(&self) -> &[u8] {
        self.link.to_bytes()
    }

    /// Takes it away.
    pub fn remove(&self) {
        for path in [&self.link, &name_of(&self.link)] {
            let _ = fs::unlink(path);
        }
    }
}

/// Where the name is kept that the program gave to the socket at `path`.
pub fn name_of(path: &CStr) -> CString {
    c_string([path.to_bytes(), b".name"].concat())
}

/// Some socket of the run has a name that is not the one that the kernel tells.
pub fn has_names(process: &Process) {
    if let Some(notes) = process.node_locks.notes() {
        notes.sockets.store(1, Relaxed);
    }
}

/// Whether a socket of the run may have one.
pub fn are_named(process: &Process) -> bool {
    let notes = process.node_locks.notes();
    notes.is_some_and(|notes| notes.sockets.load(Relaxed) != 0)
}

/// What the program calls the socket that the kernel knows at `path`; none for those outside of
/// mounts.
pub fn known_as(process: &Process, path: &[u8]) -> Option<Vec<u8>> {
    let path = &path[..path.iter().position(|&b| b == 0).unwrap_or(path.len())];
    let sockets = process.run.file("sockets/");
    if path.starts_with(sockets.to_bytes()) {
        return read_link(&name_of(&c_string(path))).ok();
    }
    let far = process.run.file(&format!("{FAR}/"));
    if let Some(rest) = path.strip_prefix(far.to_bytes()) {
        let number = rest.split(|&b| b == b'/').next()?;
        return read_link(&name_of(&c_string([far.to_bytes(), number].concat()))).ok();
    }
    // One in a backing tree, named from the tree's root.
    let rest = path.strip_prefix(b"/proc/self/fd/")?;
    let slash = rest.iter().position(|&b| b == b'/')?;
    let root: i32 = core::str::from_utf8(&rest[..slash]).ok()?.parse().ok()?;
    let mount = process
        .mounts
        .ids()
        .find(|&mount| crate::backing::of(mount).is_some_and(|backing| backing.root == root))?;
    Some([process.mounts.target(mount), &rest[slash..]].concat())
}
