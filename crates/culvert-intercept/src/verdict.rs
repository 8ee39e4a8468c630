//! What becomes of a call, and what the way out has to do for that.

use crate::{
    Outcome,
    thread::{Restart, ThreadBlock},
};

/// What `dispatch` tells the assembly to do: leave through `resume` with `result` in rax.
pub(crate) const LEAVE: usize = 0;
/// Execute the call as it stands in the frame, here, then leave through `resume` with what the
/// kernel said.
pub(crate) const EXECUTE: usize = 1;
/// Make a process or thread.
pub(crate) const CLONE: usize = 2;
/// End this thread.
pub(crate) const EXIT: usize = 3;

/// What becomes of a call that the engine has a say in.
pub(crate) enum Verdict {
    /// As the handler says.
    Outcome(Outcome),
    /// It has not happened: deliver the pending signals, then make it again, whatever SA_RESTART
    /// says.
    Again,
    /// It makes a process or thread; everything is prepared.
    Clone,
    /// It ends the thread.
    Exit,
}

/// Makes the way out lead to the site again; `deliver` may change that to EINTR.
pub(crate) fn restart(block: &ThreadBlock, restart: Restart) {
    let frame = &block.frame;
    frame.restart.set(restart as usize);
    frame.resume.set(frame.record().restart());
    frame.result.set(frame.number.get());
}
