//! The tables of mounts, which are files of Culvert's own, and those of mappings, which are not.

use culvert_e2e::on_each_driver;

on_each_driver! {
    changes_of_the_mount_table_are_told |case| {
        let program = case.program("mount_tables.py");
        case.good(&format!("exec python3 {program}"));
    };

    files_of_mappings_say_what_is_mapped_when_they_are_read |case| {
        let program = case.program("maps_files.py");
        case.good(&format!("exec python3 {program}"));
    };
}
