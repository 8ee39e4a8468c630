//! SIGXFSZ: under RLIMIT_FSIZE a write beyond the limit kills, unless the signal is ignored; then
//! it is an error with a reason.

use culvert_sys::{process::set_ignored, raw::general::SIGXFSZ};

/// SIGXFSZ is ignored while this lives; dropped, it is again what the program to be started shall
/// inherit: no program is started with a handler.
pub struct Ignored(bool);

impl Ignored {
    /// Ignores the signal.
    pub fn new() -> Self {
        Self(set_ignored(SIGXFSZ, true).unwrap_or(true))
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        let _ = set_ignored(SIGXFSZ, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_comes_back() {
        assert_eq!(set_ignored(SIGXFSZ, false), Ok(false));
        for before in [false, true] {
            let _ = set_ignored(SIGXFSZ, before);
            let ignored = Ignored::new();
            assert_eq!(set_ignored(SIGXFSZ, true), Ok(true));
            drop(ignored);
            assert_eq!(set_ignored(SIGXFSZ, false), Ok(before));
        }
    }
}
