//! mount(2) and umount2(2) of a server: its mount is the run's, and the kernel hears nothing of it.

use super::STATE;
use crate::answer::Answer;
use culvert_intercept::Call;
use culvert_run::memory::PathBuffer;
use culvert_run::{files::c_string, read_link};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;

/// The name of the link in the mount directory that leads to what the server knows as its target.
pub const TARGET: &str = "target";
/// The name of the file in the mount directory that holds the options of the server's mount.
pub const OPTIONS: &str = "options";

/// mount(2) of a file system of FUSE; none for others.
pub fn mount(call: &Call) -> Option<Answer> {
    let state = STATE.get()?;
    let (mut kind, mut target) = (PathBuffer::new(), PathBuffer::new());
    let kind = kind.read(call.args[2]).ok()?;
    let is_fuse = matches!(kind.bytes(), b"fuse" | b"fuseblk")
        || kind.starts_with(b"fuse.")
        || kind.starts_with(b"fuseblk.");
    if !is_fuse {
        return None;
    }
    let target = target.read(call.args[1]).ok()?;
    *state.target.lock() = Some(target.to_vec());
    let mut options = PathBuffer::new();
    if call.args[4] != 0
        && let Ok(options) = options.read(call.args[4])
    {
        state.note_options(options.bytes());
    }
    Some(Ok(0))
}

/// umount2(2) of what the server has mounted; none for other targets.
pub fn unmount(call: &Call) -> Option<Answer> {
    let state = STATE.get()?;
    let mut target = PathBuffer::new();
    let target = target.read(call.args[0]).ok()?;
    if !state.is_target(target.bytes()) {
        return None;
    }
    if state.slots.is_own() {
        state.end();
    }
    Some(Ok(0))
}

impl super::State {
    /// Notes what the server says of its mount, as the data of mount(2) has it.
    pub(super) fn note_options(&self, options: &[u8]) {
        let file = c_string([&self.directory[..], b"/", OPTIONS.as_bytes()].concat());
        let flags = OFlags::WRONLY | OFlags::CREAT | OFlags::TRUNC | OFlags::CLOEXEC;
        if let Ok(file) = fs::open(&file, flags, 0o600) {
            let _ = fs::write(&file, options);
        }
    }

    /// Whether the server means its mount by `path`.
    pub(super) fn is_target(&self, path: &[u8]) -> bool {
        let is_own = self.target.lock().as_deref() == Some(path);
        is_own || {
            let link = c_string([&self.directory[..], b"/", TARGET.as_bytes()].concat());
            read_link(&link).is_ok_and(|target| target == path)
        }
    }
}
