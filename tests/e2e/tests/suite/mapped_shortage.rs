//! A file is mapped, and something is short: room for its pages or its bytes, or the right to read
//! it (`programs/mapped_shortage.c`).

use crate::mapped_room::in_little_memory;
use culvert_e2e::{Case, Driver, User, world};

/// What a call says that has failed is so: natively an append needs no room but in the file system.
#[test]
fn an_append_whose_pages_find_no_room_changes_nothing() {
    let program = world().program("mapped_shortage");
    let script = script!(
        "mapped_shortage/an_append_whose_pages_find_no_room_changes_nothing.sh",
        program = program.display()
    );
    if let Some(done) = in_little_memory("append", &script) {
        let want = "append: ENOSPC\nlength: 1048576\nappend: 1048576\nmapping: b\n\
                    file: 1048575 a 1048576 b 1 s\n";
        assert_eq!(done.text(), want.repeat(2), "{}", done.report());
    }
}

/// The program's lines, and those of the log.
fn says(what: &str, user: User, rule: &str, want: &str) {
    if world().only_native || (user == User::Nobody && !world().is_root()) {
        return;
    }
    let case = Case::new(&format!("mapped-shortage-{what}-{user:?}"), user)
        .directory(Driver::NoDescriptor)
        .options(format!("layer=fault,fault.count=run,fault.rule={rule}"));
    let program = case.program("mapped_shortage");
    let behind = case.behind().expect("a directory").join("short");
    let script = format!("{program} {what} $M/short {}", behind.display());
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.text(), want, "{}", done.report());
}

/// What the shadow has not got is not written over what the file has got, and comes to it with the
/// next change.
#[test]
fn an_append_that_cannot_be_read_back_stays_in_the_file() {
    for user in [User::Me, User::Nobody] {
        says(
            "unread",
            user,
            "read+path=/short+offset=1049000+times=1+errno=EIO",
            "append: EIO\nwrite: 1\nmapping: pb\nfile: 1048574 a 1048576 b 1 p 1 s\n",
        );
    }
}

#[test]
fn what_could_not_be_written_back_when_a_mapping_went_is_told_and_tried_again() {
    for user in [User::Me, User::Nobody] {
        says(
            "owed",
            user,
            "write+path=/short+times=4+errno=ENOSPC",
            "munmap: 0\nfsync: ENOSPC\nfsync: ENOSPC\nclose: ENOSPC\nread: s\nfsync: 0\nfile: \
            16384 s\n\
             munmap: 0\nfile: 16383 s 1 t\n",
        );
    }
}

#[test]
fn a_file_that_may_not_be_read_any_more_is_written_and_seen_in_mappings() {
    for driver in [Driver::NoDescriptor, Driver::Layered, Driver::Memory] {
        for user in [User::Me, User::Nobody] {
            if user == User::Nobody && !world().is_root() {
                continue;
            }
            let name = format!("mapped-shortage-blind-{}-{user:?}", driver.name());
            let case = Case::new(&name, user).directory(driver);
            let program = case.program("mapped_shortage");
            case.good(&format!("exec {program} blind $M/file"));
        }
    }
}
