//! What a process may have is used up by mappings; many processes; children of every kind
//! (`programs/mapped_bounds.c`).

use culvert_e2e::{Case, Driver, User, world};
use std::time::Duration;

/// The program's lines are those that it prints natively.
fn agrees(what: &str, driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-bounds-{what}-{}-{user:?}", driver.name());
    // Some make 65,530 mappings.
    let case = Case::new(&name, user)
        .directory(driver)
        .limit(Duration::from_secs(200));
    let program = case.program("mapped_bounds");
    case.good(&format!("exec {program} $M/file {what}"));
}

#[test]
fn as_many_mappings_as_there_may_be() {
    agrees("mappings", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn as_many_mappings_of_memory_as_there_may_be() {
    agrees("mappings", Driver::Memory, User::Nobody);
}

/// Neither does a pager that cannot live within these bounds keep the program waiting.
#[test]
fn addresses_that_end() {
    agrees("addresses", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn addresses_that_end_where_pages_are_filled_on_demand() {
    agrees("addresses", Driver::NoDescriptor, User::Me);
}

#[test]
fn addresses_that_end_below_a_layer() {
    agrees("addresses", Driver::Layered, User::Nobody);
}

#[test]
fn addresses_that_end_on_memory() {
    agrees("addresses", Driver::Memory, User::Nobody);
}

#[test]
fn two_hundred_processes_store_into_one_file() {
    agrees("processes", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn two_hundred_processes_of_root_store_into_one_file() {
    agrees("processes", Driver::NoDescriptor, User::Me);
}

#[test]
fn two_hundred_processes_store_into_one_file_of_memory() {
    agrees("processes", Driver::Memory, User::Nobody);
}

#[test]
fn children_of_every_kind_store() {
    agrees("forks", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn children_of_every_kind_store_where_pages_are_filled_on_demand() {
    agrees("forks", Driver::NoDescriptor, User::Me);
}

#[test]
fn children_of_every_kind_store_on_memory() {
    agrees("forks", Driver::Memory, User::Nobody);
}
