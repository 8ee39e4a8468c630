//! Files that are large enough to be filled when they are touched; as an ordinary user, before they
//! are mapped.

use culvert_e2e::{Case, Driver, User, world};

fn agrees(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-on-demand-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_on_demand");
    case.good(&format!(
        "umask 022; for seed in 1 2 3; do {program} $M $seed || exit 1; rm $M/large; done"
    ));
}

#[test]
fn mappings_calls_and_children_agree_on_large_files_without_descriptor() {
    agrees(Driver::NoDescriptor, User::Me);
}

#[test]
fn mappings_calls_and_children_agree_on_large_files_below_a_layer() {
    agrees(Driver::Layered, User::Me);
}

#[test]
fn mappings_calls_and_children_agree_on_large_files_of_ordinary_users() {
    agrees(Driver::NoDescriptor, User::Nobody);
}
