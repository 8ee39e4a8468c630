//! Programs under limits, filters and memory rules of their own: they work as natively.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};

fn limited(case: Case, kind: &str) {
    let case = case.odd();
    let limits = case.program("limits");
    case.good(&script!("limits/limited.sh", limits, kind));
}

as_each_user! {
    no_limit |case| limited(case, "none");
    address_space |case| limited(case, "as");
    few_descriptors |case| limited(case, "nofile");
    locked_memory |case| limited(case, "mlockall");
    memory_deny_write_execute |case| limited(case, "mdwe");

    a_seccomp_filter |case| {
        let case = case.odd();
        let limits = case.program("limits");
        case.good(&format!("cd $M && exec {limits} seccomp self"));
    };
}

/// The kernel's file that a mapped one has become needs no open under the filter.
fn reads_what_is_open(case: &Case) {
    let program = case.program("confined_reads");
    case.good(&format!("exec {program} $M/file"));
}

/// What it stores afterwards is brought to the file by others.
#[test]
fn a_filter_that_allows_to_close_what_is_mapped() {
    for driver in [Driver::Memory, Driver::NoDescriptor] {
        let case = Case::new(&format!("filtered-close-{driver:?}"), User::Me).directory(driver);
        let program = case.program("confined_reads");
        let done = case.good(&format!(
            "{{ {program} $M/file closes; echo $?; head -c 35 $M/file; }} 2>/dev/null"
        ));
        assert_eq!(
            done.text(),
            "closed\n137\nSTORED BY a call, and by a mapping\n"
        );
    }
}

/// Calls that would bring what it has stored to the file would kill it: others bring it.
#[test]
fn a_filter_that_allows_to_end_what_has_a_mapping() {
    for (driver, user) in [
        (Driver::Memory, User::Me),
        (Driver::NoDescriptor, User::Me),
        (Driver::NoDescriptor, User::Nobody),
    ] {
        if user == User::Nobody && !culvert_e2e::world().is_root() {
            continue;
        }
        for end in ["exits", "unmaps"] {
            let name = format!("filtered-{end}-{driver:?}-{user:?}");
            let case = Case::new(&name, user).directory(driver);
            let program = case.program("confined_reads");
            let done = case.good(&format!(
                "{program} $M/file {end}; echo $?; head -c 35 $M/file"
            ));
            let want = "ends\n0\nSTORED by a call, and by a mapping\n";
            assert_eq!(done.text(), want, "{}", done.report());
        }
    }
}

/// Nothing is confined by a question, and by a filter that the kernel refuses.
fn asks_for_filters(case: &Case) {
    let program = case.program("confined_reads");
    case.good(&format!("{program} $M/file asks; head -c 35 $M/file"));
}

on_each_driver! {
    who_asks_for_filters_is_under_none |case| asks_for_filters(&case);
    a_filter_that_allows_little_more_than_reading |case| reads_what_is_open(&case);
}
