//! Inside a hook we are the kernel: pointers, signals, threads.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};

fn signals(case: Case, group: &str) {
    let case = case.odd();
    let signals = case.program("signals");
    case.good(&format!("cd $M && exec {signals} {group}"));
}

fn threads(case: Case, count: usize) {
    let case = case.odd();
    let threads = case.program("threads");
    case.good(&format!("cd $M && exec {threads} {count}"));
}

on_each_driver! {
    what_does_not_wait_never_ends_with_eintr |case| {
        let program = case.program("never_waits");
        case.good(&format!("exec {program} $M"));
    };
}

as_each_user! {
    a_bad_pointer_is_efault |case| {
        let case = case.odd();
        let efault = case.program("efault");
        case.good(&format!("cd $M && exec {efault}"));
    };
    signals_during_io |case| signals(case, "counted");
    io_in_a_handler |case| signals(case, "handler_io");
    siglongjmp_out_of_a_read |case| signals(case, "siglongjmp");
    alternate_stacks |case| signals(case, "altstack");
    signal_state_is_the_programs_own |case| signals(case, "state");
    faults_kill_with_the_right_signal |case| signals(case, "killed");
    waiting_calls_are_interrupted |case| signals(case, "waiting");
    signals_to_reading_threads |case| signals(case, "threads");
    two_hundred_threads_with_dlopen_and_fork |case| threads(case, 200);
}

#[test]
fn a_thousand_threads_with_dlopen_and_fork() {
    threads(Case::new("a_thousand_threads", culvert_e2e::User::Me), 1000);
}

#[test]
fn a_hook_that_outgrows_its_stack_changes_nothing() {
    let case = Case::new("hook_stack", User::Me);
    let program = case.program("hook_stack");
    let done = case.through_culvert(&[&program]);
    if !culvert_e2e::world().only_native {
        let expected = "this is the stack\nended by SIGSEGV, at its end\n";
        assert_eq!(done.text(), expected, "{}", done.report());
    }
}

#[test]
fn what_goes_past_hooks_is_refused() {
    let case = Case::new("refused", culvert_e2e::User::Me).odd();
    let refused = case.program("refused");
    let done = case.through_culvert(&[
        &refused,
        culvert_e2e::world()
            .path("mnt/hello.txt")
            .to_str()
            .expect("plain"),
    ]);
    if !culvert_e2e::world().only_native {
        assert_eq!(
            done.text(),
            "handle none\nstat 0\nread 5\n",
            "{}",
            done.report()
        );
    }
}

/// What stands in the kernel for a descriptor of a mount is not answered for: these calls are
/// refused, or mean the file.
#[test]
fn calls_on_a_descriptor_alone() {
    if culvert_e2e::world().only_native {
        return;
    }
    const REFUSED: &str = " open_tree EOPNOTSUPP open_tree-clone EOPNOTSUPP open_tree_attr \
        EOPNOTSUPP mount_setattr EINVAL fspick EOPNOTSUPP \
         file_getattr EOPNOTSUPP file_setattr EOPNOTSUPP name_to_handle_at EOPNOTSUPP\n  ";
    const DONE: &str =
        " getxattrat ENODATA listxattrat works removexattrat ENODATA same works created works\n";
    const PATH: &str =
        " getxattrat EBADF listxattrat EBADF removexattrat EBADF same works created works\n";
    for driver in [Driver::Driven, Driver::Memory, Driver::Layered] {
        let case = Case::new(&format!("by-descriptor-{driver:?}"), User::Me).directory(driver);
        let program = case.program("by_descriptor");
        // Private, and known to the kernel: the child has inherited nothing.
        let done = case.through_culvert(&["bash", "-c", &format!("umask 022; {program} $M")]);
        let expected = format!("directory:{REFUSED}{DONE}file:{REFUSED}{DONE}path:{REFUSED}{PATH}");
        assert_eq!(done.text(), expected, "{}", done.report());
    }
}
