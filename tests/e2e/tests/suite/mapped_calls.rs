//! Calls about memory in which files are mapped, those of `programs/mapped_calls.c`: small files,
//! and such as are filled on demand.

use culvert_e2e::{Case, Driver, User, world};

fn agrees(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    for pages in [64, 1024] {
        let name = format!("mapped-calls-{pages}-{}-{user:?}", driver.name());
        let case = Case::new(&name, user).directory(driver);
        let program = case.program("mapped_calls");
        case.good(&format!("umask 022; exec {program} $M {pages}"));
    }
}

#[test]
fn calls_about_mappings_without_descriptor() {
    agrees(Driver::NoDescriptor, User::Me);
}

#[test]
fn calls_about_mappings_without_descriptor_as_nobody() {
    agrees(Driver::NoDescriptor, User::Nobody);
}

#[test]
fn calls_about_mappings_below_a_layer() {
    agrees(Driver::Layered, User::Me);
}

#[test]
fn calls_about_mappings_below_a_layer_as_nobody() {
    agrees(Driver::Layered, User::Nobody);
}

#[test]
fn calls_about_mappings_of_driven_files() {
    agrees(Driver::Driven, User::Me);
}

#[test]
fn calls_about_mappings_of_driven_files_as_nobody() {
    agrees(Driver::Driven, User::Nobody);
}

#[test]
fn calls_about_mappings_of_memory() {
    agrees(Driver::Memory, User::Me);
}

#[test]
fn calls_about_mappings_of_memory_as_nobody() {
    agrees(Driver::Memory, User::Nobody);
}
