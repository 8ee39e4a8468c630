//! Mappings of files that change, as `programs/mapping.c` makes them, each group in a process of
//! its own.

use culvert_e2e::{Case, Driver, User, on_each_driver};

fn group(case: &Case, name: &str) {
    let mapping = case.program("mapping");
    case.good(&format!("umask 022; cd $M && exec {mapping} {name}"));
}

on_each_driver! {
    truncation_growth_and_pages_past_the_end |case| group(&case, "sizes");
    calls_and_mappings_agree |case| group(&case, "agree");
    refused |case| group(&case, "refused");
    holes_and_sparse_files |case| group(&case, "holes");
    names_and_times |case| group(&case, "names");
    files_open_elsewhere |case| group(&case, "processes");
    children |case| group(&case, "children");
    stores_and_calls_at_the_same_time |case| group(&case, "together");
}

/// A mapped file of `memory` is a file of the kernel's, too, for which there must be a descriptor
/// left.
#[test]
fn few_descriptors_for_mapped_files() {
    let case =
        Case::new("mapping::few_descriptors_for_mapped_files", User::Me).directory(Driver::Memory);
    group(&case, "descriptors");
}
