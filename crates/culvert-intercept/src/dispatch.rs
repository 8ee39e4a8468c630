//! From the entry to the handler, and what the engine itself does about a call.

use crate::{
    Call, Interest, Outcome, clone,
    config::config,
    delivery::{alternate, mask},
    descriptors, filters, interest, quiesce,
    signal::set_mask,
    thread::{self, Restart, ThreadBlock, Wait, Word},
    verdict::{self, Verdict, restart},
    wait,
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::{Errno, nr, syscall};

/// Called by the entry, on the hook stack. Leaves in the frame what the way out needs and returns
/// which one.
pub(crate) extern "C" fn dispatch(block: &'static ThreadBlock, call: &mut Call) -> usize {
    let frame = &block.frame;
    if frame.alternate_held.get() != 0 {
        alternate::take_away(block);
    }
    if quiesce::is_forking() {
        quiesce::wait(block);
    }
    let record = frame.record();
    let number = call.number;
    frame.number.set(number);
    frame.refused.set(0);
    frame.wait.set(Wait::None as usize);
    frame.program_gs.set(frame.claimed_gs.get());
    frame.claimed_gs.set(0);
    if block.filters.is_some() && filters::refuse(block, call, record) {
        frame.result.set(number);
        frame.resume.set(record.forward());
        return verdict::LEAVE;
    }
    let verdict = if record.number().is_none() && !is_offered(call) {
        Verdict::Outcome(Outcome::Forward)
    } else if interest::is_own(number) {
        own(block, call)
    } else {
        Verdict::Outcome((config().handler)(call))
    };
    match verdict {
        Verdict::Outcome(Outcome::Return(value)) => {
            frame.result.set(value as usize);
            frame.resume.set(record.resume());
        }
        Verdict::Outcome(Outcome::Forward) => {
            if call.number != number || differ(&call.args, &frame.saved) {
                frame.resume.set(record.resume());
                return verdict::EXECUTE;
            }
            frame.result.set(number);
            frame.resume.set(record.forward());
        }
        Verdict::Outcome(Outcome::Restart) if frame.wait.get() == Wait::Preceded as usize => {
            restart(block, Restart::Always);
        }
        Verdict::Outcome(Outcome::Restart) => restart(block, Restart::Allowed),
        Verdict::Again => restart(block, Restart::Always),
        Verdict::Clone => return verdict::CLONE,
        Verdict::Exit => return verdict::EXIT,
    }
    verdict::LEAVE
}

/// In registers, not by memcmp: this is on every forwarded call's way.
#[inline]
fn differ(one: &[usize; 6], other: &[Word; 6]) -> bool {
    one.iter()
        .zip(other)
        .fold(0, |bits, (one, other)| bits | (one ^ other.get()))
        != 0
}

/// Signals came before the call began: the program makes it again after them.
pub(crate) extern "C" fn again(block: &'static ThreadBlock) {
    restart(block, Restart::Always);
}

/// The filter of stubs, for sites whose number they do not know.
#[inline(never)]
fn is_offered(call: &Call) -> bool {
    let class = |position: usize| descriptors::get(call.args[position] as i32);
    let foreign = |position| class(position) == descriptors::FOREIGN;
    let kernels = |position| matches!(class(position), descriptors::FOREIGN | descriptors::BYTES);
    match interest::of(call.number) {
        Interest::Never => false,
        Interest::Always => true,
        Interest::Descriptor0 => !foreign(0),
        Interest::Bytes0 => !kernels(0),
        Interest::Bytes01 => !(kernels(0) && kernels(1)),
        Interest::Bytes02 => !(kernels(0) && kernels(2)),
    }
}

/// Calls that the engine must see. The embedder's handler comes first; what it forwards is done
/// here. Not inlined, so that `dispatch` saves few registers.
#[inline(never)]
fn own(block: &'static ThreadBlock, call: &mut Call) -> Verdict {
    let number = call.number;
    let outcome = match interest::is_wished(number) {
        false => Outcome::Forward,
        true => (config().handler)(call),
    };
    if outcome == Outcome::Restart && matches!(number, nr::EXECVE | nr::EXECVEAT) {
        return Verdict::Again; // no exec fails with EINTR
    }
    if outcome != Outcome::Forward || call.number != number {
        return Verdict::Outcome(outcome);
    }
    match number {
        nr::CLONE | nr::CLONE3 | nr::FORK | nr::VFORK => return clone::begin(block, call),
        // A vfork child ends as a process; its block is its parent's.
        nr::EXIT if !block.is_vfork_child() => {
            set_mask(!0);
            thread::about_to_end();
            return Verdict::Exit;
        }
        nr::RT_SIGACTION => {
            let done = block.actions().sigaction(&call.args);
            return Verdict::Outcome(Outcome::Return(done.map_or_else(Errno::negated, |()| 0)));
        }
        nr::RT_SIGPROCMASK => return mask::sigprocmask(block, &call.args),
        nr::RT_SIGSUSPEND | nr::PPOLL | nr::PSELECT6 | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => {
            mask::lend(block, number, &mut call.args)
        }
        nr::SIGALTSTACK => alternate::note(block, call.args[0]),
        nr::MMAP | nr::MPROTECT | nr::PKEY_MPROTECT => return map(block, call),
        nr::EXECVE | nr::EXECVEAT => return execute(call),
        nr::ARCH_PRCTL => return arch_prctl(block, call),
        _ => {}
    }
    Verdict::Outcome(Outcome::Forward)
}

/// Code that becomes executable is patched before anybody can run it.
fn map(block: &ThreadBlock, call: &Call) -> Verdict {
    const PROT_EXEC: usize = 4;
    if call.number == nr::MMAP
        && let Some(result) = crate::install::image_mapped(block, call)
    {
        return Verdict::Outcome(Outcome::Return(result));
    }
    if call.args[2] & PROT_EXEC == 0 || !config().patch {
        return Verdict::Outcome(Outcome::Forward);
    }
    // SAFETY: the program's own call.
    let result = unsafe { syscall::raw(call.number, call.args) };
    if let Ok(value) = Errno::check(result) {
        let start = if call.number == nr::MMAP {
            value
        } else {
            call.args[0]
        };
        crate::code_mapped(start, call.args[1]);
    }
    Verdict::Outcome(Outcome::Return(result))
}

/// An exec that the embedder leaves alone.
fn execute(call: &Call) -> Verdict {
    crate::before_exec();
    // Not after a signal was recorded: the new program would inherit the mask, and miss the signal.
    // SAFETY: the program's own call; when it succeeds nothing of the engine is left.
    let result = unsafe { wait::interruptible(call.number, call.args) };
    crate::exec_failed();
    result.map_or(Verdict::Again, |result| {
        Verdict::Outcome(Outcome::Return(result))
    })
}

/// The program's own GS base is given to it on the way out, and taken away on the way in
/// (`adopt`).
fn arch_prctl(block: &ThreadBlock, call: &Call) -> Verdict {
    const ARCH_SET_GS: usize = 0x1001;
    const ARCH_SET_FS: usize = 0x1002;
    const ARCH_GET_GS: usize = 0x1004;
    /// `TASK_SIZE_MAX` (arch/x86/include/asm/page_64.h), beyond which the kernel says EPERM.
    const LIMIT: usize = (1 << 47) - 4096;
    let frame = &block.frame;
    let done = match call.args[0] as u32 as usize {
        ARCH_SET_GS if call.args[1] >= LIMIT => Err(Errno::EPERM),
        ARCH_SET_GS => {
            if call.args[1] != 0 {
                culvert_sys::waits::end();
            }
            frame.program_gs.set(call.args[1]);
            Ok(())
        }
        ARCH_GET_GS => {
            let base = frame.program_gs.get();
            crate::user::write(call.args[1], &base).map_err(|_| Errno::EFAULT)
        }
        ARCH_SET_FS => {
            block.fs.store(call.args[1], Relaxed);
            return Verdict::Outcome(Outcome::Forward);
        }
        _ => return Verdict::Outcome(Outcome::Forward),
    };
    Verdict::Outcome(Outcome::Return(done.map_or_else(Errno::negated, |()| 0)))
}
