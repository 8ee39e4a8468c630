//! Directories that are removed while they are held, as `programs/removed.py` has them.

use culvert_e2e::{Case, Driver, on_each_driver};

on_each_driver! {
    removed_directories_stay_for_who_holds_them |case: Case| {
        let program = case.program("removed.py");
        // Fewer inodes than are removed: none may be kept for nobody.
        let few = case.driver() == Some(Driver::Memory);
        let case = if few { case.options("inodes=100") } else { case };
        case.good(&format!("python3 {program} $M"));
    };

    a_removed_file_is_shown_as_deleted |case: Case| {
        case.good(
            script!("removed/a_removed_file_is_shown_as_deleted.sh"),
        );
    };
}
