//! What a system call comes to.

use culvert::Errno;

/// What goes into rax, or an errno.
pub type Answer = Result<usize, Errno>;

/// A wait was interrupted by a signal: it is delivered, then the call is made again or ends with
/// EINTR (the kernel's ERESTARTSYS).
pub const RESTART: Errno = culvert_intercept::wait::RESTART;

/// The call is the kernel's after all: its descriptor has become one on the file itself since the
/// call began.
pub const FORWARD: Errno = Errno::new(513);
