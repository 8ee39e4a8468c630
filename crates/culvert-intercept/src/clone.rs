//! clone, clone3, fork and vfork.
//!
//! The system call itself is executed by the assembly in `entry.rs`, on the program's own stack.
//! Here is what comes before and after.
//!
//! | child | block | actions |
//! |---|---|---|
//! | thread, or process that shares memory and runs beside its parent | a new one, prepared by the parent | shared, or a copy |
//! | process with memory of its own | its copy of the parent's | its copy |
//! | vfork: shares memory, the parent sleeps | the parent's; what it overwrites is kept (`Kept`) | a copy |

use crate::{
    Call, CloneFlags, Outcome,
    config::config,
    filters,
    quiesce::{self, Others},
    signal::actions,
    thread::{self, INSIDE, Kept, NO_BLOCK, Restart, ThreadBlock},
    user,
    verdict::{self, Verdict},
};
use core::sync::atomic::Ordering::*;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::{Errno, nr};

fn new_kept() -> Option<&'static Kept> {
    let rights = Protection::READ | Protection::WRITE;
    let memory = Mapping::new(Of::Nothing, size_of::<Kept>(), rights).ok()?;
    // SAFETY: there for good, and zeroes make one.
    Some(unsafe { &*memory.leak().cast() })
}

/// What the call asks for; `None` when the kernel will refuse it.
fn requested(call: &Call) -> Option<CloneFlags> {
    match call.number {
        nr::FORK => Some(CloneFlags(0)),
        nr::VFORK => Some(CloneFlags::VFORK),
        // The lowest byte is the signal at the end.
        nr::CLONE => Some(CloneFlags(call.args[0] as u64 & 0xffff_ff00)),
        // CLONE_ARGS_SIZE_VER0
        _ if call.args[1] < 64 => None,
        _ => user::read(call.args[0]).ok().map(CloneFlags),
    }
}

/// Prepares what the call asks for.
pub(crate) fn begin(block: &'static ThreadBlock, call: &Call) -> Verdict {
    let Some(flags) = requested(call) else {
        return Verdict::Outcome(Outcome::Forward);
    };
    let (frame, progress) = (&block.frame, &block.clone);
    let exclusive = !flags.vm();
    frame.child.set(block.address());
    if exclusive {
        // What threads share that have one table of descriptors, or one working directory, changes
        // with such a process.
        let alone = flags.files() || flags.fs();
        quiesce::begin(block, if alone { Others::Outside } else { Others::Away });
    }
    if flags.is_told() {
        (config().fork.before)(flags);
    } else {
        (config().fork.thread)();
    }
    // After that: its block says that it is inside, and whoever wants to be alone would wait for
    // it.
    if flags.vm() && !flags.vfork() {
        quiesce::before_thread(true);
        match thread::take() {
            Some(new) => {
                inherit(block, new, flags);
                frame.child.set(new.address());
            }
            None => frame.child.set(frame.record().resume() | NO_BLOCK),
        }
    }
    if flags.vm() && flags.vfork() && !put_aside(block, flags) {
        (config().fork.parent)(flags, Errno::ENOMEM.negated());
        return Verdict::Outcome(Outcome::Return(Errno::ENOMEM.negated()));
    }
    progress.flags.set(flags.0 as usize);
    progress.exclusive.set(exclusive.into());
    // The child finds it in its copy: to read the record is a page fault to a process that is new.
    frame.resume.set(frame.record().resume());
    Verdict::Clone
}

/// Fills the block of a child that will run beside its parent: it leaves a hook, as its parent
/// does.
fn inherit(block: &ThreadBlock, child: &ThreadBlock, flags: CloneFlags) {
    child.frame.copy_from(&block.frame);
    // The kernel gives it none.
    child.frame.alternate_size.set(0);
    child.frame.restart.set(Restart::No as usize);
    child.clone.flags.set(flags.0 as usize);
    child.clone.exclusive.set(0);
    child.needed.inherit(block.needed.blocked());
    filters::inherit(block, child);
    if flags.files() {
        child.table.store(block.table.load(Relaxed), Relaxed);
    }
    let credentials = block.credentials.load(Relaxed);
    child.credentials.store(credentials, Relaxed);
    child.actions.set(block.actions.get());
    if !flags.sighand()
        && let Some(kept) = new_kept()
    {
        kept.own.copy_from(block.actions());
        child.actions.set(Some(&kept.own));
    }
    child.frame.state.store(INSIDE, Release);
}

