//! Several processes at the same names at once, as `programs/races.c` has them: no call may end as
//! it could not natively.

use culvert_e2e::{Case, Driver, as_each_user, on_each_driver};

/// A few seconds; `docs/testing.md` has the long form.
fn races(case: Case) {
    let races = case.program("races");
    case.good(&format!("exec {races} $M 300"));
}

on_each_driver! {
    names_that_change_under_a_call_do_not_show |case| races(case);
}

as_each_user! {
    nor_where_files_have_no_descriptor |case| races(case.directory(Driver::NoDescriptor));
}
