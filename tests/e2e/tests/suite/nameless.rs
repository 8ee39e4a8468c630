//! Files that have no name any more and are held by other programs than opened them, as
//! `programs/nameless.py` has them.

use culvert_e2e::{Case, Driver, as_each_user, on_each_driver};

fn nameless(case: Case) {
    let program = case.program("nameless.py");
    case.good(&format!("exec python3 {program} $M"));
}

on_each_driver! {
    files_without_a_name_go_to_other_programs |case| nameless(case);
}

as_each_user! {
    and_where_files_have_no_descriptor |case| nameless(case.directory(Driver::NoDescriptor));
    and_below_a_layer |case| nameless(case.directory(Driver::Layered));
}
