//! Threads that store into files whose bytes only their driver has, while another thread takes the
//! mapping away (`programs/mapped_threads.c`), or changes or syncs the file.

use culvert_e2e::{Case, Driver, User, world};

fn keeps(what: &str, driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-threads-{what}-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_threads");
    case.good(&format!("umask 022; exec {program} {what} $M/file 100"));
}

#[test]
fn no_store_is_lost_when_a_mapping_goes() {
    keeps("munmap", Driver::NoDescriptor, User::Me);
}

#[test]
fn no_store_is_lost_when_a_mapping_goes_below_a_layer_as_nobody() {
    keeps("munmap", Driver::Layered, User::Nobody);
}

#[test]
fn no_store_is_lost_when_a_mapping_is_replaced() {
    keeps("replaced", Driver::NoDescriptor, User::Me);
}

#[test]
fn no_store_is_lost_when_a_mapping_is_replaced_as_nobody() {
    keeps("replaced", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn no_store_is_lost_when_a_mapping_goes_for_one_that_does_not_come() {
    keeps("refused", Driver::NoDescriptor, User::Me);
}

#[test]
fn no_store_is_lost_when_a_mapping_moves() {
    keeps("moved", Driver::NoDescriptor, User::Me);
}

/// `programs/mapped_places.c`, with a driver that is slow to write, so that threads wait for one
/// another.
#[test]
fn what_is_stored_where_another_file_was_mapped_is_not_taken_for_its() {
    let case = Case::new("mapped-places", User::Me)
        .directory(Driver::NoDescriptor)
        .options("layer=fault,fault.rule=write+delay=1ms");
    let program = case.program("mapped_places");
    case.good(&format!("exec {program} $M 300"));
}

/// `programs/mapped_zeroes.c`.
#[test]
fn what_is_stored_behind_a_range_of_zeroes_stays() {
    let case = Case::new("mapped-zeroes", User::Me)
        .directory(Driver::NoDescriptor)
        .options("layer=fault,fault.rule=allocate+delay=300ms");
    let program = case.program("mapped_zeroes");
    case.good(&format!("exec {program} $M/file"));
}

/// `programs/mapped_direct.c`: reads with O_DIRECT from a file that is not on the mount.
fn device(what: &str, driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let case = Case::new(&format!("mapped-direct-{what}"), user).directory(driver);
    let program = case.program("mapped_direct");
    case.good(&format!("exec {program} {what} $M/file $W/source"));
}

#[test]
fn what_a_device_stores_is_in_the_file() {
    device("read", Driver::NoDescriptor, User::Me);
}

#[test]
fn what_a_device_stores_for_vectors_is_in_the_file() {
    device("vector", Driver::Layered, User::Nobody);
}

#[test]
fn what_a_device_stores_by_a_dup_is_in_the_file() {
    device("dup", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn what_a_device_stores_later_is_in_the_file() {
    device("asynchronous", Driver::NoDescriptor, User::Me);
}
