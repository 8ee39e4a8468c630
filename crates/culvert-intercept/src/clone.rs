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
    thread::{self, Frame, INSIDE, InProgress, Kept, NO_BLOCK, Restart, ThreadBlock},
    user,
    verdict::{self, Verdict},
};
use core::{
    ptr::{from_ref, null_mut},
    sync::atomic::Ordering::*,
};
use culvert_sys::{Errno, nr, syscall};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
fn new_kept() -> *mut Kept {
    let length = size_of::<Kept>().next_multiple_of(4096);
    // SAFETY: a fresh mapping, readable and writable, private and anonymous.
    unsafe {
        syscall::call(
            nr::MMAP,
            [
                culvert_sys::place::hint(length),
                length,
                3,
                0x22,
                usize::MAX,
                0,
            ],
        )
    }
    .map_or(null_mut(), |address| address as *mut Kept)
}

/// What the call asks for; `None` when the kernel will refuse it.
fn requested(call: &Call) -> Option<CloneFlags> {
    match call.number {
        nr::FORK => Some(CloneFlags(0)),
        nr::VFORK => Some(CloneFlags(CLONE_VM | CLONE_VFORK)),
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
    // SAFETY: the thread's own block, in a hook.
    let (frame, progress) = unsafe { (&mut *block.frame.get(), &mut *block.clone.get()) };
    let exclusive = !flags.vm();
    frame.child = from_ref(block) as usize;
    if exclusive {
        // What threads share that have one table of descriptors, or one working directory, changes
        // with such a process.
        let alone = flags.files() || flags.fs();
        quiesce::begin(block, if alone { Others::Outside } else { Others::Away });
    }
    if flags.is_told() {
        (config().fork.before)(flags);
    }
    // After that: its block says that it is inside, and whoever wants to be alone would wait for
    // it.
    if flags.vm() && !flags.vfork() {
        quiesce::before_thread(true);
        match thread::take() {
            Some(new) => {
                inherit(block, new, frame, flags);
                frame.child = from_ref(new) as usize;
            }
            None => frame.child = frame.record().resume | NO_BLOCK,
        }
    }
    if flags.vm() && flags.vfork() && !put_aside(block, frame, progress, flags) {
        (config().fork.parent)(flags, Errno::ENOMEM.negated());
        return Verdict::Outcome(Outcome::Return(Errno::ENOMEM.negated()));
    }
    progress.flags = flags;
    progress.exclusive = exclusive;
    Verdict::Clone
}

/// Fills the block of a child that will run beside its parent: it leaves a hook, as its parent
/// does.
fn inherit(block: &ThreadBlock, child: &ThreadBlock, frame: &Frame, flags: CloneFlags) {
    // SAFETY: nobody uses the child's block yet.
    let (own, progress) = unsafe { (&mut *child.frame.get(), &mut *child.clone.get()) };
    own.record = frame.record;
    own.flags = frame.flags;
    own.rflags = frame.rflags;
    own.saved = frame.saved;
    own.number = frame.number;
    own.program_gs = frame.program_gs;
    own.mxcsr = frame.mxcsr;
    own.vectors = frame.vectors;
    own.restart = Restart::No;
    progress.flags = flags;
    progress.exclusive = false;
    child.needed.inherit(block.needed.blocked());
    filters::inherit(block, child);
    if flags.files() {
        child.table.store(block.table.load(Relaxed), Relaxed);
    }
    let credentials = block.credentials.load(Relaxed);
    child.credentials.store(credentials, Relaxed);
    let table = block.actions.load(Relaxed);
    child.actions.store(table, Relaxed);
    if !flags.sighand() {
        let kept = new_kept();
        if !kept.is_null() {
            // SAFETY: memory for it; the table is that of a running process.
            unsafe {
                (*table).copy_to(&raw mut (*kept).own);
                child.actions.store(&raw mut (*kept).own, Relaxed);
            }
        }
    }
    child.state().store(INSIDE, Release);
}

/// Puts aside what the vfork child will overwrite.
fn put_aside(
    block: &ThreadBlock,
    frame: &Frame,
    progress: &mut InProgress,
    flags: CloneFlags,
) -> bool {
    let kept = if progress.spare.is_null() {
        new_kept()
    } else {
        core::mem::replace(&mut progress.spare, null_mut())
    };
    if kept.is_null() {
        return false;
    }
    let actions = block.actions.load(Relaxed);
    // SAFETY: memory for one; frames are plain values, copied while the thread is here.
    unsafe {
        (&raw mut (*kept).previous).write(progress.kept);
        core::ptr::copy_nonoverlapping(from_ref(frame), &raw mut (*kept).frame, 1);
        (&raw mut (*kept).flags).write(flags);
        (&raw mut (*kept).blocked).write(block.needed.blocked());
        (&raw mut (*kept).filters).write(block.filters.load(Relaxed));
        (&raw mut (*kept).actions).write(actions);
        if !flags.sighand() {
            (*actions).copy_to(&raw mut (*kept).own);
            block.actions.store(&raw mut (*kept).own, Relaxed);
        }
    }
    progress.kept = kept;
    block.vforks.fetch_add(1, Relaxed);
    // The parent holds no lock while it sleeps, so others may fork.
    block.waits.store(1, SeqCst);
    true
}

/// Brings it back.
fn bring_back(block: &ThreadBlock, frame: &mut Frame, progress: &mut InProgress) {
    let kept = progress.kept;
    // SAFETY: the innermost vfork in progress is this one.
    unsafe {
        let from = &(*kept).frame;
        frame.rsp = from.rsp;
        frame.record = from.record;
        frame.flags = from.flags;
        frame.rflags = from.rflags;
        frame.saved = from.saved;
        frame.number = from.number;
        frame.program_gs = from.program_gs;
        frame.claimed_gs = 0;
        frame.mxcsr = from.mxcsr;
        frame.vectors = from.vectors;
        frame.alternate_base = from.alternate_base;
        frame.alternate_size = from.alternate_size;
        frame.alternate_flags = from.alternate_flags;
        frame.restart = Restart::No;
        // A signal of the parent's may have been recorded since.
        block
            .pending()
            .fetch_or(from.pending.load(Relaxed), Relaxed);
        block.needed.inherit((*kept).blocked);
        block.filters.store((*kept).filters, Relaxed);
        block.actions.store((*kept).actions, Relaxed);
        progress.exclusive = false;
        progress.kept = (*kept).previous;
    }
    progress.spare = kept;
    block.vforks.fetch_sub(1, Relaxed);
    // As the child has left them, which may have been killed anywhere.
    block.holds.store(0, Relaxed);
    block.away.store(0, Relaxed);
    quiesce::come_back(block);
}

/// In the parent, after the system call; its result is in the frame.
pub(crate) extern "C" fn parent(block: &'static ThreadBlock) {
    // SAFETY: the thread's own block, in a hook.
    let (frame, progress) = unsafe { (&mut *block.frame.get(), &mut *block.clone.get()) };
    let result = frame.result;
    end(block, frame, progress, result);
    frame.resume = frame.record().resume;
}

/// Signals came before the system call: everything is undone, and the program makes the call again
/// after them.
pub(crate) extern "C" fn abandon(block: &'static ThreadBlock) {
    // SAFETY: the thread's own block, in a hook.
    let (frame, progress) = unsafe { (&mut *block.frame.get(), &mut *block.clone.get()) };
    end(block, frame, progress, Errno::EINTR.negated());
    verdict::restart(block, Restart::Always);
}

fn end(block: &'static ThreadBlock, frame: &mut Frame, progress: &mut InProgress, result: isize) {
    let flags = progress.flags;
    if flags.vm() && flags.vfork() {
        bring_back(block, frame, progress);
    } else if result < 0 && flags.vm() && frame.child & NO_BLOCK == 0 {
        // SAFETY: the block that `begin` took; no thread has come to use it.
        thread::give_back(unsafe { &*(frame.child as *const ThreadBlock) });
    }
    if flags.is_told() {
        (config().fork.parent)(flags, result);
    }
    if progress.exclusive {
        progress.exclusive = false;
        quiesce::end();
    }
    // SAFETY: kept for a vfork whose child this thread is; its parent finds its own flags again.
    if let Some(kept) = unsafe { progress.kept.as_ref() } {
        progress.flags = kept.flags;
    }
}

/// In the child, on its hook stack.
pub(crate) extern "C" fn child(block: &'static ThreadBlock) {
    // SAFETY: the thread's own block, in a hook.
    let (frame, progress) = unsafe { (&mut *block.frame.get(), &mut *block.clone.get()) };
    let flags = progress.flags;
    if !flags.vfork() {
        block.fs.store(thread::fs_base(), Relaxed);
    }
    if !flags.vm() {
        thread::only_one_left(block);
        quiesce::alone();
        block.vforks.store(0, Relaxed);
        progress.kept = null_mut();
        progress.exclusive = false;
        actions::adopt(block.actions.load(Relaxed));
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
    frame.resume = frame.record().resume;
}
