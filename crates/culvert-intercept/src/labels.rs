//! The labels of the engine's assembly: where a signal may find a thread (`entry`), and where the
//! kernel calls (`delivery::handler`).

/// Flags that are restored by `popf`: direction, nested task, alignment check. Not the trap flag:
/// `pushf` shows that of a debugger, too.
pub(crate) const RARE_FLAGS: usize = 0x400 | 0x4000 | 0x4_0000;
/// The trap flag.
pub(crate) const TRAP_FLAG: usize = 0x100;

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $symbol:ident;)*) => {
        unsafe extern "C" { $(static $symbol: u8;)* }
        $($(#[$doc])* #[inline] pub(crate) fn $name() -> usize { (&raw const $symbol) as usize })*
    };
}

labels! {
    /// The handler that the kernel knows for all signals.
    signal_handler = culvert_signal;
    /// The engine's own restorer.
    signal_restorer = culvert_signal_return;
    /// Where stubs jump to.
    entry = culvert_entry;
    /// From here to [`inside`] rax is swapped and holds flags.
    swapped = culvert_entry_swapped;
    /// The first access through a GS base that may not be ours.
    probe = culvert_entry_probe;
    /// Where to go on after a fault there.
    foreign = culvert_entry_foreign;
    /// From here on signals are recorded.
    inside = culvert_entry_inside;
    /// The beginning of the way out.
    exit = culvert_exit;
    /// The program's registers are back, but for the jump.
    exit_done = culvert_exit_done;
    /// Behind that jump.
    exit_end = culvert_exit_end;
    /// The part of the way out for rare flags, from here ...
    exit_rare = culvert_exit_rare;
    /// Outside, but for the program's own GS base, which is in rcx.
    exit_borrowed = culvert_exit_borrowed;
    /// ... to here.
    exit_rare_end = culvert_exit_rare_end;
    /// The mask was restored.
    boundary_done = culvert_boundary_done;
    /// The state is INSIDE again.
    boundary_end = culvert_boundary_end;
    /// The state became BOUNDARY to execute a call.
    execute = culvert_execute;
    /// The system-call instruction for that.
    execute_call = culvert_execute_call;
    /// The state is INSIDE again.
    execute_end = culvert_execute_end;
    /// Between the check for signals and ...
    clone_check = culvert_clone_check;
    /// ... the system-call instruction that makes a child.
    clone_call = culvert_clone_call;
    /// The child runs from here ...
    clone_after = culvert_clone_after;
    /// ... to here with its maker's GS base.
    clone_child_end = culvert_clone_child_end;
    /// Where a signal before the clone goes on.
    clone_retry = culvert_clone_retry;
    /// From here to the system-call instruction of a wait ...
    wait_test = culvert_wait_test;
    /// ... which is this one, the signal handler lets a thread go on ...
    wait_call = culvert_wait_call;
    /// ... here.
    wait_interrupted = culvert_wait_interrupted;
    /// A copy of few bytes, from here to ...
    copy_short = culvert_user_short;
    /// ... the beginning of the exact copy.
    copy_exact = culvert_user_exact;
    /// Its string instruction, from here ...
    copy_move = culvert_user_move;
    /// ... to here.
    copy_left = culvert_user_left;
    /// That which writes zeroes, from here ...
    zero_store = culvert_user_store;
    /// ... to here.
    zero_unset = culvert_user_unset;
    /// The search for the end of a string, from here ...
    string_scan = culvert_user_scan;
    /// ... to here.
    string_scanned = culvert_user_scanned;
}
