//! Seccomp filters, and sandboxes around them: a program sees what it would see natively.

use culvert_e2e::{Case, on_each_driver};

/// What a filter refuses, the signal for it, and the registers that its handler sees and changes; of calls that are the kernel's, and of calls that
/// are answered without it.
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

on_each_driver! {
    what_a_filter_refuses_is_refused |case| refuses(&case);
    descriptors_are_listed_without_hidden_ones |case| lists_descriptors(&case);
}
