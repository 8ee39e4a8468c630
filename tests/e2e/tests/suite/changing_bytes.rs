//! Every call that changes a file's bytes, as `programs/writing.c` makes them, each group in a process of its own.

use culvert_e2e::{Case, on_each_driver};

fn group(case: &Case, name: &str) {
    let writing = case.program("writing");
    case.good(&format!(
        "umask 022; cd $M && OUTSIDE=$W/outside exec {writing} {name}"
    ));
}

on_each_driver! {
    write |case| group(&case, "write");
    vectors_and_flags |case| group(&case, "vectors");
    buffers_that_end_in_the_middle |case| group(&case, "half");
    append |case| group(&case, "append");
    open_flags_and_files_without_names |case| group(&case, "open");
    size_and_holes |case| group(&case, "size");
    file_size_limit |case| group(&case, "limit");
    umask |case| group(&case, "umask");
    sendfile_splice_and_copies |case| group(&case, "transfer");
    mappings |case| group(&case, "map");
    shared_mappings |case| group(&case, "shared-map");
}
