//! What the embedder has asked for.

use crate::images::Said;
use crate::{Call, CloneFlags, Interests, Outcome, interest};
use core::cell::UnsafeCell;

/// Answers a call, on the hook stack of the thread that makes it.
pub type Handler = fn(&mut Call) -> Outcome;

/// What the embedder does around the creation of processes. Each runs inside the hook, on the hook
/// stack.
#[derive(Clone, Copy)]
pub struct ForkHooks {
    /// Before; unless memory is shared (CLONE_VM), no other thread is inside a hook from here until
    /// the parent's and child's functions have returned.
    pub before: fn(CloneFlags),
    /// In the parent, with the child's pid or a negated errno. After a vfork: when the child has
    /// called exec or ended.
    pub parent: fn(CloneFlags, isize),
    /// First thing in a new *process* (fork, vfork, CLONE_VM without CLONE_THREAD alike), not in a
    /// new thread, but in one with descriptors of its own.
    pub child: fn(CloneFlags),
    /// Before a thread is made of which the others are not told.
    pub thread: fn(),
}

/// What the engine is to do.
#[derive(Clone, Copy)]
pub struct Config {
    /// Answers the calls.
    pub handler: Handler,
    /// Which calls it wants to see.
    pub interests: &'static Interests,
    /// Around fork.
    pub fork: ForkHooks,
    /// Whether nothing but ld.so has run since the execve: no code that sets signal handlers, and
    /// nothing is mapped but the program, ld.so and the engine's own object.
    pub fresh: bool,
    /// Whether to patch at all (`--no-patch`).
    pub patch: bool,
    /// Where site tables are cached, in the order of preference; absolute paths.
    pub cache_directories: &'static [&'static [u8]],
    /// Where images of rewritten code are kept, an absolute path; none: code is patched in place.
    pub images: Option<&'static [u8]>,
    /// What is known of them ([`crate::images::Excerpt`]), or nothing.
    pub known_images: &'static [u8],
    /// What who has executed the program says of it.
    pub said_of_program: Option<Said>,
    /// Whether images may be made now: no seccomp filter is in force that could end the program for
    /// a call that this takes.
    pub may_make_images: fn() -> bool,
    /// Takes one line, without a line break, about something that is not as it should be.
    pub log: fn(&[u8]),
}

pub(crate) struct Installed(UnsafeCell<Config>);
// SAFETY: written once by `install`, before the first hook.
unsafe impl Sync for Installed {}

fn nothing(_: &mut Call) -> Outcome {
    Outcome::Forward
}

static CONFIG: Installed = Installed(UnsafeCell::new(Config {
    handler: nothing,
    interests: &Interests::NONE,
    fork: ForkHooks {
        before: |_| (),
        parent: |_, _| (),
        child: |_| (),
        thread: || (),
    },
    fresh: false,
    patch: false,
    cache_directories: &[],
    images: None,
    known_images: &[],
    said_of_program: None,
    may_make_images: || false,
    log: |_| (),
}));

/// What the embedder has asked for.
#[inline]
pub(crate) fn config() -> &'static Config {
    // SAFETY: written before anybody reads.
    unsafe { &*CONFIG.0.get() }
}

/// Sets it.
///
/// # Safety
/// Before the first hook.
pub(crate) unsafe fn configure(config: Config) {
    // SAFETY: the caller's promise.
    unsafe { *CONFIG.0.get() = config };
    interest::set(config.interests);
}
