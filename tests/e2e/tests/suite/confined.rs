//! Seccomp filters, and sandboxes around them: a program sees what it would see natively.

use culvert_e2e::{Case, Driver, User, not_tested, on_each_driver};

/// What a filter refuses, the signal for it, and the registers that its handler sees and changes;
/// of calls that are the kernel's, and of calls that are answered without it.
fn refuses(case: &Case) {
    let program = case.program("refused_calls");
    case.good(&format!(
        "echo hello there > $M/hello.txt; exec {program} $M"
    ));
}

/// Nothing is listed that the program has not opened, by whatever way to the directory.
fn lists_descriptors(case: &Case) {
    let program = case.program("listed_descriptors");
    case.good(&format!("echo hello > $M/hello.txt; {program} $M; exit $?"));
}

#[test]
fn debuggers_are_told_of_one_namespace() {
    let case = Case::new("told-to-debuggers", User::Me).directory(Driver::Memory);
    let program = case.program("told_to_debuggers");
    case.good(&format!("exec {program}"));
}

/// Errors of execve and execveat, and which of two is told.
fn fails_to_execute(case: &Case) {
    let program = case.program("exec_errors");
    case.good(&script!("confined/fails_to_execute.sh", program));
}

/// Compiled WebAssembly, Firefox's among it, sets the GS base by an instruction that nobody sees.
fn uses_the_gs_base(case: &Case) {
    if !std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" fsgsbase")) {
        return not_tested("this processor has no instructions for the GS base");
    }
    let program = case.program("own_gs_base");
    case.good(&format!("echo hello > $M/hello.txt; exec {program} $M"));
}

on_each_driver! {
    execve_fails_as_natively |case| fails_to_execute(&case);
    a_program_that_uses_the_gs_base_keeps_its_mounts |case| uses_the_gs_base(&case);
    what_a_filter_refuses_is_refused |case| refuses(&case);
    descriptors_are_listed_without_hidden_ones |case| lists_descriptors(&case);
}