/// Puts aside what the vfork child will overwrite.
fn put_aside(block: &ThreadBlock, flags: CloneFlags) -> bool {
    let (frame, progress) = (&block.frame, &block.clone);
    let Some(kept) = progress.spare.replace(None).or_else(new_kept) else {
        return false;
    };
    kept.previous.set(progress.kept.get());
    kept.frame.copy_from(frame);
    kept.pending.set(frame.pending.load(Relaxed) as usize);
    kept.flags.set(flags.0 as usize);
    kept.blocked.set(block.needed.blocked() as usize);
    kept.filters.set(block.filters.get());
    kept.actions.set(block.actions.get());
    if !flags.sighand() {
        kept.own.copy_from(block.actions());
        block.actions.set(Some(&kept.own));
    }
    progress.kept.set(Some(kept));
    block.vforks.fetch_add(1, Relaxed);
    // The parent holds no lock while it sleeps, so others may fork.
    block.waits.store(1, SeqCst);
    true
}

/// Brings back what [`put_aside`] has put aside for the innermost vfork in progress.
fn bring_back(block: &ThreadBlock) {
    let (frame, progress) = (&block.frame, &block.clone);
    if let Some(kept) = progress.kept.get() {
        frame.copy_from(&kept.frame);
        frame.claimed_gs.set(0);
        frame.restart.set(Restart::No as usize);
        // A signal of the parent's may have been recorded since.
        frame.pending.fetch_or(kept.pending.get() as u32, Relaxed);
        block.needed.inherit(kept.blocked.get() as u64);
        block.filters.set(kept.filters.get());
        block.actions.set(kept.actions.get());
        progress.kept.set(kept.previous.get());
        progress.spare.set(Some(kept));
    }
    progress.exclusive.set(0);
    block.vforks.fetch_sub(1, Relaxed);
    // As the child has left them, which may have been killed anywhere.
    block.holds.store(0, Relaxed);
    block.away.store(0, Relaxed);
    quiesce::come_back(block);
}

/// In the parent, after the system call; its result is in the frame.
pub(crate) extern "C" fn parent(block: &'static ThreadBlock) {
    end(block, block.frame.result.get() as isize);
    block.frame.resume.set(block.frame.record().resume());
}

/// Signals came before the system call: everything is undone, and the program makes the call again
/// after them.
pub(crate) extern "C" fn abandon(block: &'static ThreadBlock) {
    end(block, Errno::EINTR.negated());
    verdict::restart(block, Restart::Always);
}

fn end(block: &'static ThreadBlock, result: isize) {
    let progress = &block.clone;
    let flags = progress.flags();
    if flags.vm() && flags.vfork() {
        bring_back(block);
    } else if result < 0
        && flags.vm()
        && let Some(child) = thread::at(block.frame.child.get())
    {
        thread::give_back(child);
    }
    if flags.is_told() {
        (config().fork.parent)(flags, result);
    }
    if progress.exclusive.get() != 0 {
        progress.exclusive.set(0);
        quiesce::end();
    }
    // Kept for a vfork whose child this thread is; its parent finds its own flags again.
    if let Some(kept) = progress.kept.get() {
        progress.flags.set(kept.flags.get());
    }
}

/// In the child, on its hook stack.
pub(crate) extern "C" fn child(block: &'static ThreadBlock) {
    let progress = &block.clone;
    let flags = progress.flags();
    if !flags.vfork() {
        block.fs.store(thread::fs_base(), Relaxed);
    }
    if !flags.vm() {
        thread::only_one_left(block);
        quiesce::alone();
        block.vforks.store(0, Relaxed);
        progress.kept.set(None);
        progress.exclusive.set(0);
        actions::adopt(block.actions());
        quiesce::end();
    } else if flags.vfork() {
        quiesce::come_back(block);
    }
    if flags.clear_sighand() {
        block.actions().clear_handlers();
    }
    if flags.is_told() {
        (config().fork.child)(flags);
    }
    if flags.vm() {
        block.frame.resume.set(block.frame.record().resume());
    }
}
