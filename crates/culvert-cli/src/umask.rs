//! The umask, while files are made that this user's processes must be able to open.

use rustix::fs::Mode;

/// No right of the owner is taken from new files while this lives; dropped, the umask is again what
/// the program to be started shall inherit.
pub struct OwnerRights(Mode);

impl OwnerRights {
    /// Changes the umask of the process, which has one thread.
    pub fn new() -> Self {
        let before = rustix::process::umask(Mode::all());
        rustix::process::umask(before - Mode::RWXU);
        Self(before)
    }
}

impl Drop for OwnerRights {
    fn drop(&mut self) {
        rustix::process::umask(self.0);
    }
}
