//! SIGXFSZ: under RLIMIT_FSIZE a write beyond the limit kills, unless the signal is ignored; then
//! it is an error with a reason.

use culvert_sys::{nr, syscall};

const SIGXFSZ: usize = 25;

/// The kernel's `struct sigaction` (`arch/x86/include/uapi/asm/signal.h`): handler, flags,
/// restorer, mask.
type Action = [usize; 4];

/// SIGXFSZ is ignored while this lives; dropped, it is again what the program to be started shall
/// inherit.
pub struct Ignored(Option<Action>);

impl Ignored {
    /// Ignores the signal.
    pub fn new() -> Self {
        const SIG_IGN: usize = 1;
        let mut before = Action::default();
        Self(change(&[SIG_IGN, 0, 0, 0], &mut before).then_some(before))
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            change(before, &mut Action::default());
        }
    }
}

fn change(to: &Action, before: &mut Action) -> bool {
    const MASK_SIZE: usize = 8;
    let arguments = [
        SIGXFSZ,
        to.as_ptr() as usize,
        before.as_mut_ptr() as usize,
        MASK_SIZE,
    ];
    // SAFETY: two actions of the kernel's layout; the handler is SIG_IGN or what was there before.
    unsafe { syscall::call(nr::RT_SIGACTION, arguments) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_comes_back() {
        let look = || {
            let mut now = Action::default();
            assert!(change(&[0; 4], &mut now));
            now[0]
        };
        assert_eq!(look(), 0);
        let ignored = Ignored::new();
        let mut now = Action::default();
        assert!(change(&[1, 0, 0, 0], &mut now));
        assert_eq!(now[0], 1);
        drop(ignored);
        assert_eq!(look(), 0);
    }
}
