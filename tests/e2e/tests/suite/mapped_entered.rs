//! Files of which more is entered into the page tables than a program has touched: as many faults
//! as natively would do, stores that are noted, guards that stay.

use culvert_e2e::{Case, Driver, User, world};

fn agrees(what: &str, driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-entered-{what}-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_entered");
    case.good(&format!("umask 022; {program} {what} $M/file"));
}

#[test]
fn each_page_needs_no_fault_of_its_own() {
    agrees("faults", Driver::NoDescriptor, User::Me);
}

#[test]
fn each_page_needs_no_fault_of_its_own_below_a_layer() {
    agrees("faults", Driver::Layered, User::Me);
}

#[test]
fn each_page_needs_no_fault_of_its_own_as_an_ordinary_user() {
    agrees("faults", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn children_store_into_what_was_looked_at() {
    agrees("stores", Driver::NoDescriptor, User::Me);
}

#[test]
fn children_store_into_what_was_looked_at_as_an_ordinary_user() {
    agrees("stores", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn a_guard_stays() {
    agrees("guarded", Driver::NoDescriptor, User::Me);
}

#[test]
fn a_guard_stays_as_an_ordinary_user() {
    agrees("guarded", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn a_store_in_a_page_that_has_left_the_page_tables() {
    agrees("left", Driver::NoDescriptor, User::Me);
}

#[test]
fn a_store_in_a_page_that_has_left_the_page_tables_below_a_layer() {
    agrees("left", Driver::Layered, User::Me);
}
