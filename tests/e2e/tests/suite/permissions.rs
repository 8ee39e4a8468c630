//! Who may read what: modes and owners are checked as on any mount.

use culvert_e2e::{Case, Driver, User, as_each_user, world};

as_each_user! {
    modes_of_ones_own_files |case| { case.odd().good(
        script!("permissions/modes_of_ones_own_files.sh"),
    ); };
}

/// A mount of somebody else's files: what natively is denied is denied here.
#[test]
fn modes_of_others_files() {
    if !world().is_root() {
        return;
    }
    // The user without rights reads the archive of a tree that belongs to root.
    let case = Case::new("others", User::Nobody).mount_of_tester("odd", "tar", "mnt");
    case.good(script!("permissions/modes_of_others_files.sh"));
}

#[test]
fn a_process_that_changes_its_user() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("changes-user", User::Me).odd();
    case.good(script!("permissions/a_process_that_changes_its_user.sh"));
}

/// As daemons do: what was open stays so, also for those who have it open besides.
#[test]
fn a_process_that_gives_its_rights_up_goes_on_writing() {
    if !world().is_root() {
        return;
    }
    let drops = script!("permissions/a_process_that_gives_its_rights_up_goes_on_writing-drops.py");
    for driver in [Driver::Memory, Driver::Driven, Driver::NoDescriptor] {
        let name = format!("gives-up-{driver:?}");
        let case = Case::new(&name, User::Me).directory(driver);
        case.good(&format!(
            "umask 0; cd $M; chmod 777 .; python3 -c \"{drops}\"; cat log; rm log"
        ));
    }
}

/// And on mapping: stores where the driver's file is the kernel's, copies of what is private or
/// never changes everywhere.
#[test]
fn a_process_that_gives_its_rights_up_goes_on_mapping() {
    if !world().is_root() {
        return;
    }
    let maps = script!("permissions/a_process_that_gives_its_rights_up_goes_on_mapping-maps.py");
    let stores = "
shared = mmap.mmap(own.fileno(), 0)
shared[:3] = b'new'
print(os.pread(own.fileno(), 99, 0), mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])";
    for driver in [Driver::Memory, Driver::Driven, Driver::NoDescriptor] {
        let name = format!("gives-up-and-maps-{driver:?}");
        let case = Case::new(&name, User::Me).directory(driver);
        let stores = match driver {
            Driver::NoDescriptor => "",
            _ => stores,
        };
        case.good(&script!(
            "permissions/a_process_that_gives_its_rights_up_goes_on_mapping.sh",
            maps,
            stores
        ));
    }
}

/// What it had open when it changed its user takes no number any more when it is closed.
#[test]
fn a_process_that_gives_its_rights_up_has_all_its_descriptors() {
    if !world().is_root() {
        return;
    }
    let opens =
        script!("permissions/a_process_that_gives_its_rights_up_has_all_its_descriptors-opens.py");
    let case = Case::new("gives-up-descriptors", User::Me).directory(Driver::Memory);
    case.good(&format!(
        "umask 0; cd $M; chmod 777 .; python3 -c \"{opens}\"; rm f*"
    ));
}

#[test]
fn access_judges_by_the_real_user_all_the_way() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("real-user-{driver:?}"), User::Me).directory(driver);
        let program = case.program("real_user.py");
        case.good(&format!("chmod 755 $M; python3 {program} $M"));
    }
}

#[test]
fn a_mount_that_access_looks_at_first_is_opened_by_the_program_itself() {
    if !world().is_root() {
        return;
    }
    // The memory driver's file lies where the real user may not go.
    for driver in [Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("real-user-first-{driver:?}"), User::Me).directory(driver);
        let program = case.program("real_user.py");
        let done = case.good(&format!(
            "chmod 755 $M; umask 022; echo > $M/file; cd /; python3 {program} / $M/file"
        ));
        assert_eq!(done.text(), "ok EACCES ok\n");
    }
}
